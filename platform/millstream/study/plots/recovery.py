"""Recovery after a failure: predictions that differ from the pair's, and accuracy, by records since the failure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from millstream.study.cells import Cell
from millstream.study.plots.style import POINTS, colours_of, failure_words, legend_below, line, panels, records_axis
from millstream.study.recovery import RECOVERY_EDGES
from millstream.study.statistics import mean_interval

__all__ = ["applies", "draw"]

_DELIVERIES = {"at_least_once": "repeated", "at_most_once": "lost"}
_MEASURES = {"changed": "other predictions, %", "accuracy": "accuracy, points"}
_CENTRES = [50.0, *(float(np.sqrt(low * high)) for low, high in itertools.pairwise([*RECOVERY_EDGES[1:], 40_000]))]


def applies(cells: Sequence[Cell]) -> bool:
    """Return whether records are repeated or lost in trials with two seeds or more, with a model that learns."""
    return bool(_chosen(cells))


def _chosen(cells: Sequence[Cell]) -> list[Cell]:
    """The cells with the fewest failures, and of these with the longest ones: recovery is seen between failures."""
    known = [cell for cell in cells if cell.factors["treatment"] in _DELIVERIES and cell.interval]
    levels = {cell.failures: (cell.factors["failures"], -cell.factors["span"]) for cell in known if cell.labels_changed}
    best = min(levels, key=lambda failures: levels[failures], default=None)
    return [cell for cell in known if cell.failures == best]


def draw(table: pa.Table, cells: Sequence[Cell]) -> Figure:
    """Draw a panel for each stream, delivery and measure, with a line for each learner."""
    chosen = _chosen(cells)
    streams, learners = (list(dict.fromkeys(cell.factors[name] for cell in chosen)) for name in ("stream", "learner"))
    colours = colours_of(learners)
    deliveries = [name for name in _DELIVERIES if any(cell.factors["treatment"] == name for cell in chosen)]
    title = f"Recovery after {failure_words(chosen[0])}: the difference to the run without it, as records follow"
    rows = [*itertools.product(_MEASURES, deliveries)]
    figure, axes = panels(len(rows), len(streams), title, height=1.6, share_x="all", share_y="row")
    trials: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    names = [*chosen[0].factors]
    for trial in table.select([*names, *(f"recovery_{measure}" for measure in _MEASURES)]).to_pylist():
        trials.setdefault(tuple(trial[name] for name in names), []).append(trial)
    for (row, (measure, delivery)), (column, stream) in itertools.product(enumerate(rows), enumerate(streams)):
        panel = axes[row][column]
        panel.axhline(0, color="#888888", linewidth=0.8)
        for cell in chosen:
            if (cell.factors["treatment"], cell.factors["stream"]) == (delivery, stream):
                found = [each[f"recovery_{measure}"] for each in trials[tuple(cell.factors.values())]]
                _show(panel, found, colours[cell.factors["learner"]])
        if not row:
            panel.set_title(stream, fontsize=9)
        if not column:
            panel.set_ylabel(f"records {_DELIVERIES[delivery]}:\n{_MEASURES[measure]}", fontsize=8)
        if row == len(rows) - 1:
            panel.set_xlabel("records since the failure", fontsize=8)
    latest = max(panel.dataLim.x1 for panel in axes[0])
    records_axis(axes[0][0], [tick for tick in (100, 1000, 10_000) if tick <= latest])
    legend_below(figure, [line(learner, colour, marker=".") for learner, colour in colours.items()])
    return figure


def _show(panel: Axes, lists: Sequence[list[float | None] | None], colour: str) -> None:
    """Show the mean over seeds of every bin that at least half of the seeds have, with its interval as a shade."""
    by_bin = [[value for value in bins if value is not None] for bins in zip(*filter(None, lists), strict=True)]
    enough = max(2, len(lists) / 2)
    found = [(at, mean_interval(values)) for at, values in zip(_CENTRES, by_bin, strict=False) if len(values) >= enough]
    places = [at for at, _ in found]
    means, low, high = ([POINTS * getattr(each, name) for _, each in found] for name in ("mean", "low", "high"))
    panel.plot(places, means, color=colour, linewidth=1.2, marker=".", markersize=4)
    shade = panel.fill_between(places, low, high, color=colour, alpha=0.08, linewidth=0)
    shade.set_in_layout(False)
