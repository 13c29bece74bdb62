"""The messages between the roles of a run: the coordinator, the readers and the sequencer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from millstream.digests import Digest
from millstream.log.epochs import Epoch, PartitionName, Scores
from millstream.log.ranges import Range
from millstream.state.layers import Sections
from millstream.state.stored_states import StoredStates
from millstream.steps.outcome import Outcome
from millstream.steps.processor import EpochResult
from millstream.substreams import Watermark

__all__ = [
    "Allow",
    "Boundary",
    "Done",
    "EpochPart",
    "Failed",
    "Finish",
    "Finished",
    "Message",
    "Read",
    "Report",
    "Restore",
    "Round",
    "SentBack",
    "Skip",
    "StateRequest",
    "StateWritten",
    "Take",
]


@dataclass(frozen=True)
class Restore:
    """To the roles with state, as their first message: continue from these states.

    The message names sections of layers, those of the receiver's steps and of event time; the receiver reads them from
    the files.
    """

    states: StoredStates
    partitions: Sequence[PartitionName]


@dataclass(frozen=True)
class Skip:
    """To the sequencer: this epoch is lost to the state (at_most_once)."""

    epoch: Epoch


@dataclass(frozen=True)
class Read:
    """To a reader: read an epoch, which was cut at the time `at`, and run the first steps."""

    epoch: int
    at: int
    ranges: Sequence[Range]


@dataclass(frozen=True)
class Take:
    """To the sequencer: the next epoch, with its cut and events."""

    epoch: Epoch


@dataclass(frozen=True)
class Allow:
    """To the roles with state: the epochs [start, stop) may change state."""

    start: int
    stop: int


@dataclass(frozen=True)
class Report:
    """The results of a leg in one role, for the receipt of an epoch and for sinks.

    `inputs` and `latest` are of the log's records, as in `EpochInProgress`. `outputs` has the rows of each phase, and
    `rounds` the number of rounds of each cycle.
    """

    inputs: Mapping[int, Digest]
    latest: Mapping[int, int | None]
    streams: Mapping[str, Digest]
    scores: Mapping[str, Scores]
    outputs: Sequence[Mapping[str, Sequence[pa.Table]]]
    rounds: Mapping[str, int]


@dataclass(frozen=True)
class EpochPart:
    """Between readers and the sequencer: all that a leg made for the receiver in one phase of an epoch.

    For a leg of the same cycle, it is all that the leg made in one `round`.

    `tables` has by receiving leg the streams that this leg reads. The `report` comes with the last phase. `names` has
    the partitions by rank, of those whose names the sender has not sent before.
    """

    epoch: int
    leg: int
    phase: int
    sender: int
    tables: Mapping[int, Mapping[str, pa.Table]]
    report: Report | None = None
    names: Mapping[int, PartitionName] = field(default_factory=dict)
    round: int = 0

    @property
    def size(self) -> int:
        """The number of records in all streams."""
        return sum(table.num_rows for tables in self.tables.values() for table in tables.values())


@dataclass(frozen=True)
class Boundary:
    """From the sequencer to readers with legs to which something happens at a boundary: the epoch's boundary.

    `watermark` is that of the sources, if it has risen.
    """

    epoch: int
    watermark: Watermark | None


@dataclass(frozen=True)
class SentBack:
    """From a reader to the sequencer: how many records a leg sends back for this round of a cycle.

    `first` is the first of them: its back edge, its place in the epoch, its rank and its offset; and its description,
    because the sequencer may not know the name of its partition yet.
    """

    epoch: int
    cycle: str
    round: int
    records: int
    first: tuple[int, int, int, int, str] | None = None


@dataclass(frozen=True)
class Round:
    """From the sequencer to readers: this round of a cycle begins; or the cycle is `over`, after so many rounds."""

    epoch: int
    cycle: str
    round: int
    over: bool = False


@dataclass(frozen=True)
class Done:
    """To the coordinator: the result of an epoch after all steps."""

    result: EpochResult


@dataclass(frozen=True)
class StateRequest:
    """To the roles with state: write your sections of the state after the epochs that were allowed so far.

    `layer` is the name of the file, and `number` that of the request.
    """

    number: int
    layer: str


@dataclass(frozen=True)
class StateWritten:
    """To the coordinator: the layer for the `StateRequest` with this number is durable; the sections of all state."""

    number: int
    sections: Sections


@dataclass(frozen=True)
class Finish:
    """To the roles with state: no epoch follows; send the digest of your state."""


@dataclass(frozen=True)
class Finished:
    """To the coordinator: the digests of a role's state, and the fingerprint of the model if the role has it."""

    outcome: Outcome


@dataclass(frozen=True)
class Failed:
    """To the coordinator: a role failed. `epoch` is set if a reader failed while it read ahead."""

    error: Exception
    epoch: int | None = None


Message = (
    Restore
    | Skip
    | Read
    | Take
    | Allow
    | EpochPart
    | Boundary
    | SentBack
    | Round
    | Done
    | StateRequest
    | StateWritten
    | Finish
    | Finished
    | Failed
)
