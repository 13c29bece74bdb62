"""Prometheus' text format: what a metric is, and how its samples are written down."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

__all__ = ["Histogram", "Samples", "family"]

Samples = Sequence[tuple[str, Mapping[str, str], float]]
"""What comes after the metric's name, the labels, the value."""


class Histogram:
    """Counts values by the first of its bounds that they do not exceed; told from one thread, read from another.

    >>> histogram = Histogram((0.1, 1.0))
    >>> for seconds in (0.05, 0.1, 0.5, 30.0):
    ...     histogram.observe(seconds)
    >>> histogram.samples({})[:3]
    [('_bucket', {'le': '0.1'}, 2), ('_bucket', {'le': '1.0'}, 3), ('_bucket', {'le': '+Inf'}, 4)]
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()

    def observe(self, value: float) -> None:
        place = bisect_left(self._bounds, value)
        with self._lock:
            self._counts[place] += 1
            self._sum += value

    def samples(self, labels: Mapping[str, str]) -> Samples:
        with self._lock:
            counts, total = list(accumulate(self._counts)), self._sum
        bounds = [*map(str, self._bounds), "+Inf"]
        buckets = [("_bucket", {**labels, "le": bound}, count) for bound, count in zip(bounds, counts, strict=True)]
        return [*buckets, ("_sum", labels, total), ("_count", labels, counts[-1])]


def family(name: str, kind: str, meaning: str, samples: Samples) -> Iterator[str]:
    r"""The lines of one metric.

    >>> print(*family("rows_total", "counter", "Rows.", [("", {"output": 'a "b"'}, 12)]), sep="\n")
    # HELP rows_total Rows.
    # TYPE rows_total counter
    rows_total{output="a \"b\""} 12
    """
    yield f"# HELP {name} {_escaped(meaning)}"
    yield f"# TYPE {name} {kind}"
    for suffix, labels, value in samples:
        inside = ",".join(f'{label}="{_quoted(text)}"' for label, text in labels.items())
        yield f"{name}{suffix}{{{inside}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
