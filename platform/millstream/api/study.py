"""The studies of the Python API: run a study file, read the table of its trials and its cells, and see its plots."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millstream import arguments
from millstream.api.argument_names import naming_arguments
from millstream.config.document import Setting
from millstream.errors import ConfigError
from millstream.study.comparison import Progress, run_study
from millstream.study.results import labels_of
from millstream.study.study_file import StudyConfig, load_study

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

    from millstream.study.cells import Cell

__all__ = ["Study", "compare", "compared"]


@dataclass(frozen=True)
class Study:
    """A study that has been run: its config, its folder, and the table with a row for each trial."""

    config: StudyConfig
    path: Path
    table: pa.Table
    labels: Sequence[str]
    """The labels, in the order of the lists in the table."""

    @property
    def name(self) -> str:
        return self.config.name

    @cached_property
    def cells(self) -> list[Cell]:
        """The cells: the results of each combination of factors over its seeds, with intervals and verdicts."""
        from millstream.study.cells import cells_of

        return cells_of(self.table, self.config.margins)

    @property
    def plots(self) -> list[str]:
        """The names of the plots that apply to the study; its folder `plots` has them as files."""
        from millstream.study.plots.index import plots_of

        return plots_of(self.cells)

    def plot(self, name: str) -> Figure:
        """Return a plot as a figure of matplotlib, which a notebook shows."""
        from millstream.study.plots.index import PLOTS

        if name not in self.plots:
            message = f"the study {self.name!r} has no plot {name!r}; there are {', '.join(self.plots) or 'none'}"
            raise ConfigError(message)
        return PLOTS[name].draw(self.table, self.cells)


def compare(
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    quick: bool = False,
    set: Mapping[str, Any] | None = None,
    tasks: int | None = None,
    watch: Callable[[Progress], None] = lambda _: None,
    warn: Callable[[str], None] = warnings.warn,
) -> Study:
    """Run the trials of a study file that its folder `out` lacks, and return the study with all its trials.

    `quick` runs the study at the size of its `quick`; `set` changes values by key path. `watch` is called with the
    progress, `warn` if MLflow fails. Without `out`, the folder is `studies/NAME`.
    """
    file, folder = arguments.path("path", path), None if out is None else arguments.path("out", out)
    sets, small = [*arguments.settings("set", set).items()], arguments.flag("quick", quick)
    count = None if tasks is None else arguments.whole_number("tasks", tasks)
    with naming_arguments():
        return compared(file, folder, quick=small, sets=sets, tasks=count, watch=watch, warn=warn)


def compared(
    file: Path,
    folder: Path | None,
    *,
    quick: bool,
    sets: Sequence[Setting],
    tasks: int | None,
    watch: Callable[[Progress], None],
    warn: Callable[[str], None],
) -> Study:
    """Return the study as `compare` does; errors name the options of the command."""
    loaded = load_study(file, quick=quick, sets=sets)
    folder = folder or Path("studies") / loaded.study.name
    with loaded.document.secrets.redacting():
        table = run_study(loaded, folder, tasks=tasks, watch=watch, warn=warn)
    return Study(loaded.study, folder, table, labels_of(table))
