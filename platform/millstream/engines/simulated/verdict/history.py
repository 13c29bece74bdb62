"""The history of a run, and the effects of its crashes: worked out from what was durable when they happened.

By the definition: with S the last epoch in the checkpoint written last, C the last commit, D the epoch a sink appended
last, a crash leaves trained twice (C, S], rows repeated (C, D], lost to the model (S, C], rows missing (D, C]. And by
the one function, given the point at which each crash came.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from millstream.guarantees.delivery import Crash, Delivery, Effects, Point, due, effects
from millstream.guarantees.lifecycle import DeliveryPlan

__all__ = ["Durable", "History", "Sequenced"]

Sequenced = tuple[tuple[int, bool], ...]
"""Epochs in the order in which a state has met them, and whether it has processed them, or they were lost to it."""


@dataclass(frozen=True)
class Durable:
    """S, C, and D for every sink; -1 for none."""

    saved: int
    committed: int
    delivered: tuple[int, ...]


@dataclass
class _Start:
    """From a start to a crash: its first epoch, what its state met before that, and the point that it passed last."""

    first: int = 0
    before: Sequenced = ()
    ending: bool = False
    """True once its clean end has begun."""
    passed: Crash | None = None
    before_commit: Crash | None = None
    """The point that it had passed when it wrote its last commit, which may be lost with the power."""


@dataclass(frozen=True)
class _Crashed:
    durable: Durable
    passed: Crash | None
    before_commit: Crash | None


@dataclass
class History:
    """A run of at_least_once or at_most_once as it goes, effect by effect and crash by crash."""

    plan: DeliveryPlan
    sinks: int
    known: bool = True
    """True if every crash came while epochs passed their points: `effects` does not cover a clean end."""
    appends: list[list[Sequenced]] = field(init=False)
    """For every sink, append by append, what the state had met that made the rows."""
    _crashes: list[_Crashed] = field(default_factory=list)
    _start: _Start = field(default_factory=_Start)
    _checkpoints: dict[int, Sequenced] = field(default_factory=dict)
    _newest: int | None = None

    def __post_init__(self) -> None:
        self.appends = [[] for _ in range(self.sinks)]

    def began(self, first: int, saved: int) -> None:
        """A start goes on with this epoch, from the newest checkpoint, whose last epoch is `saved`."""
        before = self._checkpoints[self._newest] if self._newest is not None else ()
        lost = tuple((epoch, False) for epoch in range(saved + 1, first))
        self._start = _Start(first, (*before, *lost))

    def met(self, epoch: int) -> Sequenced:
        """The epochs that the state of this start has met once an epoch is processed."""
        start = self._start
        return (*start.before, *((number, True) for number in range(start.first, epoch + 1)))

    def saved(self, number: int, epoch: int) -> None:
        """A checkpoint is written; one that is not due belongs to a clean end."""
        self._checkpoints[number] = self.met(epoch)
        self._newest = number
        self._start.passed = Crash(Point.CHECKPOINT, epoch)
        self._start.ending |= not due(epoch, self.plan.checkpoint_every)

    def delivered(self, index: int, epoch: int) -> None:
        self.appends[index].append(self.met(epoch))
        self._start.passed = Crash(Point.DELIVER, epoch, index)

    def committed(self, epoch: int) -> None:
        """A commit is written; one that is not due belongs to a clean end."""
        start = self._start
        if start.passed is not None and self.plan.delivery is Delivery.AT_LEAST_ONCE:  # as the last point of its epoch
            epoch = start.passed.epoch
            start.ending |= not due(epoch, self.plan.commit_every)
        start.before_commit, start.passed = start.passed, Crash(Point.COMMIT, epoch)

    def crashed(self, durable: Durable) -> None:
        """Everything in memory is gone, or all workers are."""
        start, self._start = self._start, _Start()
        self.known &= not start.ending
        self._crashes.append(_Crashed(durable, start.passed, start.before_commit))

    def ended(self) -> None:
        """A start ended cleanly, and the next one continues: points do not show its checkpoint and its commit."""
        self._start = _Start()
        self.known = False

    def lost_commit(self, committed: int) -> None:
        """With the power went the last commit, of this crash or one before: nothing that was done relied on it."""
        while self._crashes and (last := self._crashes[-1]).durable.committed > committed:
            self._crashes.pop()
            durable = replace(last.durable, committed=committed)
            if last.passed is not None and last.passed.point is Point.COMMIT:
                self._crashes.append(_Crashed(durable, last.before_commit, None))
            elif not self._crashes:
                self._crashes.append(_Crashed(durable, last.passed, None))

    @property
    def crashes(self) -> list[Crash]:
        """The crashes so far, by the points that were passed last."""
        return [crash.passed or Crash(Point.CUT, crash.durable.committed + 1) for crash in self._crashes]

    def union(self) -> Effects:
        """The effects of all crashes together, by the definition."""
        twice: set[int] = set()
        lost: set[int] = set()
        repeated: list[set[int]] = [set() for _ in range(self.sinks)]
        missing: list[set[int]] = [set() for _ in range(self.sinks)]
        for found in (crash.durable for crash in self._crashes):
            committed = found.committed
            twice |= set(range(committed + 1, found.saved + 1))
            lost |= set(range(found.saved + 1, committed + 1))
            for index, delivered in enumerate(found.delivered):
                repeated[index] |= set(range(committed + 1, delivered + 1))
                missing[index] |= set(range(delivered + 1, committed + 1))
        return Effects(
            frozenset(twice), frozenset(lost), tuple(map(frozenset, repeated)), tuple(map(frozenset, missing))
        )

    def by_the_function(self) -> Effects:
        """The effects that the one function gives for the points at which they came."""
        plan = self.plan
        return effects(plan.delivery, plan.checkpoint_every, plan.commit_every, self.crashes, self.sinks)
