"""What exactly-once costs on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.figures import AtLeast, Figure, Measurement, Setting, interleaved, ratio
from benchmarks.pipeline import kept_spark, run_pipeline
from benchmarks.without_guarantee import WithoutGuarantee

from millstream.engines.job import Engine

__all__ = ["MEASUREMENTS"]

_EPOCH = 5_000


def _measure(setting: Setting) -> Iterator[Figure]:
    records = 16 * _EPOCH if setting.quick else setting.documents.records
    work = setting.folder / "exactly-once"
    work.mkdir(exist_ok=True)
    with kept_spark() as spark:

        def run(engine: Engine) -> Callable[[], float]:
            def rate() -> float:
                ran = run_pipeline(engine, "spark", setting.documents.file, work, records, _EPOCH)
                return ran.rate.per_second

            return rate

        setting.say("warming up Spark")
        run_pipeline(spark, "spark", setting.documents.file, work, 16 * _EPOCH, _EPOCH)
        taken = interleaved(setting, {"exactly_once": run(spark), "without": run(WithoutGuarantee(spark))})
    yield ratio("exactly_once_cost", taken, "exactly_once", "without", AtLeast(0.95))


MEASUREMENTS = (
    Measurement(
        "exactly_once_cost",
        ("exactly_once_cost",),
        f"rows a second on Spark at {_EPOCH:,}-row epochs, exactly_once with defaults over the same run without notes, "
        "digests, saves, commits, guards and syncs",
        _measure,
    ),
)
