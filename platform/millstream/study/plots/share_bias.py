"""Measured share bias and flips of popular labels against those of the closed form."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from millstream.study.cells import Cell
from millstream.study.plots.style import POINTS, colours_of, legend_below, line, panels

__all__ = ["applies", "draw"]


def applies(cells: Sequence[Cell]) -> bool:
    """Return whether the closed form applies to a cell."""
    return any(cell.closed_form_share_bias for cell in cells)


def draw(table: pa.Table, cells: Sequence[Cell]) -> Figure:
    """Draw a point for each stream, kind of failures and kind of effect; the learner has no part in them."""
    del table
    shown = {
        (cell.factors["stream"], cell.failures, _lost(cell)): cell for cell in cells if cell.closed_form_share_bias
    }
    figure, [[bias, flips]] = panels(
        1, 2, "The share bias that failures cause: measured, against the prediction of the closed form", height=3.6
    )
    streams = list(dict.fromkeys(stream for stream, *_ in shown))
    entries = []
    for stream, colour in colours_of(streams).items():
        found = [cell for (of, *_), cell in shown.items() if of == stream]
        for cell in found:
            marker = "v" if _lost(cell) else "o"
            _point(bias, POINTS * (cell.closed_form_share_bias or 0), POINTS * cell.share_bias, colour, marker)
            if cell.closed_form_flips is not None:
                _point(flips, cell.closed_form_flips, cell.flips, colour, marker)
        entries.append(line(f"{stream}: {_burstiness(found)}", colour, marker="s", linestyle=""))
    bias.set(xscale="log", yscale="log")
    for axis in (bias.xaxis, bias.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
    bias.minorticks_off()
    ratios = [cell.share_bias / cell.closed_form_share_bias for cell in shown.values() if cell.closed_form_share_bias]
    low, middle, high = np.quantile(ratios, [0.05, 0.5, 0.95])
    note = f"measured / predicted:\nmedian {middle:.2f}, 90 % in {low:.2f} to {high:.2f}"
    bias.text(0.03, 0.97, note, transform=bias.transAxes, va="top", fontsize=8)
    _labelled(bias, "share bias of a label (root mean square, percentage points)")
    _labelled(flips, "labels that cross the threshold, in a trial")
    kinds = [line("records repeated", "#555555", marker="o", linestyle="")]
    kinds.append(line("records lost", "#555555", marker="v", linestyle=""))
    legend_below(figure, [*entries, *kinds], 2)
    return figure


def _lost(cell: Cell) -> bool:
    return "at_most_once" in cell.treatment


def _point(axes: Axes, predicted: float, measured: float, colour: str, marker: str) -> None:
    axes.plot([predicted], [measured], marker, color=colour, markersize=6, alpha=0.8, markeredgewidth=0)


def _burstiness(cells: Sequence[Cell]) -> str:
    by_span = {cell.factors["span"]: cell.deff for cell in cells}
    return "burstiness " + ", ".join(f"{deff:.3g} at {span} records" for span, deff in sorted(by_span.items()))


def _labelled(axes: Axes, subject: str) -> None:
    low, high = axes.get_xlim()[0], axes.get_xlim()[1]
    low, high = min(low, axes.get_ylim()[0]), max(high, axes.get_ylim()[1])
    axes.plot([low, high], [low, high], color="#888888", linewidth=0.8, zorder=0)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_title(subject, fontsize=9, loc="left")
    axes.set_xlabel("predicted by the closed form", fontsize=9)
    axes.set_ylabel("measured", fontsize=9)
