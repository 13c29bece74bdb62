"""What a run's roles say to each other: the coordinator, the readers, and the sequencer of the order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millstream.log.epochs import Epoch, PartitionName
from millstream.state.saves import States
from millstream.state.touched import Array
from millstream.steps.chain import EpochInProgress
from millstream.steps.processor import EpochResult

__all__ = [
    "Allow",
    "AskSave",
    "Done",
    "Failed",
    "Message",
    "Part",
    "Range",
    "Read",
    "Restore",
    "Rows",
    "Saved",
    "Skip",
    "Take",
]


@dataclass(frozen=True)
class Range:
    """Offsets [start, stop) of a partition."""

    rank: int
    partition: PartitionName
    start: int
    stop: int


@dataclass(frozen=True)
class Restore:
    """Go on from these states. The first word to whoever has state."""

    states: States
    partitions: Sequence[PartitionName]


@dataclass(frozen=True)
class Skip:
    """This epoch is lost."""

    epoch: Epoch


@dataclass(frozen=True)
class Read:
    """To a reader: read an epoch and take it through the first steps."""

    epoch: int
    ranges: Sequence[Range]


@dataclass(frozen=True)
class Take:
    """To the sequencer: this epoch comes next."""

    epoch: Epoch


@dataclass(frozen=True)
class Allow:
    """To whoever has state: the epochs [start, stop) may change it."""

    start: int
    stop: int


@dataclass(frozen=True)
class Part:
    """All that one role has of an epoch for another; it says too that there is no more.

    `names` are those of partitions that it has not told of before.
    """

    hand: EpochInProgress
    names: Mapping[int, PartitionName] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """To the coordinator: an epoch is through all steps."""

    processed: EpochResult


@dataclass(frozen=True)
class AskSave:
    """To whoever has state: say what it is, after the epochs that were allowed so far."""

    number: int


@dataclass(frozen=True)
class Rows:
    """What was written to of an array since it was told before: the numbers of the rows, and what is in them now."""

    places: Array
    values: Array


@dataclass(frozen=True)
class Saved:
    """To the coordinator: the state that was asked for.

    What knows itself what has changed of it is told in full once. Then `changed` has what has changed of state by key,
    None for keys that are gone; `touched` has, by step and name, all of an array or its rows.
    """

    number: int
    states: States
    changed: Mapping[str, Mapping[str, bytes | None]] = field(default_factory=dict)
    touched: Mapping[str, Mapping[str, Array | Rows]] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """To the coordinator: a role cannot go on; `epoch` is one that could not be read and begun, ahead of its turn."""

    error: Exception
    epoch: int | None = None


Message = Restore | Skip | Read | Take | Allow | Part | Done | AskSave | Saved | Failed
