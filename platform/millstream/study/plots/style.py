"""The style of all plots: sizes, colours that colour-blind readers tell apart, words for treatments, panels."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any, Literal, TypeVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from millstream.plain_text import one_line, short
from millstream.study.cells import Cell
from millstream.study.statistics import Interval

__all__ = [
    "BAND",
    "COLOURS",
    "POINTS",
    "colours_of",
    "failure_words",
    "label_words",
    "legend_below",
    "line",
    "panels",
    "percent_axis",
    "records_axis",
    "show_band",
    "treatment_words",
]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7A5C00")
"""The colours of Okabe and Ito, the light yellow replaced."""
BAND = "#BBBBBB"
"""The colour of noise bands."""
POINTS = 100.0
"""Percentage points in a share of 1."""

_WIDTH = 9.0
_Name = TypeVar("_Name")
_Shared = Literal["none", "all", "row", "col"]
_WORDS = {
    "exactly_once": "exactly once",
    "at_least_once": "at least once",
    "at_most_once": "at most once",
    "reordered": "repeats in another order",
    "interleaved": "exactly once in another order",
    "lost_optimiser": "optimiser state lost",
}


class _Figure(Figure):
    """A figure that a notebook shows, although no figure is known to pyplot."""

    def _repr_png_(self) -> bytes:
        """Return the image for IPython."""
        image = BytesIO()
        self.savefig(image, format="png")
        return image.getvalue()


def panels(
    rows: int,
    columns: int,
    title: str,
    *,
    height: float,
    heights: Sequence[float] | None = None,
    share_y: _Shared = "none",
    share_x: _Shared = "none",
) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure of 9 inches width with a title and its panels; `height` is that of one row, in inches.

    With `heights`, the rows have these proportions.
    """
    figure = _Figure(figsize=(_WIDTH, rows * height + 1.1), dpi=100, layout="constrained")
    found: Any = figure.subplots(rows, columns, squeeze=False, sharey=share_y, sharex=share_x, height_ratios=heights)
    figure.suptitle(title, fontsize=11, x=0.01, ha="left", wrap=True)
    axes: list[list[Axes]] = found.tolist()
    for each in (panel for row in axes for panel in row):
        each.tick_params(labelsize=8)
        each.spines[["top", "right"]].set_visible(False)
        each.grid(visible=True, color="#E8E8E8", linewidth=0.6)
        each.set_axisbelow(True)
    return figure, axes


def treatment_words(cell: Cell) -> str:
    """Return the words for a cell's treatment."""
    name = cell.factors["treatment"]
    if name == "late":
        delay = json.loads(cell.factors["treatment_config"])["delay"]
        return "repeats at the end" if delay is None else f"repeats {delay:,} records later"
    return _WORDS.get(name) or cell.treatment.replace("_", " ")


def failure_words(cell: Cell) -> str:
    """Return the words for a cell's failures.

    >>> from types import SimpleNamespace
    >>> failure_words(SimpleNamespace(factors={"failures": 1, "span": 60}, failures="1 x 60 in 0-0.5"))
    'one failure of 60 records in 0-0.5'
    """
    number = "one failure" if cell.factors["failures"] == 1 else f"{cell.factors['failures']} failures"
    _, _, place = cell.failures.partition(f" x {cell.factors['span']}")
    return f"{number} of {cell.factors['span']} records{label_words(place)}"


def label_words(label: str) -> str:
    r"""Return a label of the data, or a text with one, for a plot: short, on one line, and no formula of matplotlib.

    >>> label_words("under $5\nor $6")
    'under \\$5\\nor \\$6'
    """
    return short(one_line(label)).replace("$", r"\$")


def colours_of(names: Sequence[_Name]) -> dict[_Name, str]:
    """Return a colour for each name; the colours start over if there are more names."""
    return dict(zip(names, itertools.cycle(COLOURS), strict=False))


def line(label: str, colour: str, **style: Any) -> Line2D:
    """Return an entry of a legend."""
    return Line2D([], [], color=colour, label=label, **style)


def legend_below(figure: Figure, entries: Sequence[Any], columns: int = 4) -> None:
    """Show a legend below all panels."""
    figure.legend(handles=[*entries], loc="outside lower left", ncols=columns, fontsize=8, frameon=False)


def show_band(axes: Axes, band: Interval | None, factor: float = POINTS) -> None:
    """Show a noise band over the whole width of a panel; the vertical range stays that of the other data."""
    if band is not None:
        height, across = factor * (band.high - band.low), axes.get_yaxis_transform()
        axes.add_artist(
            Rectangle((0, factor * band.low), 1, height, transform=across, color=BAND, alpha=0.5, linewidth=0, zorder=0)
        )


def percent_axis(axes: Axes, shares: Iterable[float]) -> None:
    """Make the horizontal axis logarithmic, with ticks at these shares in percent."""
    ticks = _apart(sorted({share * POINTS for share in shares}))
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks])
    axes.minorticks_off()


def records_axis(axes: Axes, numbers: Iterable[int]) -> None:
    """Make the horizontal axis logarithmic, with ticks at these numbers of records."""
    ticks = _apart(sorted(set(numbers)))
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick / 1000:g}k" if tick >= 1000 else f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def _apart(ticks: Sequence[float]) -> list[float]:
    """Return ticks that are far enough from each other for their labels."""
    kept: list[float] = []
    span = math.log(ticks[-1] / ticks[0]) if len(ticks) > 1 else 1.0
    for tick in ticks:
        if not kept or math.log(tick / kept[-1]) > 0.12 * span:
            kept.append(tick)
    return kept
