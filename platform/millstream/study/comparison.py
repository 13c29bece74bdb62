"""A study from its file to its results: checks, the collection, the trials that are missing, table, cells, plots."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import csv

from millstream.engines.spark.background_session import BackgroundSession
from millstream.errors import DISK_FULL, ConfigError, MillstreamError, Unavailable
from millstream.extras import check_parts, require
from millstream.log.journal.durability import make_folder
from millstream.log.journal.lock import FolderLock
from millstream.study.collection import Collection, data_identity, write_collection
from millstream.study.factors import LostOptimiser, StaleState
from millstream.study.grid import groups_of
from millstream.study.learner import Learner
from millstream.study.results import ResultFolder
from millstream.study.spark_trials import PLOTS, draw_plots, prepare_drawing, run_trials, start_spark
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
) -> tuple[pa.Table, list[Cell]]:
    """Run the trials of a study that its folder lacks; return the table of all its trials, and its cells.

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
    with _locked(folder.path):
        folder.claim(study.name, identity)
        folder.remove_partial()
        table, cells = _run(loaded, folder, identity, tasks, watch)
        if study.mlflow is not None:
            from millstream.study.mlflow_record import record_study

            record_study(loaded, folder.path, table, cells, warn)
    return table, cells


def _locked(folder: Path) -> FolderLock:
    """Return the lock of the folder of the results, which is made if it is not there."""
    try:
        make_folder(folder)
        return FolderLock(folder)
    except OSError as error:
        message = f"cannot write the folder {folder}: {error.strerror}; choose another --out"
        raise (Unavailable if error.errno in DISK_FULL else MillstreamError)(message) from error


def _run(
    loaded: LoadedStudy, folder: ResultFolder, identity: str, at_once: int | None, watch: Callable[[Progress], None]
) -> tuple[pa.Table, list[Cell]]:
    """Run the trials that the folder lacks; write and return the table of all trials, and its cells."""
    study, finished = loaded.study, folder.finished()
    missing = tasks_of(study, finished)
    with BackgroundSession(folder.spark_log, at_once, "the study", "the trials that are missing") as spark:

        def check_and_start(collection: Collection) -> None:
            _check(loaded, collection)
            if missing:
                start_spark(spark, study, missing)

        # Texts are hashed, and modules imported, while Spark starts.
        write_collection(loaded, folder.collection, identity, check_and_start)
        for module in ("millstream.study.cells", PLOTS):
            importlib.import_module(module)
        keys = [trial.key for group in groups_of(study) for trial, _ in group.trials(study)]
        before, parts = sum(key in finished for key in keys), dict[str, pa.Table]()
        others = folder.count(parts) - before

        def report() -> None:
            watch(Progress(folder.count(parts) - others, len(keys), before))

        if missing:
            run_trials(spark, study, missing, folder, finished, report)
            prepare_drawing(spark)
        table = folder.merge(keys, parts)
        return table, _describe(loaded, folder, table, spark)


def _describe(loaded: LoadedStudy, folder: ResultFolder, table: pa.Table, spark: BackgroundSession) -> list[Cell]:
    """Write the cells and the plots of a table into the study's folder; return the cells."""
    from millstream.study.cells import cells_of, cells_table
    from millstream.study.plots.index import prepare_plots, write_plots

    cells = cells_of(table, loaded.study.margins)
    csv.write_csv(cells_table(cells), folder.path / "cells.csv")
    if spark.is_started:
        draw_plots(spark, folder, prepare_plots(cells, folder.plots), cells)
    else:
        write_plots(table, cells, folder.plots)
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
