"""What a run's parties say to each other: the coordinator, the readers, and the keeper of the order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millstream.log.epochs import Epoch, PartitionName
from millstream.state.saves import States
from millstream.steps.chain import InHand
from millstream.steps.processing import Processed

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
    """To the keeper: this epoch comes next."""

    epoch: Epoch


@dataclass(frozen=True)
class Allow:
    """To whoever has state: the epochs [start, stop) may change it."""

    start: int
    stop: int


@dataclass(frozen=True)
class Part:
    """All that one party has of an epoch for another; it says too that there is no more."""

    hand: InHand


@dataclass(frozen=True)
class Done:
    """To the coordinator: an epoch is through all steps."""

    processed: Processed


@dataclass(frozen=True)
class AskSave:
    """To whoever has state: say what it is, after the epochs that were allowed so far."""

    number: int


@dataclass(frozen=True)
class Saved:
    """To the coordinator: the state that was asked for.

    `changed` has, for keyed steps, what has changed since the state that was told before; None for keys that are gone.
    """

    number: int
    states: States
    changed: Mapping[str, Mapping[str, bytes | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """To the coordinator: a party cannot go on."""

    error: Exception


Message = Restore | Skip | Read | Take | Allow | Part | Done | AskSave | Saved | Failed
