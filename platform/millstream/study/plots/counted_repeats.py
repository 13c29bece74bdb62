"""Prequential accuracy difference on first deliveries against that on all deliveries."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from millstream.study.cells import Cell
from millstream.study.plots.style import POINTS, colours_of, legend_below, line, panels

__all__ = ["applies", "draw"]

_SHADE = "#F5D6C6"
_TREATMENTS = ("at_least_once", "late", "reordered")


def applies(cells: Sequence[Cell]) -> bool:
    """Return whether records are repeated for a model that learns."""
    return bool(_repeated(cells))


def _repeated(cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.factors["treatment"] in _TREATMENTS and cell.labels_changed]


def _is_wrong(cell: Cell) -> bool:
    """Return whether the intervals of both differences exclude 0, on different sides."""
    first, everything = cell.first_interval, cell.all_interval
    return first is not None and everything is not None and first.high < 0 < everything.low


def draw(table: pa.Table, cells: Sequence[Cell]) -> Figure:
    """Draw a point for each cell, in a panel for each stream."""
    del table
    shown = _repeated(cells)
    streams, learners = (list(dict.fromkeys(cell.factors[name] for cell in shown)) for name in ("stream", "learner"))
    colours = colours_of(learners)
    wrong = sum(_is_wrong(cell) for cell in shown)
    number = f"{wrong} of {len(shown)} cells"
    title = f"Prequential accuracy difference with and without repeats: a clear loss looks like a gain in {number}"
    figure, axes = panels(1, len(streams), title, height=2.7)
    for panel, stream in zip(axes[0], streams, strict=True):
        for cell in shown:
            if cell.factors["stream"] == stream:
                at = [POINTS * cell.first_difference], [POINTS * cell.all_difference]
                size = 5.0 if _is_wrong(cell) else 3.0
                colour = colours[cell.factors["learner"]]
                panel.plot(*at, "o", color=colour, markersize=size, alpha=0.8, markeredgewidth=0)
        _mark(panel)
        panel.set_title(stream, fontsize=9)
        panel.set_xlabel("on first deliveries, points", fontsize=8)
    axes[0][0].set_ylabel("on all deliveries, points", fontsize=8)
    entries = [line(learner, colour, marker="o", linestyle="") for learner, colour in colours.items()]
    entries += [
        line("no flattery", "#888888"),
        line("a loss looks like a gain (large points: by both 95 % intervals)", _SHADE, linewidth=6),
    ]
    legend_below(figure, entries)
    return figure


def _mark(panel: Axes) -> None:
    """Shade the part in which a loss looks like a gain; draw the diagonal."""
    low, high = (pick(*panel.get_xlim(), *panel.get_ylim(), 0.0) for pick in (min, max))
    panel.fill_between([low, 0], 0, high, color=_SHADE, linewidth=0, zorder=0)
    panel.plot([low, high], [low, high], color="#888888", linewidth=0.8, zorder=0)
    panel.set(xlim=(low, high), ylim=(low, high))
