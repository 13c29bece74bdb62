"""Runs with crashes at random moments, computed epoch by epoch with `delivery.effects`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from millstream.arrays import Array
from millstream.guarantees.delivery import Crash, Delivery, Point, due, effects, order
from millstream.study.labels import Labels

__all__ = ["CrashedRun"]


@dataclass(frozen=True)
class CrashedRun:
    """A pipeline over labelled records that crashes; `times` is the time towards each point of an epoch."""

    labels: Labels
    delivery: Delivery
    checkpoint_every: int
    commit_every: int
    epoch_records: int
    times: Mapping[Point, float]

    def biases(self, failures: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """One run with crashes at random moments: the errors of all labels' shares in its rows, and in its model."""
        found = effects(self.delivery, self.checkpoint_every, self.commit_every, self.crashes(failures, rng))
        times = np.ones(self._epochs, np.int64)
        rows, state = times.copy(), times.copy()
        rows[[*found.rows_repeated[0]]] += 1
        rows[[*found.rows_missing[0]]] -= 1
        state[[*found.trained_twice]] += 1
        state[[*found.lost]] -= 1
        return self._errors(rows), self._errors(state)

    @property
    def _epochs(self) -> int:
        return -(-len(self.labels) // self.epoch_records)

    def crashes(self, failures: int, rng: np.random.Generator) -> list[Crash]:
        """Crashes at random moments of the run's time, at most one in an epoch."""
        moments, ends = self._timeline
        while True:
            drawn = np.searchsorted(ends, np.sort(rng.uniform(0, ends[-1], failures)), side="right")
            crashes = [moments[index] for index in drawn]
            if all(first.epoch < second.epoch for first, second in itertools.pairwise(crashes)):
                return crashes

    @cached_property
    def _timeline(self) -> tuple[Sequence[Crash], Array]:
        """The points that are passed one after the other, and the time at which each is no longer the last one."""
        passed = [Crash(point, epoch) for epoch in range(self._epochs) for point in order(self.delivery)]
        return passed[:-1], np.cumsum([self._time(reached) for reached in passed[1:]])

    def _time(self, reached: Crash) -> float:
        every = {Point.CHECKPOINT: self.checkpoint_every, Point.COMMIT: self.commit_every}.get(reached.point, 1)
        return self.times[reached.point] if due(reached.epoch, every) else 0.0

    def _errors(self, times: Array) -> Array:
        counted = np.repeat(times, self.epoch_records)[: len(self.labels)]
        shares = np.bincount(self.labels.codes, weights=counted, minlength=len(self.labels.names)) / counted.sum()
        errors: Array = shares - self.labels.shares
        return errors
