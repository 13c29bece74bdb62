"""Millstream as it is measured: the pipeline of the docs without popularity, over the documents' file."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.learner import BLOCK, DIMENSIONS
from benchmarks.steady import Mark, Rate, Steady, steady_rate

from millstream.config.load import read_config
from millstream.engines.job import Engine
from millstream.runs.observer import Observer, Watched
from millstream.runs.start import Options, start
from millstream.runs.watch.metrics import Metrics

__all__ = ["CLASSIFY", "PER_RECORD", "Run", "kept_spark", "run_pipeline"]

CLASSIFY: dict[str, Any] = {
    "use": "text_topics",
    "features": {"type": "hashed_text", "dimensions": DIMENSIONS},
    "model": {"type": "complement_nb", "block": BLOCK},
    "popularity": None,
}
PER_RECORD: dict[str, Any] = {"use": "text_topics", "model": {"type": "river_nb"}, "popularity": None}
"""River's model, which reads the text itself and learns from every record at once."""


@dataclass(frozen=True)
class Run:
    """What a run came to: its rate from the first epoch on, and that with all that comes before it."""

    rate: Rate
    whole: Rate
    correct: int


def run_pipeline(
    engine: Engine,
    name: str,
    source: Path | Mapping[str, Any],
    folder: Path,
    records: int,
    epoch: int,
    pipeline: Mapping[str, Any] = CLASSIFY,
    workers: int = 1,
) -> Run:
    """A run from its beginning, exactly_once with defaults, to files; its run directory is removed again."""
    config = {
        "name": "bench",
        "source": {"type": "files", "path": str(source)} if isinstance(source, Path) else dict(source),
        "pipeline": dict(pipeline),
        "sinks": {"predictions": {"type": "files"}},
        "engine": {"type": name, "workers": workers, "epoch": {"max_records": epoch}},
    }
    loaded = read_config(config, folder, "bench.yaml")
    steady: list[Steady] = []
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    began = Mark(time.monotonic(), 0)

    def observers(watched: Watched) -> Sequence[Observer]:
        steady.append(Steady(watched.epoch_log.totals))
        return [Metrics(watched, warn=print), *steady]

    start(
        loaded,
        Options(run, records=records),
        engine=engine,
        observers=observers,
    )
    shutil.rmtree(run)
    marks = steady[0].marks
    return Run(steady_rate(marks), steady_rate([began, *marks]), steady[0].correct)


@contextmanager
def kept_spark() -> Iterator[Engine]:
    """The Spark engine, its session kept from run to run."""
    from pyspark.sql import SparkSession

    from millstream.engines.spark.engine import SparkEngine

    try:
        yield SparkEngine(keep_session=True)
    finally:
        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
