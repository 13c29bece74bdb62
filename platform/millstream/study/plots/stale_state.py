"""The effect of a state that returns to an older one, by its age and the part of the parameters that return."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from millstream.study.cells import Cell
from millstream.study.plots.style import (
    BAND,
    COLOURS,
    POINTS,
    colours_of,
    legend_below,
    line,
    panels,
    records_axis,
    show_band,
)

__all__ = ["applies", "draw"]


def applies(cells: Sequence[Cell]) -> bool:
    """Return whether states of two ages or more have been tried."""
    return len({age for age, _ in (_options(cell) for cell in _stale(cells))}) > 1


def _stale(cells: Sequence[Cell]) -> list[Cell]:
    """The cells whose failures hit the whole stream, and of these the ones with most failures."""
    found = [
        cell
        for cell in cells
        if cell.factors["treatment"] in ("stale_state", "lost_optimiser")
        and cell.interval is not None
        and (cell.factors["between_first"], cell.factors["between_last"]) == (0, 1)
    ]
    most = max((cell.factors["failures"] for cell in found), default=0)
    return [cell for cell in found if cell.factors["failures"] == most]


def _options(cell: Cell) -> tuple[int, float]:
    """The age in records and the part; the age 0 is that of optimiser state that is lost."""
    options = json.loads(cell.factors["treatment_config"])
    return (options["age"], options["part"]) if "age" in options else (0, 0.0)


def draw(table: pa.Table, cells: Sequence[Cell]) -> Figure:
    """Draw a panel for each stream and learner, with a line for each part."""
    del table
    chosen = _stale(cells)
    streams, learners = (list(dict.fromkeys(cell.factors[name] for cell in chosen)) for name in ("stream", "learner"))
    parts = sorted({part for _, part in map(_options, chosen) if part}, reverse=True)
    ages = sorted({age for age, _ in map(_options, chosen) if age})
    colours = colours_of(parts)
    number = chosen[0].factors["failures"]
    title = f"Accuracy difference (points) if the state returns to an older one {number} times, by its age and part"
    figure, axes = panels(len(streams), len(learners), title, height=1.9, share_x="all")
    for (row, stream), (column, learner) in itertools.product(enumerate(streams), enumerate(learners)):
        panel = axes[row][column]
        found = [c for c in chosen if (c.factors["stream"], c.factors["learner"]) == (stream, learner)]
        panel.axhline(0, color="#888888", linewidth=0.8)
        for part in parts:
            _show(panel, [cell for cell in found if _options(cell)[1] == part], colours[part])
        for cell in found:
            show_band(panel, cell.accuracy_noise if cell is found[0] else None)
            if not _options(cell)[0]:
                panel.axhline(POINTS * cell.accuracy_difference, color=COLOURS[3], linestyle=":")
        records_axis(panel, ages)
        if not row:
            panel.set_title(learner, fontsize=8)
        if not column:
            panel.set_ylabel(stream, fontsize=9)
        if row == len(streams) - 1:
            panel.set_xlabel("age, records", fontsize=8)
    dots = {"marker": "o", "markersize": 4}
    entries = [line(f"{part:.0%} of the parameters", colour, **dots) for part, colour in colours.items()]
    if any(not _options(cell)[0] for cell in chosen):
        entries.append(line("optimiser state lost", COLOURS[3], linestyle=":"))
    legend_below(figure, [*entries, line("noise of one trial: exactly once in another order", BAND, linewidth=6)], 3)
    return figure


def _show(panel: Axes, cells: Sequence[Cell], colour: str) -> None:
    ordered = sorted(cells, key=_options)
    panel.errorbar(
        [_options(cell)[0] for cell in ordered],
        [POINTS * cell.accuracy_difference for cell in ordered],
        [POINTS * cell.interval.half_width if cell.interval else 0 for cell in ordered],
        color=colour,
        marker="o",
        markersize=3,
        linewidth=1,
        capsize=2,
    )
