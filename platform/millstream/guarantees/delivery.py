"""The effects of crashes under each delivery: the one function by which everything else is judged.

An epoch passes five points. Their order is the delivery's. With S the last epoch in the save written last, C the last
commit, D the epoch a sink appended last, a crash leaves: trained twice (C, S], rows repeated (C, D], lost to the
model (S, C], rows missing (D, C]. Several crashes leave the union of their sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Crash", "Delivery", "Effects", "Point", "due", "effects", "order"]


class Delivery(StrEnum):
    """The number of times that a record may count, chosen by each pipeline."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"


class Point(StrEnum):
    """One of the five points that every epoch passes."""

    CUT = "cut"
    PROCESS = "process"
    DELIVER = "deliver"
    SAVE = "save"
    COMMIT = "commit"


_REPLAYING = (Point.CUT, Point.PROCESS, Point.DELIVER, Point.SAVE, Point.COMMIT)
_SKIPPING = (Point.CUT, Point.COMMIT, Point.PROCESS, Point.SAVE, Point.DELIVER)


def order(delivery: Delivery) -> tuple[Point, ...]:
    """The order in which an epoch passes its points.

    >>> [str(point) for point in order(Delivery.AT_MOST_ONCE)]
    ['cut', 'commit', 'process', 'save', 'deliver']
    """
    return _SKIPPING if delivery is Delivery.AT_MOST_ONCE else _REPLAYING


def due(epoch: int, every: int) -> bool:
    """True if a save or a commit is due after `epoch`."""
    return (epoch + 1) % every == 0


@dataclass(frozen=True)
class Crash:
    """A crash right after `point` of `epoch`; after one sink of the delivery if `sink` gives its place."""

    point: Point
    epoch: int
    sink: int | None = None


@dataclass(frozen=True)
class Effects:
    """The epochs whose records a run got wrong; the last two by the sink's place."""

    trained_twice: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    rows_repeated: tuple[frozenset[int], ...] = ()
    rows_missing: tuple[frozenset[int], ...] = ()


def _passed(point: Point, crash: Crash, points: Sequence[Point]) -> int:
    """The last epoch that passed `point` before the crash."""
    return crash.epoch if points.index(point) <= points.index(crash.point) else crash.epoch - 1


def _last_due(first: int, last: int, every: int) -> int | None:
    """The last epoch of [first, last] after which something is due."""
    epoch = (last + 1) // every * every - 1
    return epoch if epoch >= first else None


def effects(
    delivery: Delivery, save_every: int, commit_every: int, crashes: Iterable[Crash], sinks: int = 1
) -> Effects:
    """The epochs that a run with these crashes, one after the other, has got wrong once it has ended.

    Every crash lies in the run that the one before it led to: at or after that run's first epoch.

    >>> late = effects(Delivery.AT_LEAST_ONCE, 4, 4, [Crash(Point.DELIVER, 5)])
    >>> sorted(late.rows_repeated[0]), sorted(late.trained_twice)
    ([4, 5], [])
    """
    if delivery is Delivery.EXACTLY_ONCE:
        none: tuple[frozenset[int], ...] = (frozenset(),) * sinks
        return Effects(rows_repeated=none, rows_missing=none)
    points = order(delivery)
    saved, committed = -1, -1
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
        save = _last_due(first, _passed(Point.SAVE, crash, points), save_every)
        if save is not None:
            saved = save
        if delivery is Delivery.AT_MOST_ONCE:
            committed = max(committed, _passed(Point.COMMIT, crash, points))
        else:
            commit = _last_due(first, _passed(Point.COMMIT, crash, points), commit_every)
            covered = None if commit is None else _last_due(first, commit, save_every)
            if covered is not None:
                committed = max(committed, covered)
        for place in range(sinks):
            last = _passed(Point.DELIVER, crash, points)
            if crash.point is Point.DELIVER and crash.sink is not None and place > crash.sink:
                last -= 1
            if last >= first:
                delivered[place] = last
            repeated[place] |= set(range(committed + 1, delivered[place] + 1))
            missing[place] |= set(range(delivered[place] + 1, committed + 1))
        twice |= set(range(committed + 1, saved + 1))
        lost |= set(range(saved + 1, committed + 1))
    return Effects(
        frozenset(twice),
        frozenset(lost),
        tuple(map(frozenset, repeated)),
        tuple(map(frozenset, missing)),
    )
