"""The effects of crashes on results under each delivery: one function, `effects`, that explain, audit and tests use.

Every epoch passes five points, in an order that the delivery decides. Let S be the last epoch in the newest checkpoint,
C the last committed epoch, and D the last epoch that a sink appended. After a crash, the epochs in (C, S] are trained
twice, the rows of (C, D] are repeated, the epochs in (S, C] are lost to the model, and the rows of (D, C] are missing:
`effects_of` a crash. The effects of several crashes are the unions of these sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "Crash",
    "Delivery",
    "DurableEpochs",
    "Effects",
    "Point",
    "due",
    "effects",
    "effects_of",
    "effects_of_each",
    "order",
]


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


@dataclass(frozen=True)
class DurableEpochs:
    """The durable epochs of one start at its crash: S, C, and for each sink D.

    If the start wrote no checkpoint, made no commit or appended nothing, it is the epoch before the start's first one.
    """

    checkpointed: int
    committed: int
    delivered: tuple[int, ...]


def effects_of(delivery: Delivery, durable: DurableEpochs) -> Effects:
    """Return the effects of one crash, which left these epochs of its start.

    >>> found = effects_of(Delivery.AT_MOST_ONCE, DurableEpochs(checkpointed=3, committed=5, delivered=(4,)))
    >>> sorted(found.lost), sorted(found.rows_missing[0])
    ([4, 5], [5])
    """
    if delivery is Delivery.EXACTLY_ONCE:
        none: tuple[frozenset[int], ...] = (frozenset(),) * len(durable.delivered)
        return Effects(rows_repeated=none, rows_missing=none)
    checkpointed, committed = durable.checkpointed, durable.committed
    return Effects(
        trained_twice=_after(committed, checkpointed),
        lost=_after(checkpointed, committed),
        rows_repeated=tuple(_after(committed, delivered) for delivered in durable.delivered),
        rows_missing=tuple(_after(delivered, committed) for delivered in durable.delivered),
    )


def _after(first: int, last: int) -> frozenset[int]:
    """Return the epochs in (first, last]."""
    return frozenset(range(first + 1, last + 1))


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
    each = effects_of_each(delivery, checkpoint_every, commit_every, crashes, sinks)
    return Effects(
        _union(found.trained_twice for found in each),
        _union(found.lost for found in each),
        tuple(_union(found.rows_repeated[index] for found in each) for index in range(sinks)),
        tuple(_union(found.rows_missing[index] for found in each) for index in range(sinks)),
    )


def effects_of_each(
    delivery: Delivery, checkpoint_every: int, commit_every: int, crashes: Iterable[Crash], sinks: int = 1
) -> list[Effects]:
    """Return the effects of each of these crashes: those of `effects`, crash by crash."""
    if delivery is Delivery.EXACTLY_ONCE:
        return []
    found = _durable(delivery, checkpoint_every, commit_every, crashes, sinks)
    return [effects_of(delivery, durable) for durable in found]


def _union(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*sets)


def _durable(
    delivery: Delivery, checkpoint_every: int, commit_every: int, crashes: Iterable[Crash], sinks: int
) -> Iterator[DurableEpochs]:
    """Yield the durable epochs at each crash, from the point of the crash."""
    points = order(delivery)
    committed = -1
    for crash in crashes:
        first = committed + 1
        if crash.epoch < first:
            message = f"a crash at epoch {crash.epoch} cannot follow a restart at epoch {first}"
            raise ValueError(message)
        checkpointed = _last_due(first, _passed(Point.CHECKPOINT, crash, points), checkpoint_every)
        if delivery is Delivery.AT_MOST_ONCE:
            committed = max(committed, _passed(Point.COMMIT, crash, points))
        else:
            commit = _last_due(first, _passed(Point.COMMIT, crash, points), commit_every)
            covered = None if commit is None else _last_due(first, commit, checkpoint_every)
            if covered is not None:
                committed = covered
        last = _passed(Point.DELIVER, crash, points)
        served = sinks if crash.point is not Point.DELIVER or crash.sink is None else crash.sink + 1
        delivered = (last,) * served + (last - 1,) * (sinks - served)
        yield DurableEpochs(first - 1 if checkpointed is None else checkpointed, committed, delivered)
