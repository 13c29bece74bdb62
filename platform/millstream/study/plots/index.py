"""The index of all plots: the tables to which each applies, and their files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from matplotlib.figure import Figure

from millstream.log.journal.durability import make_folder
from millstream.study.cells import Cell
from millstream.study.plots import (
    accuracy_difference,
    counted_repeats,
    earlier_work,
    late_repeats,
    output_and_state,
    recovery,
    share_bias,
    stale_state,
)

__all__ = ["PLOTS", "plots_of", "prepare_plots", "write_plot", "write_plots"]

_DOTS_PER_INCH = 150


@dataclass(frozen=True)
class Plot:
    """A plot of a study's table and cells, if these have what it shows."""

    applies: Callable[[Sequence[Cell]], bool]
    draw: Callable[[pa.Table, Sequence[Cell]], Figure]


PLOTS: Mapping[str, Plot] = {
    "share_bias": Plot(share_bias.applies, share_bias.draw),
    "accuracy_difference": Plot(accuracy_difference.applies, accuracy_difference.draw),
    "recovery": Plot(recovery.applies, recovery.draw),
    "late_repeats": Plot(late_repeats.applies, late_repeats.draw),
    "output_and_state": Plot(output_and_state.applies, output_and_state.draw),
    "stale_state": Plot(stale_state.applies, stale_state.draw),
    "counted_repeats": Plot(counted_repeats.applies, counted_repeats.draw),
    "earlier_work": Plot(earlier_work.applies, earlier_work.draw),
}
"""All plots, by name."""


def plots_of(cells: Sequence[Cell]) -> list[str]:
    """Return the names of the plots that apply to these cells."""
    return [name for name, plot in PLOTS.items() if plot.applies(cells)]


def write_plots(table: pa.Table, cells: Sequence[Cell], folder: Path) -> list[Path]:
    """Write every plot that applies as a PNG file, the same bytes for the same table; return the files."""
    return [write_plot(name, table, cells, folder) for name in prepare_plots(cells, folder)]


def prepare_plots(cells: Sequence[Cell], folder: Path) -> list[str]:
    """Make the folder of the plots, and remove its files of earlier plots; return the names of those that apply."""
    make_folder(folder)
    for name in PLOTS:
        (folder / f"{name}.png").unlink(missing_ok=True)
    return plots_of(cells)


def write_plot(name: str, table: pa.Table, cells: Sequence[Cell], folder: Path) -> Path:
    """Write one plot as a PNG file; return the file."""
    file = folder / f"{name}.png"
    PLOTS[name].draw(table, cells).savefig(file, dpi=_DOTS_PER_INCH, metadata={"Software": None})
    return file
