"""A histogram of durations; an update takes little time, and so does the import of this module."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

__all__ = ["Histogram"]


class Histogram:
    """Counts values by bucket; one thread adds values (`observe`) while other threads read the buckets.

    A value belongs to the bucket of the first bound that is not smaller than the value.

    >>> histogram = Histogram((0.1, 1.0))
    >>> for seconds in (0.05, 0.1, 0.5, 30.0):
    ...     histogram.observe(seconds)
    >>> histogram.cumulative()
    ([('0.1', 2), ('1.0', 3), ('+Inf', 4)], 30.65)
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()

    def observe(self, value: float) -> None:
        bucket = bisect_left(self._bounds, value)
        with self._lock:
            self._counts[bucket] += 1
            self._sum += value

    def cumulative(self) -> tuple[list[tuple[str, int]], float]:
        """Return, for each bound, how many values are not larger than the bound; also return the sum of all values."""
        with self._lock:
            counts, total = list(accumulate(self._counts)), self._sum
        return list(zip([*map(str, self._bounds), "+Inf"], counts, strict=True)), total
