"""The trials and plots of a study on Spark: a task runs many trials, and writes the rows of each finished group."""

from __future__ import annotations

import functools
import gc
import importlib
import json
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from millstream.compiled.later_imports import import_noted
from millstream.engines.spark.background_session import BackgroundSession
from millstream.study.results import ResultFolder
from millstream.study.study_file import StudyConfig
from millstream.study.task import Task, run_task
from millstream.system_errors import system_error

if TYPE_CHECKING:
    from millstream.study.cells import Cell

__all__ = ["PLOTS", "draw_plots", "prepare_drawing", "run_trials", "start_spark"]

PLOTS = "millstream.study.plots.index"
"""The module that imports matplotlib."""


def start_spark(spark: BackgroundSession, study: StudyConfig, tasks: Sequence[Task]) -> None:
    """Start Spark in the background; its Python processes import what the tasks need."""
    spark.start()
    spark.prepare(functools.partial(_prepare, _described(study), sys.path), len(tasks))


def run_trials(
    spark: BackgroundSession,
    study: StudyConfig,
    tasks: Sequence[Task],
    folder: ResultFolder,
    finished: Collection[str],
    watch: Callable[[], None],
) -> None:
    """Run the tasks on Spark; `watch` is called again and again."""
    run = functools.partial(_run_partition, _described(study), sys.path, folder.path.absolute(), sorted(finished))
    spark.run(run, [json.dumps(asdict(task)) for task in tasks], watch)


def prepare_drawing(spark: BackgroundSession) -> None:
    """Let the Python processes of Spark import matplotlib, in the background."""
    spark.prepare(_prepare_drawing, len(importlib.import_module(PLOTS).PLOTS))


def draw_plots(spark: BackgroundSession, folder: ResultFolder, names: Sequence[str], cells: Sequence[Cell]) -> None:
    """Draw plots of the study's table on Spark, which has processes with most of the libraries already."""
    spark.run(functools.partial(_draw_partition, folder.path.absolute(), cells), names)


def _described(study: StudyConfig) -> str:
    return json.dumps(study.model_dump(mode="json"))


def _study_of(described: str, import_path: Sequence[str]) -> StudyConfig:
    sys.path += [path for path in import_path if path not in sys.path]
    return _study(described)


@functools.lru_cache(maxsize=1)
def _study(described: str) -> StudyConfig:
    return StudyConfig.model_validate_json(described)


def _prepare(described: str, import_path: Sequence[str], partition: Iterable[list[str]]) -> None:
    """Import the modules that trials need, in a worker process of Spark."""
    del partition
    _study_of(described, import_path)
    import_noted()
    pa.array([""])  # pyarrow imports pandas with the first array of Python objects
    gc.freeze()  # PySpark collects garbage after each partition; to look through all modules takes it 80 ms


def _prepare_drawing(partition: Iterable[list[str]]) -> None:
    del partition
    importlib.import_module(PLOTS)
    gc.freeze()


def _run_partition(
    described: str, import_path: Sequence[str], path: Path, finished: Collection[str], partition: Iterable[list[str]]
) -> None:
    """Run the tasks of a partition in a worker process of Spark."""
    from pyspark import TaskContext

    gc.freeze()
    study, folder, finished = _study_of(described, import_path), ResultFolder(path), frozenset(finished)
    context = TaskContext.get()
    if context is not None and context.attemptNumber():
        finished |= folder.finished()  # the attempt before, whose process was lost, may have finished some
    try:
        for tasks in partition:
            for task in tasks:
                run_task(study, Task(**json.loads(task)), folder, finished)
    except OSError as error:
        raise system_error(error) or error from error


def _draw_partition(path: Path, cells: Sequence[Cell], partition: Iterable[list[str]]) -> None:
    """Draw the plots of a partition in a worker process of Spark."""
    from millstream.study.plots.index import write_plot

    folder = ResultFolder(path)
    try:
        for names in partition:
            for name in names:
                write_plot(name, folder.read_table(), cells, folder.plots)
    except OSError as error:
        raise system_error(error) or error from error
