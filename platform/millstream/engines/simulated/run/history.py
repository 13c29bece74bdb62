"""The history of a run, and the effects of its crashes, computed in two ways.

First by the definition: S is the last epoch in the newest checkpoint, C the last committed epoch, D the last epoch that
a sink has. A crash leaves trained twice (C, S], rows repeated (C, D], lost to the model (S, C], rows missing (D, C].
Second by the function `effects`, from the point at which each crash came.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from millstream.guarantees.delivery import Crash, Delivery, Effects, Point, due, effects
from millstream.guarantees.lifecycle import DeliveryPlan

__all__ = ["Durable", "History", "Sequenced"]

Sequenced = tuple[tuple[int, bool], ...]
"""Epochs in the order in which a state got them, each with True if it was processed, False if it was lost."""


@dataclass(frozen=True)
class Durable:
    """S, C, and for every sink D, on the disk at the time of a crash, whichever start wrote them; -1 means no epoch.

    `checkpoint` is the number of S's. `DurableEpochs` are those of one start, from which `effects_of` computes: the
    history does without both, because it is what they are compared with.
    """

    checkpointed: int
    committed: int
    delivered: tuple[int, ...]
    checkpoint: int = -1


@dataclass
class _Start:
    """The time from a start to a crash: its first epoch, the earlier epochs of its state, and its last point passed."""

    first: int = 0
    before: Sequenced = ()
    ending: bool = False
    """True once the clean end of the start has begun."""
    passed: Crash | None = None
    before_commit: Crash | None = None
    """The last point passed before the last commit, which a loss of power may undo."""
    before_checkpoint: Crash | None = None
    """The last point passed before the last checkpoint, which a loss of power may undo."""


@dataclass(frozen=True)
class _Crashed:
    durable: Durable
    passed: Crash | None
    before_commit: Crash | None
    before_checkpoint: Crash | None = None


@dataclass
class History:
    """The effects and crashes of a run with at_least_once or at_most_once, in their order."""

    plan: DeliveryPlan
    sinks: int
    known: bool = True
    """True if no crash came during a clean end, which `effects` does not cover."""
    appends: list[list[Sequenced]] = field(init=False)
    """For every sink and each of its appends: the epochs of the state that made the rows."""
    _crashes: list[_Crashed] = field(default_factory=list)
    _start: _Start = field(default_factory=_Start)
    _checkpoints: dict[int, Sequenced] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.appends = [[] for _ in range(self.sinks)]

    def began(self, first: int, checkpoint: int, checkpointed: int) -> None:
        """A start continues with epoch `first`, from the newest checkpoint, whose last epoch is `checkpointed`."""
        before = self._checkpoints[checkpoint] if checkpoint >= 0 else ()
        lost = tuple((epoch, False) for epoch in range(checkpointed + 1, first))
        self._start = _Start(first, (*before, *lost))

    def met(self, epoch: int) -> Sequenced:
        """The epochs that the state of this start has got once `epoch` is processed."""
        start = self._start
        return (*start.before, *((number, True) for number in range(start.first, epoch + 1)))

    def checkpointed(self, number: int, epoch: int) -> None:
        """A checkpoint has its line. A checkpoint that is not due belongs to a clean end."""
        self._checkpoints[number] = self.met(epoch)
        self._start.before_checkpoint = self._start.passed
        self._start.passed = Crash(Point.CHECKPOINT, epoch)
        self._start.ending |= not due(epoch, self.plan.checkpoint_every)

    def delivered(self, index: int, epoch: int) -> None:
        self.appends[index].append(self.met(epoch))
        self._start.passed = Crash(Point.DELIVER, epoch, index)

    def committed(self, epoch: int) -> None:
        """A commit is written. A commit that is not due belongs to a clean end."""
        start = self._start
        if (
            start.passed is not None and self.plan.delivery is Delivery.AT_LEAST_ONCE
        ):  # the commit is the last point of this epoch
            epoch = start.passed.epoch
            start.ending |= not due(epoch, self.plan.commit_every)
        start.before_commit, start.passed = start.passed, Crash(Point.COMMIT, epoch)

    def crashed(self, durable: Durable) -> None:
        """A crash: all memory is gone, or all workers are gone."""
        start, self._start = self._start, _Start()
        self.known &= not start.ending
        self._crashes.append(_Crashed(durable, start.passed, start.before_commit, start.before_checkpoint))

    def ended(self) -> None:
        """A start ended cleanly, and another follows. Points do not show the checkpoint and commit of a clean end."""
        self._start = _Start()
        self.known = False

    def lost_lines(self, committed: int, checkpoint: int, checkpointed: int) -> None:
        """The loss of power undid the last commit or checkpoint, of this or an earlier crash.

        No other effect depended on them. `checkpoint` and `checkpointed` are the number and the epoch of the newest
        checkpoint that is left.
        """
        self._lose(
            Point.COMMIT, lambda found: found.committed > committed, lambda found: replace(found, committed=committed)
        )
        self._lose(
            Point.CHECKPOINT,
            lambda found: found.checkpoint > checkpoint,
            lambda found: replace(found, checkpoint=checkpoint, checkpointed=checkpointed),
        )

    def _lose(self, point: Point, lost: Callable[[Durable], bool], left: Callable[[Durable], Durable]) -> None:
        while self._crashes and lost((last := self._crashes[-1]).durable):
            self._crashes.pop()
            if last.passed is not None and last.passed.point is point:
                before = last.before_commit if point is Point.COMMIT else last.before_checkpoint
                self._crashes.append(_Crashed(left(last.durable), before, None))
            elif not self._crashes:
                self._crashes.append(_Crashed(left(last.durable), last.passed, None))

    @property
    def crashes(self) -> list[Crash]:
        """The crashes so far, each by the last point passed."""
        return [crash.passed or Crash(Point.CUT, crash.durable.committed + 1) for crash in self._crashes]

    def effects(self) -> Effects:
        """The effects of all crashes together, by the definition."""
        twice: set[int] = set()
        lost: set[int] = set()
        repeated: list[set[int]] = [set() for _ in range(self.sinks)]
        missing: list[set[int]] = [set() for _ in range(self.sinks)]
        for durable in (crash.durable for crash in self._crashes):
            committed = durable.committed
            twice |= set(range(committed + 1, durable.checkpointed + 1))
            lost |= set(range(durable.checkpointed + 1, committed + 1))
            for index, delivered in enumerate(durable.delivered):
                repeated[index] |= set(range(committed + 1, delivered + 1))
                missing[index] |= set(range(delivered + 1, committed + 1))
        return Effects(
            frozenset(twice), frozenset(lost), tuple(map(frozenset, repeated)), tuple(map(frozenset, missing))
        )

    def effects_by_points(self) -> Effects:
        """The effects that the function `effects` gives for the points of the crashes."""
        plan = self.plan
        return effects(plan.delivery, plan.checkpoint_every, plan.commit_every, self.crashes, self.sinks)
