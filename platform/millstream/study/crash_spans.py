"""The records that one crash at a random moment repeats or loses, computed with `delivery.effects`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from millstream.guarantees.delivery import Crash, Delivery, Point, due, effects, order
from millstream.study.share_bias import Spans

__all__ = ["EPOCH_TIME", "crash_moments", "crash_spans"]

EPOCH_TIME: Mapping[Point, float] = {
    Point.CUT: 0.02,
    Point.PROCESS: 0.38,
    Point.DELIVER: 0.16,
    Point.CHECKPOINT: 0.38,
    Point.COMMIT: 0.06,
}
"""The parts of an epoch's time that the work towards each point takes, if all five are due.

Measured with configs/demo.yaml on the local engine, at 500 and 5,000 records an epoch; parts differ by a half between
machines and runs.
"""

MOST_EPOCHS = 400
"""The number of epochs of a cycle that are computed; of a longer cycle a random sample is taken."""


@dataclass(frozen=True)
class Moment:
    """A moment at which a crash may come, with its weight: right after a point, while the next one is worked on."""

    crash: Crash
    weight: float


@dataclass(frozen=True)
class CrashSpans:
    """The records that one crash affects: in the rows of an output, and in the model and every other state."""

    rows: Spans
    state: Spans


def crash_moments(
    delivery: Delivery, checkpoint_every: int, commit_every: int, waiting: float = 0.0
) -> Iterator[Moment]:
    """Yield the moments of one cycle of checkpoints and commits; weights are parts of the time, not scaled.

    A crash comes at a random moment, so a point is weighted with the time until the next one. `waiting` is the share
    of the time in which the run waits for records after an epoch.

    >>> moments = list(crash_moments(Delivery.AT_LEAST_ONCE, 1, 2))
    >>> [(str(moment.crash.point), moment.crash.epoch, moment.weight) for moment in moments[:4]]
    [('cut', 2, 0.38), ('process', 2, 0.16), ('deliver', 2, 0.38), ('commit', 2, 0.02)]
    """
    points = order(delivery)
    every = {Point.CHECKPOINT: checkpoint_every, Point.COMMIT: commit_every}
    cycle = math.lcm(checkpoint_every, commit_every)
    busy = sum(time / every.get(point, 1) for point, time in EPOCH_TIME.items())
    idle = busy * waiting / (1 - waiting)
    for epoch in _epochs(cycle):
        following = [(point, epoch) for point in points[1:]] + [(points[0], epoch + 1)]
        for point, (reached, of) in zip(points, following, strict=True):
            weight = EPOCH_TIME[reached] if due(of, every.get(reached, 1)) else 0.0
            weight += idle if point is points[-1] else 0.0
            if weight:
                yield Moment(Crash(point, epoch), weight)


def _epochs(cycle: int) -> list[int]:
    """Epochs of the second cycle: before it, the first checkpoint or commit may be missing."""
    if cycle <= MOST_EPOCHS:
        return list(range(cycle, 2 * cycle))
    chosen: list[int] = np.random.default_rng(0).integers(cycle, 2 * cycle, MOST_EPOCHS).tolist()
    return chosen


def crash_spans(
    delivery: Delivery, checkpoint_every: int, commit_every: int, epoch_records: int, waiting: float = 0.0
) -> CrashSpans:
    """Return the spans that one crash at a random moment repeats (at_least_once) or loses (at_most_once).

    >>> found = crash_spans(Delivery.AT_MOST_ONCE, 4, 1, 500)
    >>> found.state.lengths, found.state.most
    ((0, 500, 1000, 1500, 2000), 2000)
    >>> crash_spans(Delivery.EXACTLY_ONCE, 4, 4, 500).rows
    Spans(lengths=(0,), weights=(1.0,))
    """
    rows, state, weights = [], [], []
    for moment in crash_moments(delivery, checkpoint_every, commit_every, waiting):
        found = effects(delivery, checkpoint_every, commit_every, [moment.crash])
        rows.append(len(found.rows_repeated[0] | found.rows_missing[0]) * epoch_records)
        state.append(len(found.trained_twice | found.lost) * epoch_records)
        weights.append(moment.weight)
    return CrashSpans(Spans.of(rows, weights), Spans.of(state, weights))
