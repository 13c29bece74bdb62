"""The effects of crashes on results under each delivery: one function, `effects`, that explain, audit and tests use.

Every epoch passes five points, in an order that the delivery decides. Let S be the last epoch in the newest checkpoint,
C the last committed epoch, and D the last epoch that a sink appended. After a crash, the epochs in (C, S] are trained
twice, the rows of (C, D] are repeated, the epochs in (S, C] are lost to the model, and the rows of (D, C] are missing.
The effects of several crashes are the unions of these sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Crash", "Delivery", "Effects", "Point", "due", "effects", "order"]


class Delivery(StrEnum):
    """The delivery that a pipeline chooses: how often each record counts in the results."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"


class Point(StrEnum):
    """One of the five points that every epoch passes."""

    CUT = "cut"
    PROCESS = "process"
    DELIVER = "deliver"
    CHECKPOINT = "checkpoint"
    COMMIT = "commit"


_REPLAYING = (Point.CUT, Point.PROCESS, Point.DELIVER, Point.CHECKPOINT, Point.COMMIT)
_SKIPPING = (Point.CUT, Point.COMMIT, Point.PROCESS, Point.CHECKPOINT, Point.DELIVER)


def order(delivery: Delivery) -> tuple[Point, ...]:
    """Return the points in the order in which an epoch passes them.

    >>> [str(point) for point in order(Delivery.AT_MOST_ONCE)]
    ['cut', 'commit', 'process', 'checkpoint', 'deliver']
    """
    return _SKIPPING if delivery is Delivery.AT_MOST_ONCE else _REPLAYING


def due(epoch: int, every: int) -> bool:
    """Return whether a checkpoint or commit that is made `every` so many epochs is due after `epoch`."""
    return (epoch + 1) % every == 0


@dataclass(frozen=True)
class Crash:
    """A crash right after `point` of `epoch`; within the point deliver, `sink` is the index of the last sink served."""

    point: Point
    epoch: int
    sink: int | None = None


@dataclass(frozen=True)
class Effects:
    """The epochs with wrong results: trained twice or lost, and, by the index of the sink, rows repeated or missing."""

    trained_twice: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    rows_repeated: tuple[frozenset[int], ...] = ()
    rows_missing: tuple[frozenset[int], ...] = ()


def _passed(point: Point, crash: Crash, points: Sequence[Point]) -> int:
    """Return the last epoch that passed `point` before the crash."""
    return crash.epoch if points.index(point) <= points.index(crash.point) else crash.epoch - 1


def _last_due(first: int, last: int, every: int) -> int | None:
    """Return the last epoch in [first, last] after which a checkpoint or commit is due; None if there is none."""
    epoch = (last + 1) // every * every - 1
    return epoch if epoch >= first else None


def effects(
    delivery: Delivery, checkpoint_every: int, commit_every: int, crashes: Iterable[Crash], sinks: int = 1
) -> Effects:
    """Return the effects, after a clean end, of these crashes in this order.

    Every crash happens in the run that the previous crash led to: at or after the first epoch of that run.

    >>> late = effects(Delivery.AT_LEAST_ONCE, 4, 4, [Crash(Point.DELIVER, 5)])
    >>> sorted(late.rows_repeated[0]), sorted(late.trained_twice)
    ([4, 5], [])
    """
    if delivery is Delivery.EXACTLY_ONCE:
        none: tuple[frozenset[int], ...] = (frozenset(),) * sinks
        return Effects(rows_repeated=none, rows_missing=none)
    points = order(delivery)
    checkpointed, committed = -1, -1
    delivered = [-1] * sinks
    twice: set[int] = set()
    lost: set[int] = set()
    repeated: list[set[int]] = [set() for _ in range(sinks)]
    missing: list[set[int]] = [set() for _ in range(sinks)]
    for crash in crashes:
        first = committed + 1
        if crash.epoch < first:
            message = f"a crash at epoch {crash.epoch} cannot follow a restart at epoch {first}"
            raise ValueError(message)
        checkpoint = _last_due(first, _passed(Point.CHECKPOINT, crash, points), checkpoint_every)
        if checkpoint is not None:
            checkpointed = checkpoint
        if delivery is Delivery.AT_MOST_ONCE:
            committed = max(committed, _passed(Point.COMMIT, crash, points))
        else:
            commit = _last_due(first, _passed(Point.COMMIT, crash, points), commit_every)
            covered = None if commit is None else _last_due(first, commit, checkpoint_every)
            if covered is not None:
                committed = max(committed, covered)
        for index in range(sinks):
            last = _passed(Point.DELIVER, crash, points)
            if crash.point is Point.DELIVER and crash.sink is not None and index > crash.sink:
                last -= 1
            if last >= first:
                delivered[index] = last
            repeated[index] |= set(range(committed + 1, delivered[index] + 1))
            missing[index] |= set(range(delivered[index] + 1, committed + 1))
        twice |= set(range(committed + 1, checkpointed + 1))
        lost |= set(range(checkpointed + 1, committed + 1))
    return Effects(
        frozenset(twice),
        frozenset(lost),
        tuple(map(frozenset, repeated)),
        tuple(map(frozenset, missing)),
    )
