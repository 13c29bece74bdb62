"""The studies of the Python API: run a study file, read the table of its trials and its cells, and see its plots."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millstream import arguments
from millstream.api.argument_names import naming_arguments
from millstream.api.config import sets_of
from millstream.config.document import Setting
from millstream.errors import ConfigError
from millstream.study.comparison import Progress, run_study
from millstream.study.results import labels_of
from millstream.study.study_file import StudyConfig, load_study
from millstream.system_errors import system_error

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

    from millstream.study.cells import Cell

__all__ = ["Study", "compare", "study_of_file"]


@dataclass(frozen=True)
class Study:
    """A study that has been run: its config, its folder, and the table with a row for each trial."""

    config: StudyConfig
    path: Path
    table: pa.Table
    labels: Sequence[str]
    """The labels, in the order of the lists in the table."""
    cells: list[Cell]
    """The results of each combination of factors over its seeds, with intervals and verdicts."""

    @property
    def name(self) -> str:
        return self.config.name

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
    small, number = arguments.flag("quick", quick), None if tasks is None else arguments.whole_number("tasks", tasks)
    sets = sets_of(set)
    try:
        with naming_arguments():
            return study_of_file(file, folder, small, sets, tasks=number, watch=watch, warn=warn)
    except OSError as error:
        if (known := system_error(error)) is None:
            raise
        raise known from error


def study_of_file(
    path: Path,
    out: Path | None,
    quick: bool,
    sets: Sequence[Setting],
    *,
    tasks: int | None,
    watch: Callable[[Progress], None],
    warn: Callable[[str], None],
) -> Study:
    """Do the work of `compare`, with errors that name options of the command."""
    loaded = load_study(path, quick=quick, sets=sets)
    folder = Path("studies") / loaded.study.name if out is None else out
    with loaded.document.secrets.redacting():
        table, cells = run_study(loaded, folder, tasks=tasks, watch=watch, warn=warn)
    return Study(loaded.study, folder, table, labels_of(table), cells)
