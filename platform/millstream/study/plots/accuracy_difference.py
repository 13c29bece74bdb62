"""Accuracy difference against the share of records repeated or lost, with noise band and learning curve."""

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
    percent_axis,
    show_band,
    treatment_words,
)

__all__ = ["applies", "draw"]

_DELIVERIES = ("at_least_once", "at_most_once")
_LINE_STYLES = ("-", "--", ":", "-.")


def applies(cells: Sequence[Cell]) -> bool:
    """Return whether a delivery was tried with two or more shares of records."""
    return any(len({cell.affected for cell in found}) > 1 for found in _groups(cells).values())


def _groups(cells: Sequence[Cell]) -> dict[tuple[str, str, str], list[Cell]]:
    """The cells with failures anywhere, by stream, learner and treatment."""
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        factors = cell.factors
        anywhere = factors["placement"] == "random" and (factors["between_first"], factors["between_last"]) == (0, 1)
        if factors["treatment"] in (*_DELIVERIES, "late") and anywhere and cell.interval is not None:
            key = (factors["stream"], factors["learner"], treatment_words(cell))
            groups.setdefault(key, []).append(cell)
    return groups


def draw(table: pa.Table, cells: Sequence[Cell]) -> Figure:
    """Draw a panel for each learner and stream, with a line for each treatment and span.

    The last records stand for random ones only in a random order, so only there the learning curve predicts.
    """
    groups = _groups(cells)
    orders = dict(zip(table["stream"].to_pylist(), table["stream_config"].to_pylist(), strict=True))
    streams, learners, treatments = (list(dict.fromkeys(key[place] for key in groups)) for place in range(3))
    colours = colours_of(treatments)
    spans = sorted({cell.factors["span"] for found in groups.values() for cell in found})
    styles = dict(zip(spans, itertools.cycle(_LINE_STYLES), strict=False))
    title = "Accuracy difference (points) of each delivery, against the share of records that it repeats or loses"
    figure, axes = panels(len(learners), len(streams), title, height=1.6, share_x="all")
    for (row, learner), (column, stream) in itertools.product(enumerate(learners), enumerate(streams)):
        panel = axes[row][column]
        shown = [cell for treatment in treatments for cell in groups.get((stream, learner, treatment), [])]
        panel.axhline(0, color="#888888", linewidth=0.8)
        for treatment, span in itertools.product(treatments, spans):
            found = [cell for cell in groups.get((stream, learner, treatment), []) if cell.factors["span"] == span]
            _show(panel, found, colours[treatment], styles[span])
        if json.loads(orders[stream])["order"] == "iid":
            _show_prediction(panel, shown)
        low, high = panel.get_ylim()
        panel.set_ylim(min(low, -0.5), max(high, 0.5))
        if shown:
            show_band(panel, shown[0].accuracy_noise)
        if not row:
            panel.set_title(stream, fontsize=9)
        if not column:
            panel.set_ylabel(learner, fontsize=9)
        if row == len(learners) - 1:
            panel.set_xlabel("records affected, %", fontsize=8)
        percent_axis(panel, (cell.affected for found in groups.values() for cell in found))
    entries = [line(treatment, colour, marker="o", markersize=4) for treatment, colour in colours.items()]
    entries += [line(f"failures of {span} records", "#555555", linestyle=style) for span, style in styles.items()]
    entries.append(line("noise of one trial: exactly once in another order", BAND, linewidth=6))
    entries.append(line("predicted: exactly once, as many records fewer (iid)", COLOURS[6], marker="x", linestyle=""))
    legend_below(figure, entries, 3)
    return figure


def _show(panel: Axes, cells: Sequence[Cell], colour: str, style: str) -> None:
    ordered = sorted(cells, key=lambda cell: cell.affected)
    panel.errorbar(
        [POINTS * cell.affected for cell in ordered],
        [POINTS * cell.accuracy_difference for cell in ordered],
        [POINTS * cell.interval.half_width if cell.interval else 0 for cell in ordered],
        color=colour,
        linestyle=style,
        marker="o",
        markersize=3,
        linewidth=1,
        capsize=2,
    )


def _show_prediction(panel: Axes, cells: Sequence[Cell]) -> None:
    """Show the accuracy difference of exactly-once trials that lack as many of their last records."""
    for cell in cells:
        if cell.factors["treatment"] == "at_most_once" and cell.shorter_difference is not None:
            panel.plot(
                [POINTS * cell.affected], [POINTS * cell.shorter_difference], "x", color=COLOURS[6], markersize=4
            )
