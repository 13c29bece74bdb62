"""The candidates of a search as a plot: accuracy while they learn, and the accuracies by which they are compared."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from millstream.history.search.candidates import Candidate
from millstream.history.search.judgement import Judgement
from millstream.plain_text import value_text
from millstream.study.plots.style import COLOURS, POINTS, label_words, legend_below, line, panels

__all__ = ["draw"]

_BEST = 6
_MOST = 30
_LINE = 0.3
"""The height of a candidate in the lower panel, in inches."""
_CURVES = 2.6
"""The height of the upper panel, in inches."""


def draw(name: str, candidates: Sequence[Candidate], judgements: Sequence[Judgement]) -> Figure:
    """Draw the candidates, the best first: the best ones in colours, those that were left behind in grey."""
    judged = [each for each in judgements if each.error is None]
    shown = judged[:_MOST]
    height = max(1.6, _LINE * len(shown) + 0.4)
    title = f"Search of {label_words(name)}: {len(judgements):,} candidates"
    if len(shown) < len(judgements):
        title += f", the {len(shown)} best"
    figure, axes = panels(2, 1, title, height=(_CURVES + height) / 2, heights=(_CURVES, height))
    colours = {each.candidate: colour for each, colour in zip(judged, COLOURS[:_BEST], strict=False)}
    _show_curves(axes[0][0], judged, colours)
    _show_accuracies(axes[1][0], shown, candidates, colours)
    entries = [
        line("prequential: each prediction before its label is learned", "#444444", marker="o", linestyle=""),
        line("held out: records that no candidate learned", "#444444", marker="|", linestyle="", markersize=9),
    ]
    legend_below(figure, entries, 2)
    return figure


def _show_curves(panel: Axes, judged: Sequence[Judgement], colours: dict[int, str]) -> None:
    """Show the accuracy of each span, over the records learned."""
    for each in reversed(judged):
        ends = [min((index + 1) * each.span, each.records) for index in range(len(each.curve))]
        shares = [_points(accuracy.share) for accuracy in each.curve]
        best = each.candidate in colours
        colour = colours.get(each.candidate, "#BBBBBB")
        panel.plot(ends, shares, color=colour, linewidth=1.4 if best else 0.8, marker=".", markersize=3)
    panel.set_ylabel("accuracy of a span, %", fontsize=8)
    panel.set_xlabel("records learned", fontsize=8)
    panel.xaxis.set_major_formatter("{x:,.0f}")


def _show_accuracies(
    panel: Axes, judged: Sequence[Judgement], candidates: Sequence[Candidate], colours: dict[int, str]
) -> None:
    """Show both accuracies of each candidate, the best one above."""
    for row, each in enumerate(judged):
        colour = colours.get(each.candidate, "#888888")
        pair = [_points(each.prequential.share), _points(each.held_out.share)]
        panel.plot(pair, [row, row], color=colour, linewidth=0.8, alpha=0.6)
        panel.plot(pair[:1], [row], color=colour, marker="o", markersize=5)
        panel.plot(pair[1:], [row], color=colour, marker="|", markersize=9, markeredgewidth=1.8)
        words = f"{_words(candidates[each.candidate - 1])}   (rung {each.rung}, {each.records:,} records)"
        across = panel.get_yaxis_transform()
        panel.text(0.005, row - 0.18, words, transform=across, fontsize=6.5, color="#444444", va="bottom")
    panel.set_yticks(range(len(judged)), [str(place) for place in range(1, len(judged) + 1)])
    panel.set_ylim(len(judged) - 0.5, -0.9)
    panel.set_ylabel("place", fontsize=8)
    panel.set_xlabel("accuracy, %", fontsize=8)


def _words(candidate: Candidate) -> str:
    words = [f"{key.removeprefix('model.')}={value_text(value)}" for key, value in candidate.values.items()]
    return ", ".join(map(label_words, words))


def _points(share: float | None) -> float:
    return math.nan if share is None else share * POINTS
