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
    """The effect of one failure on a window that it touches, over all windows, labels and places of the failure.

    `rms` is the root of the mean squared error of a label's share, and `flips` the probability that a label is on the
    wrong side of the threshold, both in windows of which a part is repeated or lost. `whole` is the probability that
    all of the window is. `windows` is the number of windows of the sample that were counted; 0 if the sample is shorter
    than two windows and the closed form was used.
    """

    rms: float
    flips: float | None
    whole: float
    windows: int


def window_bias(
    delivery: Delivery, labels: Labels, window: int, spans: Spans, threshold: float | None = None
) -> WindowBias | None:
    """Return the effect of one failure on windows of this many records; None if the sample has fewer than two.

    >>> labels = Labels.of(["a"] * 5 + ["b"] * 5 + ["a", "b"] * 5)
    >>> found = window_bias(Delivery.AT_LEAST_ONCE, labels, 10, Spans.of([5]), threshold=0.6)
    >>> found.windows, round(found.rms, 3), round(found.flips, 3)
    (2, 0.08, 0.143)
    """
    windows = len(labels) // window
    if windows < 2:
        return None
    squares = flips = whole = 0.0
    for length, weight in zip(spans.lengths, spans.weights, strict=True):
        if length and delivery is not Delivery.EXACTLY_ONCE:
            covered = max(0, length - window + 1) / (length + window - 1)
            square, flipped = _touched(delivery, labels, window, length, threshold)
            squares += weight * (1 - covered) * square
            flips += weight * (1 - covered) * flipped
            whole += weight * covered
    part = 1 - whole or 1.0
    return WindowBias(math.sqrt(squares / part), None if threshold is None else flips / part, whole, windows)


def _touched(
    delivery: Delivery, labels: Labels, window: int, length: int, threshold: float | None
) -> tuple[float, float]:
    """The mean squared bias, and the share of crossed thresholds, of all labels for every place of a span.

    A span touches a window with its end (the first records of the window), with its beginning (the last ones), or
    lies inside it.
    """
    sign = -1 if delivery is Delivery.AT_MOST_ONCE else 1
    cut = labels.codes[: len(labels) // window * window].reshape(-1, window)
    ends = np.arange(1, min(length, window))
    squares, flips = [], []
    for label in range(len(labels.names)):
        total = np.zeros((len(cut), window + 1), np.int64)
        np.cumsum(cut == label, axis=1, out=total[:, 1:])
        whole = total[:, -1:]
        inside = total[:, length:] - total[:, :-length] if length < window else total[:, :0]
        counts = np.concatenate([total[:, ends], whole - total[:, window - ends], inside], axis=1)
        lengths = np.concatenate([ends, ends, np.full(inside.shape[1], length)])
        share, changed = whole / window, (whole + sign * counts) / (window + sign * lengths)
        squares.append(np.mean((changed - share) ** 2) if counts.size else 0.0)
        if threshold is not None and counts.size:
            flips.append(np.mean((changed >= threshold) != (share >= threshold)))
    return float(np.mean(squares)), float(np.mean(flips)) if flips else 0.0
