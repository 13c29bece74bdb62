"""Spark and the local engine compared with bare Python loops with the same reader and the same model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.contenders.python_loops import run_loop, run_river_loop
from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_least
from benchmarks.kit.pipeline import CLASSIFY, PER_RECORD, kept_spark, run_pipeline
from benchmarks.kit.rates import Rate
from benchmarks.kit.rounds import interleaved, ratio
from millstream.engines.local.engine import LocalEngine

__all__ = ["MEASUREMENTS"]

_Loop = Callable[[Path, Path, int, int], Rate]
_SPARK, _LOCAL = "Spark", "the local engine"


def _measure(
    name: str, setting: Setting, engine: str, records: int, epoch: int, pipeline: Mapping[str, Any], loop: _Loop
) -> Iterator[Value]:
    records = min(records, 8 * epoch) if setting.quick else records
    file = setting.documents.file
    with kept_spark() if engine == _SPARK else nullcontext(LocalEngine()) as kept:
        kind = "spark" if engine == _SPARK else "local"

        def ours(records: int = records) -> Rate:
            return run_pipeline(kept, file, setting.folder, records, epoch, pipeline, type=kind).rate

        if engine == _SPARK:
            setting.say("warming up Spark")
            ours(min(records, 10 * epoch))
        bare = partial(loop, file, setting.folder / "cache", records, epoch)
        taken = interleaved(setting, {"loop": bare, "millstream": ours}, agree=True)
    yield ratio(name, taken, "millstream", "loop")


def _measurement(
    name: str, goal: float, engine: str, records: int, epoch: int, pipeline: Mapping[str, Any], loop: _Loop
) -> Measurement:
    same = "features, model and mini-batches" if loop is run_loop else "River's naive Bayes, record by record"
    about = (
        f"Millstream on {engine} (exactly_once, defaults, file to files) with {epoch:,}-record epochs: records per "
        f"second after the first epoch, divided by those of a bare Python loop with the same reader and {same}, which "
        "keeps predictions in memory. Their predictions agree."
    )
    take = partial(_measure, name, engine=engine, records=records, epoch=epoch, pipeline=pipeline, loop=loop)
    return Measurement((Figure(name, "x", at_least(goal)),), about, take)


MEASUREMENTS = (
    _measurement("spark_vs_loop_10k", 0.7, _SPARK, 1_000_000, 10_000, CLASSIFY, run_loop),
    _measurement("spark_vs_loop_50k", 0.85, _SPARK, 1_000_000, 50_000, CLASSIFY, run_loop),
    _measurement("local_vs_loop_river", 0.9, _LOCAL, 60_000, 5_000, PER_RECORD, run_river_loop),
    _measurement("local_vs_loop_sklearn", 0.9, _LOCAL, 600_000, 5_000, CLASSIFY, run_loop),
)
