"""The accuracy of two runs over the records that both have read."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from millstream.runs.comparison import AccuracyWindow
from millstream.study.plots.style import COLOURS, POINTS, label_words, legend_below, line, panels

__all__ = ["draw"]


def draw(names: tuple[str, str], windows: Sequence[AccuracyWindow]) -> Figure:
    """Draw the accuracy of each run by window, and their difference below."""
    title = (
        f"Accuracy of {label_words(names[0])} and {label_words(names[1])}, each prediction before its label is learned"
    )
    figure, axes = panels(2, 1, title, height=2.2, share_x="all")
    middles = [(window.start + window.stop) / 2 for window in windows]
    for index, colour in enumerate(COLOURS[:2]):
        axes[0][0].plot(middles, [_points(window.accuracies[index]) for window in windows], color=colour, marker=".")
    axes[0][0].set_ylabel("accuracy, %", fontsize=8)
    differences = [_points(window.accuracies[1]) - _points(window.accuracies[0]) for window in windows]
    axes[1][0].axhline(0, color="#888888", linewidth=0.8)
    axes[1][0].plot(middles, differences, color=COLOURS[2], marker=".")
    axes[1][0].set_ylabel("second - first, points", fontsize=8)
    axes[1][0].set_xlabel("records of the logs", fontsize=8)
    entries = [line(label_words(name), colour) for name, colour in zip(names, COLOURS, strict=False)]
    legend_below(figure, entries)
    return figure


def _points(share: float | None) -> float:
    return math.nan if share is None else share * POINTS
