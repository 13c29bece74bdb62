"""The failures of a trial: how a stream is cut into epochs, and the epochs in which the run crashes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from millstream.arrays import Array
from millstream.guarantees.delivery import Crash, Delivery, Point, order
from millstream.study.trial import Trial

__all__ = ["Schedule", "schedule_failures"]


@dataclass(frozen=True)
class Schedule:
    """A stream in epochs, and its crashes. Epoch `e` has the records [edges[e], edges[e + 1]) of the stream.

    Checkpoint and commit both are due after each `interval` epochs, so no effect of a crash reaches beyond an interval.
    A crash has an epoch and the number of the point after which it happens; -1: the point with the worst effect.
    """

    edges: Array
    checkpoint_every: int
    commit_every: int
    crashes: tuple[tuple[int, int], ...]

    def of(self, delivery: Delivery) -> list[Crash]:
        """Return the crashes of a run with this delivery.

        The worst crash leaves a checkpoint without its commit, or, with at_most_once, a commit without its checkpoint.
        """
        worst = Point.PROCESS if delivery is Delivery.AT_MOST_ONCE else Point.CHECKPOINT
        points = order(delivery)
        return [Crash(worst if number < 0 else points[number], epoch) for epoch, number in self.crashes]

    def positions(self) -> list[int]:
        """Return for each crash the number of records of the stream that were cut before it."""
        return [int(self.edges[epoch + 1]) for epoch, _ in self.crashes]


def schedule_failures(trial: Trial, labels: Array, topic: int | None) -> Schedule:
    """Choose the intervals in which a trial's run crashes; `labels` are those of its stream in order.

    The same seed, failures and intervals give every treatment the same crashes. No interval has two of them. The study
    file has been checked: the stream has room for the failures, and an interval has whole epochs.
    """
    rng = np.random.default_rng([trial.seed, 2])
    interval = math.lcm(trial.checkpoint_every, trial.commit_every)
    size = trial.span // interval
    low, high = round(trial.between_first * len(labels)), round(trial.between_last * len(labels))
    spare = high - low - trial.failures * trial.span
    base = low + int(rng.integers(0, min(trial.span - 1, spare) + 1))
    chosen = _chosen(trial, labels[base:high], topic, rng)
    # Interval 0 ends at the first edge of the grid, so it may lack records at its beginning, also whole epochs.
    first = base % trial.span - trial.span
    edges = np.clip(np.arange(first, len(labels) + size, size), 0, len(labels))
    before = (base - first) // trial.span
    if trial.placement == "interval":
        epochs, points = rng.integers(0, interval, len(chosen)), rng.integers(0, len(Point), len(chosen))
    else:
        epochs, points = np.full(len(chosen), interval - 1), np.full(len(chosen), -1)
    at = (chosen + before) * interval + epochs
    crashes = tuple(zip(at.tolist(), points.tolist(), strict=True))
    return Schedule(edges, trial.checkpoint_every, trial.commit_every, crashes)


def _chosen(trial: Trial, labels: Array, topic: int | None, rng: np.random.Generator) -> Array:
    """Return the numbers of the intervals with a crash, in order: random ones, or those with most of a topic."""
    there = len(labels) // trial.span
    shuffled = rng.permutation(there)
    if topic is not None:
        of_topic = (labels[: there * trial.span] == topic).reshape(there, trial.span).sum(axis=1)
        shuffled = shuffled[np.argsort(-of_topic[shuffled], kind="stable")]
    return np.sort(shuffled[: trial.failures])
