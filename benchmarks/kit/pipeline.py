"""The measured pipelines of Millstream, and a run of one from beginning to end in this process."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.kit.rates import Rate, RateObserver, Samples
from millstream.config.load import read_config
from millstream.engines.job import Engine
from millstream.runs.start import Options, start
from millstream.runs.watch.metrics import Metrics
from millstream.runs.watch.observer import Observer, Watched

__all__ = [
    "CLASSIFY",
    "PER_RECORD",
    "Run",
    "kept_spark",
    "run_graph",
    "run_local",
    "run_pipeline",
    "run_spark",
    "with_model",
]

_WARM = 2_000

CLASSIFY: dict[str, Any] = {
    "use": "text_topics",
    "features": {"type": "hashed_text", "dimensions": 65_536},
    "model": {"type": "complement_nb", "batch_size": 256},
    "popularity": None,
}
PER_RECORD: dict[str, Any] = {"use": "text_topics", "model": {"type": "river_nb"}, "popularity": None}
"""River's model, which reads the text itself and learns from every record at once."""


def with_model(model: str) -> dict[str, Any]:
    """A pipeline with this model and popularity by the hour."""
    features = {"type": "hashed_text", "dimensions": 2**18}
    return {"use": "text_topics", "features": features, "model": {"type": model}}


@dataclass(frozen=True)
class Run:
    """The rate of a run after its first epoch, and that of the run from its start."""

    rate: Rate
    whole: Rate


def run_pipeline(
    engine: Engine,
    source: Path | Mapping[str, Any],
    folder: Path,
    records: int,
    epoch: int,
    pipeline: Mapping[str, Any] = CLASSIFY,
    sinks: Mapping[str, Any] | None = None,
    **options: Any,
) -> Run:
    """A new run, exactly_once with defaults, into files or these sinks; `options` are those of the engine."""
    config = {
        "name": "bench",
        "source": {"type": "files", "path": str(source)} if isinstance(source, Path) else dict(source),
        "pipeline": dict(pipeline),
        **({} if sinks is None else {"sinks": dict(sinks)}),
        "engine": {"type": "local", "epoch": {"max_records": epoch}, **options},
    }
    loaded = read_config(config, folder, "bench.yaml")
    rates: list[RateObserver] = []
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    began = time.monotonic()

    def observers(watched: Watched) -> Sequence[Observer]:
        rates.append(RateObserver(watched.epoch_log.totals))
        return [Metrics(watched, warn=print), *rates]

    start(loaded, Options(run, records=records), engine=engine, observers=observers)
    shutil.rmtree(run)
    (rate,) = rates
    return Run(
        rate.samples.rate(rate.correct),
        Samples([(began, 0), *rate.samples.taken]).rate(rate.correct),
    )


def run_local(model: str, file: str, work: str, records: int, epoch: int, *, whole: bool = False) -> Rate:
    """The rate of the local engine over a file, from its first epoch on.

    With `whole`, the rate from the start of the run, in a process that has its imports and its compiled model.
    """
    from millstream.engines.local.engine import LocalEngine

    engine, source, pipeline, folder = LocalEngine(), Path(file), with_model(model), Path(work)
    if whole:
        run_pipeline(engine, source, folder, 2 * _WARM, _WARM, pipeline)
    ran = run_pipeline(engine, source, folder, records, epoch, pipeline)
    return ran.whole if whole else ran.rate


def run_graph(steps: Sequence[Mapping[str, Any]], file: str, work: str, records: int, epoch: int) -> Rate:
    """The rate of the local engine with these steps over a file, from its first epoch on."""
    from millstream.engines.local.engine import LocalEngine

    return run_pipeline(LocalEngine(), Path(file), Path(work), records, epoch, {"steps": list(steps)}).rate


def run_spark(documents: str, work: str, records: int, epoch: int, *, guarantee: bool) -> Rate:
    """The rate of Spark over documents, from its first epoch on; without a guarantee if asked."""
    from benchmarks.contenders.without_guarantee import WithoutGuarantee
    from millstream.engines.spark.engine import SparkEngine

    engine: Engine = SparkEngine() if guarantee else WithoutGuarantee(SparkEngine())
    return run_pipeline(engine, Path(documents), Path(work), records, epoch, type="spark").rate


@contextmanager
def kept_spark() -> Iterator[Engine]:
    """The Spark engine with one session for all its runs."""
    from pyspark.sql import SparkSession

    from millstream.engines.spark.engine import SparkEngine

    try:
        yield SparkEngine(keep_session=True)
    finally:
        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
