"""Recovery after failures: predictions compared with those of the pair, by the number of records since a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
        self.entries = np.flatnonzero(after)
        self.positions = positions[self.entries]
        since = self.positions - ends[np.searchsorted(ends, self.positions, side="right") - 1]
        self._bins = np.searchsorted(RECOVERY_EDGES, since, side="right") - 1
        self._sizes = np.bincount(self._bins, minlength=len(RECOVERY_EDGES))

    def columns(self, predicted: Array, labels: Array, of_pair: Array) -> dict[str, list[float | None] | None]:
        """Return the columns of the result table; `of_pair` are the predictions of the pair, by position."""
        if not len(self.entries):
            return {"recovery_accuracy": None, "recovery_changed": None}
        ours, theirs, true = predicted[self.entries], of_pair[self.positions], labels[self.entries]
        gained = (ours == true).astype(np.float64) - (theirs == true)
        return {"recovery_accuracy": self._means(gained), "recovery_changed": self._means(ours != theirs)}

    def _means(self, values: Any) -> list[float | None]:
        sums = np.bincount(self._bins, weights=values, minlength=len(self._sizes))
        return [float(total / size) if size else None for total, size in zip(sums, self._sizes, strict=True)]
