"""Millstream on the local engine, one worker, beside a bare Python loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bare_loop import run_loop, run_river_loop
from benchmarks.figures import AtLeast, Figure, Measurement, Setting, Unmeasured, interleaved, ratio
from benchmarks.pipeline import CLASSIFY, PER_RECORD, run_pipeline
from benchmarks.steady import Rate

from millstream.engines.local.engine import LocalEngine

__all__ = ["MEASUREMENTS"]

_EPOCH = 5_000
_Loop = Callable[[Path, Path, int, int], tuple[Rate, int]]
_ABOUT = (
    f"Millstream on the local engine (exactly_once, defaults, file to files) at {_EPOCH:,}-row epochs: rows a second "
    "from the first epoch through to the last, over those of a bare Python loop with the same reader, {same}, that "
    "keeps predictions in memory; their predictions agree"
)


def _measure(setting: Setting, name: str, records: int, pipeline: Mapping[str, Any], loop: _Loop) -> Iterator[Figure]:
    records = 4 * _EPOCH if setting.quick else records
    file, work = setting.documents.file, setting.folder / name
    work.mkdir(exist_ok=True)
    right: dict[str, int] = {}

    def bare() -> float:
        rate, right["loop"] = loop(file, work / "cache", records, _EPOCH)
        return rate.per_second

    def local() -> float:
        ran = run_pipeline(LocalEngine(), "local", file, work, records, _EPOCH, pipeline)
        right["local"] = ran.correct
        return ran.rate.per_second

    taken = interleaved(setting, {"loop": bare, "local": local})
    if len(set(right.values())) > 1:
        raise Unmeasured(f"they predicted different things: of {records:,} right are {right}")
    yield ratio(name, taken, "local", "loop", AtLeast(0.9))


def _measurement(name: str, same: str, records: int, pipeline: Mapping[str, Any], loop: _Loop) -> Measurement:
    take = partial(_measure, name=name, records=records, pipeline=pipeline, loop=loop)
    return Measurement(name, (name,), _ABOUT.format(same=same), take)


MEASUREMENTS = (
    _measurement(
        "local_vs_loop_river", "river's BagOfWords and MultinomialNB one by one", 60_000, PER_RECORD, run_river_loop
    ),
    _measurement("local_vs_loop_sklearn", "features, model and blocks", 600_000, CLASSIFY, run_loop),
)
