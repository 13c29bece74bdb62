"""Millstream on Spark beside a bare Python loop, and the local engine for reference."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.bare_loop import run_loop
from benchmarks.figures import AtLeast, Figure, Measurement, Setting, Unmeasured, interleaved, ratio, spread
from benchmarks.pipeline import kept_spark, run_pipeline

from millstream.engines.local.engine import LocalEngine

__all__ = ["MEASUREMENTS"]

_ABOUT = (
    "Millstream on Spark (exactly_once, defaults, file to files) at {epoch:,}-row epochs: rows a second from the first "
    "epoch through to the last, over those of a bare Python loop with the same reader, features, model and blocks that "
    "keeps predictions in memory; their predictions agree"
)


def _measure(setting: Setting, epoch: int, goal: float, *, with_local: bool) -> Iterator[Figure]:
    records = 8 * epoch if setting.quick else setting.documents.records
    file, work = setting.documents.file, setting.folder / "against-loop"
    work.mkdir(exist_ok=True)
    right: dict[str, int] = {}

    def loop() -> float:
        rate, right["loop"] = run_loop(file, work / "cache", records, epoch)
        return rate.per_second

    with kept_spark() as spark:

        def run(name: str) -> float:
            ran = run_pipeline(spark if name == "spark" else LocalEngine(), name, file, work, records, epoch)
            right[name] = ran.correct
            return ran.rate.per_second

        setting.say("warming up Spark")
        run_pipeline(spark, "spark", file, work, min(records, 10 * epoch), epoch)
        contenders: dict[str, Callable[[], float]] = {"loop": loop, "spark": partial(run, "spark")}
        if with_local:
            contenders["local"] = partial(run, "local")
        taken = interleaved(setting, contenders)
    if len(set(right.values())) > 1:
        raise Unmeasured(f"they predicted different things: of {records:,} right are {right}")
    size = f"{epoch // 1000}k"
    yield ratio(f"spark_vs_loop_{size}", taken, "spark", "loop", AtLeast(goal))
    if with_local:
        rates = taken["local"]
        detail = f"{spread(rates, ',.0f')}; the loop {statistics.median(taken['loop']):,.0f}/s"
        yield Figure(f"local_{size}", statistics.median(rates), "records/s", None, detail)


MEASUREMENTS = (
    Measurement(
        "spark_vs_loop_10k",
        ("spark_vs_loop_10k", "local_10k"),
        _ABOUT.format(epoch=10_000) + "; local_10k is the local engine in the same rounds",
        partial(_measure, epoch=10_000, goal=0.7, with_local=True),
    ),
    Measurement(
        "spark_vs_loop_50k",
        ("spark_vs_loop_50k",),
        _ABOUT.format(epoch=50_000),
        partial(_measure, epoch=50_000, goal=0.85, with_local=False),
    ),
)
