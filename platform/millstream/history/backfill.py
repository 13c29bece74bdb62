"""Backfill: the features of a whole history as Parquet files, computed by the steps of a pipeline on Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from millstream.config.load import Loaded
from millstream.engines.spark.background_session import BackgroundSession
from millstream.errors import ConfigError
from millstream.extras import require
from millstream.guarantees.notebook_classes import unimportable_classes
from millstream.guarantees.validation import checked_graph
from millstream.history.bounds import WHOLE, Bounds
from millstream.history.cuts import check_logs, replayed
from millstream.history.features import Computed, Progress, compute_features
from millstream.history.folder import Complete, Facts, HistoryFolder
from millstream.history.head_task import sums
from millstream.history.made_from import made_from, same_steps
from millstream.history.plan import BLOCK_RECORDS
from millstream.history.receipts import check_with_run
from millstream.history.setup import open_logs, setup_of
from millstream.history.way import Way, refuse_versions, way_to_model
from millstream.log.epochs import EpochReader
from millstream.runs.directory import RunDirectory

__all__ = ["backfill", "check_complete", "checked_way", "result_of"]

_WORK, _MISSING = "the backfill", "the tasks that are missing"


def checked_way(loaded: Loaded, step: str | None, subject: str) -> Way:
    """The way to the model of a valid config; `ConfigError` for one that Spark's processes cannot build."""
    refuse_versions(loaded, subject)
    graph = checked_graph(loaded, packages=False)
    require("spark", subject)
    if names := unimportable_classes(loaded.config):
        message = f"Spark's workers cannot import {', '.join(names)}, which a script or a notebook defines"
        raise ConfigError(f"{message}; move it into a module")
    return way_to_model(graph, step)


def backfill(
    loaded: Loaded,
    out: Path,
    *,
    replay: Path | None = None,
    step: str | None = None,
    bounds: Bounds = WHOLE,
    watch: Callable[[Progress], None] = lambda _: None,
    tasks: int | None = None,
    block_records: int = BLOCK_RECORDS,
    sessions: type[BackgroundSession] = BackgroundSession,
) -> Complete:
    """Compute the features that the folder `out` lacks, up to the model of `step`; nothing if it is complete.

    The features are those within the bounds. `tasks` is the number of Spark tasks; None: one for each part of the work.
    """
    way = checked_way(loaded, step, "a backfill")
    run = None if replay is None else replayed(replay)
    facts, folder = Facts(out, "backfill"), HistoryFolder(out)
    with facts.lock():
        made = made_from(loaded, way.steps, "" if run is None else run.id, step=way.model.name, bounds=asdict(bounds))
        result = facts.claim(made)
        if result is not None:
            check_complete(loaded, folder)
            folder.remove_legs()
            return Complete(out, result, was_there=True)
        with sessions(folder.spark_log, tasks, _WORK, _MISSING) as spark:
            setup = setup_of(loaded, way, out, bounds)
            shards = loaded.config.guarantee.shards
            computed = compute_features(spark, setup, way, shards, folder, replay, watch, block_records)
        result = result_of(computed, loaded, replay if bounds.whole else None)
        facts.complete(result)
        folder.remove_legs()
        return Complete(out, result, was_there=False)


def check_complete(loaded: Loaded, folder: HistoryFolder) -> None:
    """Refuse a complete history if the logs are not those that it was made from."""
    logs = open_logs(loaded.config, loaded.folder, folder)
    try:
        check_logs(folder.plan(), logs)
    finally:
        for log in logs.values():
            log.close()


def result_of(computed: Computed, loaded: Loaded, replay: Path | None) -> dict[str, Any]:
    """The facts about computed features; digests that differ from those of a replayed run are refused.

    A run with other steps is not compared.
    """
    result = _result(computed)
    if replay is not None:
        directory = RunDirectory.find(replay)
        result["same_as_run"] = same_steps(loaded, directory) and check_with_run(
            EpochReader(directory.epochs), computed.plan.epochs, sums([result["digests"]])
        )
    return result


def _result(computed: Computed) -> dict[str, Any]:
    plan, notes = computed.plan, computed.notes
    by_process = Counter[str]()
    for note in notes:
        by_process[str(note.process)] += note.records
    return {
        "cuts": plan.cuts or "bounded",
        "epochs": plan.epochs,
        "records": sum(note.records for note in notes),
        "rejects": sum(note.rejects for note in notes),
        "rows": sum(note.rows for note in notes),
        "digests": {name: str(digest) for name, digest in sums([note.digests for note in notes]).items()},
        "partitions": [asdict(partition) for partition in plan.partitions],
        "gaps": [asdict(gap) for gap in plan.gaps],
        "executors": dict(by_process),
        "tasks": len(notes),
        "cpu_seconds": sum(note.cpu for note in notes),
    }
