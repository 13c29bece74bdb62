"""Share bias within a window: every place of a failure in every window of a sample, by counting."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from millstream.guarantees.delivery import Delivery
from millstream.study.labels import Labels
from millstream.study.share_bias import Spans

__all__ = ["WindowBias", "window_bias"]


@dataclass(frozen=True)
class WindowBias:
    """The effects of one failure on the window that it falls in, over all windows, labels and places of the failure.

    `rms` is the root of the mean squared error of a label's share, `flips` the probability that a label is on the wrong
    side of the threshold, and `missing` the probability that the whole window is lost.
    """

    rms: float
    flips: float | None
    missing: float
    windows: int


def window_bias(
    delivery: Delivery, labels: Labels, window: int, spans: Spans, threshold: float | None = None
) -> WindowBias | None:
    """Return the effects of one failure inside a window of this many records; None without two such windows.

    A span of a whole window or more changes no share when it is repeated, and loses the window when it is lost.

    >>> labels = Labels.of(["a"] * 5 + ["b"] * 5 + ["a", "b"] * 5)
    >>> found = window_bias(Delivery.AT_LEAST_ONCE, labels, 10, Spans.of([5]), threshold=0.6)
    >>> found.windows, round(found.rms, 3), round(found.flips, 3)
    (2, 0.084, 0.167)
    """
    windows = len(labels) // window
    if windows < 2:
        return None
    squares = flips = missing = 0.0
    for length, weight in zip(spans.lengths, spans.weights, strict=True):
        if 0 < length < window and delivery is not Delivery.EXACTLY_ONCE:
            square, flipped = _in_windows(delivery, labels, window, length, threshold)
            squares += weight * square
            flips += weight * flipped
        elif length and delivery is Delivery.AT_MOST_ONCE:
            missing += weight
    kept = 1 - missing or 1.0
    return WindowBias(math.sqrt(squares / kept), None if threshold is None else flips / kept, missing, windows)


def _in_windows(
    delivery: Delivery, labels: Labels, window: int, length: int, threshold: float | None
) -> tuple[float, float]:
    """The mean squared bias, and the share of crossed thresholds, of all labels for every place of a span."""
    sign = -1 if delivery is Delivery.AT_MOST_ONCE else 1
    cut = labels.codes[: len(labels) // window * window].reshape(-1, window)
    squares, flips = [], []
    for label in range(len(labels.names)):
        total = np.zeros((len(cut), window + 1), np.int64)
        np.cumsum(cut == label, axis=1, out=total[:, 1:])
        share = total[:, -1:] / window
        changed = (total[:, -1:] + sign * (total[:, length:] - total[:, :-length])) / (window + sign * length)
        squares.append(np.mean((changed - share) ** 2))
        if threshold is not None:
            flips.append(np.mean((changed >= threshold) != (share >= threshold)))
    return float(np.mean(squares)), float(np.mean(flips)) if flips else 0.0
