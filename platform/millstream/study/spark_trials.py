"""The trials of a study on Spark: one Spark task runs many trials, and writes the rows of each finished group."""

from __future__ import annotations

import functools
import gc
import json
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path

from millstream.errors import MillstreamError
from millstream.study.results import ResultFolder
from millstream.study.study_file import StudyConfig
from millstream.study.task import Task, run_task
from millstream.system_errors import system_error

__all__ = ["run_on_spark"]

_POLL_SECONDS = 0.25


def run_on_spark(
    study: StudyConfig,
    tasks: Sequence[Task],
    folder: ResultFolder,
    finished: Collection[str],
    at_once: int | None,
    watch: Callable[[], None],
) -> None:
    """Run the tasks on Spark, by default as many at once as there are cores; `watch` is called again and again."""
    from millstream.engines.spark.shared_session import SHARED

    setup = json.dumps(
        {
            "study": study.model_dump(mode="json"),
            "folder": str(folder.path.absolute()),
            "finished": sorted(finished),
            "import_path": sys.path,
        }
    )
    session = SHARED.open(folder.spark_log)
    try:
        context = session.sparkContext
        count = min(at_once or len(tasks), len(tasks))
        # Tasks are dealt one by one: those of slow learners come first, and are not all in one partition.
        dealt = [json.dumps([asdict(task) for task in tasks[number::count]]) for number in range(count)]
        job = context.parallelize(dealt, count)
        with ThreadPoolExecutor(1, "millstream-study") as runner:
            future = runner.submit(job.foreachPartition, functools.partial(_run_partition, setup))
            try:
                while not wait([future], _POLL_SECONDS).done:
                    watch()
                future.result()
            except BaseException:
                context.cancelAllJobs()
                raise
        watch()
    except Exception as error:
        raise _explained(error) from error
    finally:
        SHARED.leave(session, keep=False)


def _run_partition(setup: str, partition: Iterator[str]) -> None:
    """Run the tasks of a partition in a worker process of Spark."""
    from pyspark import TaskContext

    gc.freeze()  # PySpark collects garbage after each partition; to look through all modules takes it 80 ms
    given = json.loads(setup)
    sys.path += [path for path in given["import_path"] if path not in sys.path]
    study = _study(json.dumps(given["study"]))
    folder, finished = ResultFolder(Path(given["folder"])), frozenset(given["finished"])
    context = TaskContext.get()
    if context is not None and context.attemptNumber():
        finished |= folder.finished()  # the attempt before, whose process was lost, may have finished some
    try:
        for tasks in partition:
            for task in json.loads(tasks):
                run_task(study, Task(**task), folder, finished)
    except OSError as error:
        raise system_error(error) or error from error


@functools.lru_cache(maxsize=1)
def _study(described: str) -> StudyConfig:
    return StudyConfig.model_validate_json(described)


def _explained(error: Exception) -> MillstreamError:
    """Return the error that ended the job in the words of Millstream; only an open session can print Spark's errors."""
    from millstream.engines.spark.failures import error_of

    if isinstance(error, MillstreamError):
        return error
    found = error_of(str(error))
    if not str(found).startswith("Spark's query ended"):
        return found
    reason = str(found).removeprefix("Spark's query ended: ").removesuffix("; --debug shows more")
    message = f"Spark ended before the study: {reason}; the same command continues with the trials that are missing"
    return MillstreamError(message)
