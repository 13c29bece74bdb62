"""Recovery after failures: predictions compared with those of the pair, by the number of records since a failure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from millstream.arrays import Array

__all__ = ["RECOVERY_EDGES", "Recovery"]

RECOVERY_EDGES = (0, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
"""The bins of records since the latest failure: from each edge to the next one, the last bin without an end."""


class Recovery:
    """The first deliveries of a sequence that come after a failure, each in the bin of the records since the latest."""

    def __init__(self, positions: Array, first: Array, failed_at: Sequence[int]) -> None:
        ends = np.unique(np.array([0, *failed_at], np.int64))
        after = first & (positions >= min(failed_at, default=len(positions)))
        entries = np.flatnonzero(after)
        since = positions[entries] - ends[np.searchsorted(ends, positions[entries], side="right") - 1]
        bins = np.searchsorted(RECOVERY_EDGES, since, side="right") - 1
        self.entries = entries[np.argsort(bins, kind="stable")]
        self.positions = positions[self.entries]
        self._sizes = np.bincount(bins, minlength=len(RECOVERY_EDGES))
        self._there = self._sizes > 0
        self._starts = (np.cumsum(self._sizes) - self._sizes)[self._there]

    def columns(self, predicted: Array, labels: Array, of_pair: Array) -> dict[str, list[float | None] | None]:
        """Return the columns of the result table; `of_pair` are the predictions of the pair, by position."""
        if not len(self.entries):
            return {"recovery_accuracy": None, "recovery_changed": None}
        ours, theirs, true = predicted[self.entries], of_pair[self.positions], labels[self.entries]
        gained = (ours == true).view(np.int8) - (theirs == true).view(np.int8)
        return {"recovery_accuracy": self._means(gained), "recovery_changed": self._means(ours != theirs)}

    def _means(self, values: Array) -> list[float | None]:
        sums = np.zeros(len(self._sizes), np.int64)
        sums[self._there] = np.add.reduceat(values, self._starts, dtype=np.int64)
        return [float(total / size) if size else None for total, size in zip(sums, self._sizes, strict=True)]
