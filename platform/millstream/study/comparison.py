"""A study from its file to its results: checks, the collection, the trials that are missing, table, cells, plots."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import csv

from millstream.errors import ConfigError
from millstream.extras import check_parts, require
from millstream.log.journal.durability import make_folder
from millstream.log.journal.lock import FolderLock
from millstream.study.collection import Collection, data_identity, open_collection, write_collection
from millstream.study.factors import LostOptimiser, StaleState
from millstream.study.grid import groups_of
from millstream.study.learner import Learner
from millstream.study.results import ResultFolder
from millstream.study.spark_trials import run_on_spark
from millstream.study.streams import label_number, order_stream
from millstream.study.study_file import LoadedStudy
from millstream.study.task import tasks_of

if TYPE_CHECKING:
    from millstream.study.cells import Cell

__all__ = ["Progress", "run_study"]


@dataclass(frozen=True)
class Progress:
    """The number of finished trials, of all trials, and of those that were finished before this start."""

    finished: int
    trials: int
    before: int


def run_study(
    loaded: LoadedStudy,
    out: Path,
    *,
    tasks: int | None = None,
    watch: Callable[[Progress], None] = lambda _: None,
    warn: Callable[[str], None] = warnings.warn,
) -> pa.Table:
    """Run the trials of a study that its folder lacks; return the table of all its trials.

    `tasks` is the number of Spark tasks; None: one for each stream and seed. The table does not depend on it.
    """
    study = loaded.study
    for learner in study.learners.values():
        check_parts(learner)
    require("spark", "a study")
    require("study", "a study")
    if study.mlflow is not None:
        require("mlflow", "`mlflow` of a study")
    for place in (out, *out.parents):
        if place.exists() and not place.is_dir():
            raise ConfigError(f"{place} is a file; name a folder for the results")
    folder = ResultFolder(out)
    identity = data_identity(loaded, folder.path)
    folder.check(study.name, identity)
    make_folder(folder.path)
    with FolderLock(folder.path):
        folder.claim(study.name, identity)
        folder.remove_partial()
        write_collection(loaded, folder.collection, identity)
        _check(loaded, open_collection(folder.collection))
        table = _table(loaded, folder, tasks, watch)
        cells = _describe(loaded, folder.path, table)
        if study.mlflow is not None:
            from millstream.study.mlflow_record import record_study

            record_study(loaded, folder.path, table, cells, warn)
    return table


def _table(loaded: LoadedStudy, folder: ResultFolder, tasks: int | None, watch: Callable[[Progress], None]) -> pa.Table:
    """Run the trials that the folder lacks; return the table of all trials."""
    study = loaded.study
    keys = [trial.key for group in groups_of(study) for trial, _ in group.trials(study)]
    finished = folder.finished()
    before, counted = sum(key in finished for key in keys), dict[str, int]()
    others = folder.count(counted) - before

    def report() -> None:
        watch(Progress(folder.count(counted) - others, len(keys), before))

    if missing := tasks_of(study, finished):
        run_on_spark(study, missing, folder, finished, tasks, report)
    return folder.merge(keys)


def _describe(loaded: LoadedStudy, folder: Path, table: pa.Table) -> list[Cell]:
    """Write the cells and the plots of a table into the study's folder; return the cells."""
    from millstream.study.cells import cells_of, cells_table
    from millstream.study.plots.index import write_plots

    cells = cells_of(table, loaded.study.margins)
    csv.write_csv(cells_table(cells), folder / "cells.csv")
    write_plots(table, cells, folder / "plots")
    return cells


def _check(loaded: LoadedStudy, collection: Collection) -> None:
    """Refuse streams that cannot be made of the data, and treatments that a learner cannot have."""
    study = loaded.study
    for name, stream in study.streams.items():
        others = {"holdout": study.data.holdout, "before": study.data.trained_before, "seed": study.seed_list[0]}
        try:
            order_stream(stream, collection.labels, collection.names, records=study.records(name), **others)
        except ConfigError as error:
            loaded.refuse(["streams", name], str(error))
    for index, failures in enumerate(study.failures):
        if failures.topic is not None:
            try:
                label_number(failures.topic, collection.names)
            except ConfigError as error:
                loaded.refuse(["failures", index, "topic"], str(error))
    for name, config in study.learners.items():
        try:
            learner = Learner(config, collection.columns.schema, len(collection.names))
        except ConfigError as error:
            loaded.refuse(["learners", name], str(error))
        for index, treatment in enumerate(study.treatments):
            if treatment.learners is None or name in treatment.learners:
                if isinstance(treatment, LostOptimiser) and learner.without_optimiser() is None:
                    message = f"the learner {name!r} keeps no optimiser state that it could lose"
                    loaded.refuse(["treatments", index], f"{message}; name the others in `learners: [...]`")
                if isinstance(treatment, StaleState) and treatment.part < 1 and not learner.has_parts():
                    message = f"the state of the learner {name!r} has no parts, so it returns as a whole or not at all"
                    loaded.refuse(["treatments", index], f"{message}; name the others in `learners: [...]`")
