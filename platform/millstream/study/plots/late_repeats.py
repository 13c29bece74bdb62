"""A heat map of the accuracy difference by the delay of repeats and the drift of the stream."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.colors import SymLogNorm
from matplotlib.figure import Figure

from millstream.study.cells import Cell
from millstream.study.plots.style import POINTS, label_words, panels

__all__ = ["applies", "draw"]

_MOST_LEVELS = 3
_END = 1 << 62
"""The delay of repeats that come at the end."""


def applies(cells: Sequence[Cell]) -> bool:
    """Return whether repeats arrive with two delays or more."""
    return len({_delay(cell) for cell in cells} - {None}) > 1


def _delay(cell: Cell) -> int | None:
    """The records between a failure and its repeats; None if there are no repeats of records."""
    if cell.factors["treatment"] == "late":
        delay = json.loads(cell.factors["treatment_config"])["delay"]
        return _END if delay is None else int(delay)
    return 0 if cell.factors["treatment"] == "at_least_once" else None


def draw(table: pa.Table, cells: Sequence[Cell]) -> Figure:
    """Draw a map for each kind of failures and each learner; the kinds are those that repeat most records."""
    del table
    known = [cell for cell in cells if _delay(cell) is not None]
    largest = sorted({cell.failures: cell.affected for cell in known}.items(), key=lambda each: -each[1])
    levels = [failures for failures, _ in largest[:_MOST_LEVELS]]
    learners, streams = (list(dict.fromkeys(cell.factors[name] for cell in known)) for name in ("learner", "stream"))
    delays = sorted({delay for cell in known if (delay := _delay(cell)) is not None})
    title = "Accuracy difference (points) by the delay of repeats and the stream; * differs after Holm's correction"
    figure, axes = panels(
        len(levels), len(learners), title, height=0.5 + 0.28 * len(delays), share_x="all", share_y="all"
    )
    shown = [cell for cell in known if cell.failures in levels]
    extent = max(0.1, *(POINTS * abs(cell.accuracy_difference) for cell in shown))
    for (row, failures), (column, learner) in itertools.product(enumerate(levels), enumerate(learners)):
        panel = axes[row][column]
        found = {
            (_delay(cell), cell.factors["stream"]): cell
            for cell in shown
            if (cell.failures, cell.factors["learner"]) == (failures, learner)
        }
        _show(panel, [[found.get((delay, stream)) for stream in streams] for delay in delays], extent)
        panel.set_xticks(range(len(streams)), streams, rotation=35, ha="right", rotation_mode="anchor")
        panel.set_yticks(range(len(delays)), [_words(delay) for delay in delays])
        if not row:
            panel.set_title(learner, fontsize=9)
        if not column:
            panel.set_ylabel(f"{label_words(failures)}\ndelay, records", fontsize=8)
    return figure


def _show(panel: Axes, found: Sequence[Sequence[Cell | None]], extent: float) -> None:
    values = np.array([[POINTS * cell.accuracy_difference if cell else np.nan for cell in row] for row in found])
    norm = SymLogNorm(1.0, vmin=-extent, vmax=extent)
    panel.imshow(values, cmap="RdBu", norm=norm, aspect="auto")
    panel.grid(visible=False)
    for (row, column), value in np.ndenumerate(values):
        cell = found[row][column]
        if cell is not None:
            mark = "*" if cell.verdict == "different" else ""
            colour = "white" if abs(norm(value) - 0.5) > 0.35 else "black"
            number = f"{value:+.1f}" if abs(value) >= 0.05 else "0.0"
            panel.text(column, row, f"{number}{mark}", ha="center", va="center", fontsize=7, color=colour)


def _words(delay: int) -> str:
    return "at the end" if delay == _END else f"{delay:,}" if delay else "at once"
