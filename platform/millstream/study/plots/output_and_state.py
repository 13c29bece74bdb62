"""The effect of a delivery on the output alone, on the state alone, and on both."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from millstream.study.cells import Cell
from millstream.study.plots.style import COLOURS, POINTS, failure_words, legend_below, panels

__all__ = ["applies", "draw"]

_KINDS = {"output_only": "the output alone", "state_only": "the state alone", "both": "both"}
_MEASURES = {
    "predicted_share_bias": "error of a label's share in\nthe output, points (rms)",
    "labels_changed": "other predictions after\nthe stream, %",
}


def applies(cells: Sequence[Cell]) -> bool:
    """Return whether a delivery has been divided into its two halves."""
    return bool(_chosen(cells))


def _chosen(cells: Sequence[Cell]) -> dict[tuple[str, str, str, str], Cell]:
    """The cells by delivery, stream, learner and kind, with the failures that repeat or lose most records."""
    halves = [cell for cell in cells if cell.factors["treatment"] in _KINDS]
    most = max((cell.affected for cell in halves), default=0.0)
    levels = [cell.failures for cell in halves if cell.affected == most]
    found = {}
    for cell in cells:
        treatment = cell.factors["treatment"]
        half = treatment in _KINDS
        delivery = json.loads(cell.factors["treatment_config"])["of"] if half else treatment
        if levels and cell.failures == levels[-1]:
            key = (delivery, cell.factors["stream"], cell.factors["learner"], treatment if half else "both")
            found[key] = cell
    divided = {delivery for delivery, *_, kind in found if kind != "both"}
    return {key: cell for key, cell in found.items() if key[0] in divided}


def draw(table: pa.Table, cells: Sequence[Cell]) -> Figure:
    """Draw a panel for each delivery, measure and stream, with three bars for each learner."""
    del table
    chosen = _chosen(cells)
    deliveries, streams, learners = (list(dict.fromkeys(key[place] for key in chosen)) for place in range(3))
    failures = failure_words(next(iter(chosen.values())))
    title = f"The effect of a delivery through the output and through the model's state ({failures})"
    rows = [*itertools.product(deliveries, _MEASURES)]
    figure, axes = panels(len(rows), len(streams), title, height=2.0, share_x="all", share_y="row")
    for (row, (delivery, measure)), (column, stream) in itertools.product(enumerate(rows), enumerate(streams)):
        panel = axes[row][column]
        for place, (kind, colour) in enumerate(zip(_KINDS, COLOURS, strict=False)):
            found = [chosen.get((delivery, stream, learner, kind)) for learner in learners]
            _show(panel, [POINTS * getattr(cell, measure) if cell else 0.0 for cell in found], place, colour)
        panel.set_xticks(range(len(learners)), learners)
        panel.set_title(f"{stream}, {delivery.replace('_', ' ')}", fontsize=9)
        if not column:
            panel.set_ylabel(_MEASURES[measure], fontsize=8)
    words = zip(_KINDS.values(), COLOURS, strict=False)
    legend_below(figure, [Patch(color=colour, label=kind) for kind, colour in words])
    return figure


def _show(panel: Axes, heights: Sequence[float], place: int, colour: str) -> None:
    places = [number + 0.27 * (place - 1) for number in range(len(heights))]
    panel.bar(places, heights, 0.25, color=colour)
    for at, height in zip(places, heights, strict=True):
        panel.text(at, height, f"{height:.2g}" if height else "0", ha="center", va="bottom", fontsize=7)
