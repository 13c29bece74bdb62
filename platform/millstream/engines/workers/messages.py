"""The messages between the roles of a run: the coordinator, the readers and the sequencer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millstream.arrays import Array
from millstream.log.epochs import Epoch, PartitionName
from millstream.log.ranges import Range
from millstream.state.checkpoints import States
from millstream.steps.chain import EpochInProgress
from millstream.steps.processor import EpochResult

__all__ = [
    "Allow",
    "Done",
    "EpochPart",
    "Failed",
    "Message",
    "Read",
    "Restore",
    "Rows",
    "Skip",
    "StateReply",
    "StateRequest",
    "Take",
]


@dataclass(frozen=True)
class Restore:
    """To the roles with state, as their first message: continue from these states."""

    states: States
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
    """To the roles with state: send the state after the epochs that were allowed so far."""

    number: int


@dataclass(frozen=True)
class Rows:
    """The rows of an array that changed since the array was last sent: their indices and values."""

    indices: Array
    values: Array


@dataclass(frozen=True)
class StateReply:
    """To the coordinator: the state for the `StateRequest` with this number.

    State that tracks its own changes is sent in full only the first time. Later, `changed` has the keys that changed
    (None: deleted), and `dirty`, by step and array, the whole array or the rows that changed.
    """

    number: int
    states: States
    changed: Mapping[str, Mapping[str, bytes | None]] = field(default_factory=dict)
    dirty: Mapping[str, Mapping[str, Array | Rows]] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """To the coordinator: a role failed. `epoch` is set if a reader failed while it read ahead."""

    error: Exception
    epoch: int | None = None


Message = Restore | Skip | Read | Take | Allow | EpochPart | Done | StateRequest | StateReply | Failed
