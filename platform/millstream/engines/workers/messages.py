"""The messages between the roles of a run: the coordinator, the readers and the sequencer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millstream.log.epochs import Epoch, PartitionName
from millstream.log.ranges import Range
from millstream.state.layers import Sections
from millstream.state.stored_states import StoredStates
from millstream.steps.chain import EpochInProgress
from millstream.steps.outcome import Outcome
from millstream.steps.processor import EpochResult

__all__ = [
    "Allow",
    "Done",
    "EpochPart",
    "Failed",
    "Finish",
    "Finished",
    "Message",
    "Read",
    "Restore",
    "Skip",
    "StateRequest",
    "StateWritten",
    "Take",
]


@dataclass(frozen=True)
class Restore:
    """To the roles with state, as their first message: continue from these states.

    The message names sections of layers, those of the receiver only; the receiver reads them from the files.
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
class EpochPart:
    """From a reader to the owners of keys and to the sequencer: one part of an epoch.

    `names` has the partitions by rank, of those whose names the sender has not sent before.
    """

    part: EpochInProgress
    names: Mapping[int, PartitionName] = field(default_factory=dict)


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
    Restore | Skip | Read | Take | Allow | EpochPart | Done | StateRequest | StateWritten | Finish | Finished | Failed
)
