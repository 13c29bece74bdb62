"""Windows: sliding ones compared with tumbling ones, and sessions of many keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_least, at_most
from benchmarks.kit.rates import Rate
from benchmarks.kit.rounds import interleaved, median, ratio, repeated
from millstream.steps.popularity import Popularity
from millstream.substreams import Watermark

__all__ = ["MEASUREMENTS"]

_BATCH = 10_000
_SLIDE = 24_000
"""Records a minute of event time."""
_MINUTES, _QUICK_MINUTES = 120, 6
_TOPICS = 8
_KEYS, _SESSION_BATCH, _SESSION_BATCHES = 100_000, 20_000, 40
_GAP = "10s"
_A_SECOND = 20_000
"""Records a second of event time, for sessions: each key has one every five seconds."""


def _records(count: int, batch: int, a_second: float, keys: int) -> list[pa.Table]:
    """Batches of records with topics and keys drawn at random, evenly spread over event time."""
    dice = np.random.default_rng(1)
    names = pa.array([f"user {number}" for number in range(keys)])
    topics = pa.array([f"topic {number}" for number in range(_TOPICS)])
    offsets = np.arange(count, dtype=np.int64)
    whole = pa.table(
        {
            "_rank": pa.array(np.zeros(count), pa.int32()),
            "_offset": offsets,
            "_time": (offsets * (1_000_000 / a_second)).astype(np.int64),
            "predicted": topics.take(pa.array(dice.integers(0, _TOPICS, count))),
            "user": names.take(pa.array(dice.integers(0, keys, count))),
        }
    )
    return [whole.slice(start, batch) for start in range(0, count, batch)]


def _run(options: Mapping[str, Any], batches: Sequence[pa.Table]) -> Rate:
    """Count topics in windows, with a watermark after each batch; the rate in seconds of the processor."""
    step = Popularity.model_validate(options).build(batches[0].schema)
    began = time.process_time()
    for batch in batches:
        step.process(batch)
        step.ended(Watermark(batch["_time"][-1].as_py()))
    seconds = time.process_time() - began
    records = sum(batch.num_rows for batch in batches)
    return Rate(records / seconds, records)


def _sliding(setting: Setting) -> Iterator[Value]:
    minutes = _QUICK_MINUTES if setting.quick else _MINUTES
    batches = _records(_SLIDE * minutes, _BATCH, _SLIDE / 60, 10)
    sliding = {"type": "sliding", "size": "1h", "slide": "1m"}
    contenders: dict[str, Callable[[], Rate]] = {
        "sliding": partial(_run, {"window": sliding}, batches),
        "tumbling": partial(_run, {"window": {"type": "tumbling", "size": "1h"}}, batches),
    }
    yield ratio("sliding_vs_tumbling", interleaved(setting, contenders), "sliding", "tumbling")


def _sessions(setting: Setting) -> Iterator[Value]:
    batches = _records(_SESSION_BATCH * (3 if setting.quick else _SESSION_BATCHES), _SESSION_BATCH, _A_SECOND, _KEYS)
    options = {"window": {"type": "session", "gap": _GAP}, "by": "user"}
    yield median("session_record", repeated(setting, lambda _: 1e6 / _run(options, batches).per_second), ".2f")


MEASUREMENTS = (
    Measurement(
        (Figure("sliding_vs_tumbling", "x", at_least(0.8)),),
        f"Popularity of {_TOPICS} topics in windows of 1 h, one every minute, with {_SLIDE:,} records a minute in "
        f"batches of {_BATCH:,}: records per second of processor time of the step, divided by those with tumbling "
        "windows of 1 h.",
        _sliding,
    ),
    Measurement(
        (Figure("session_record", "us", at_most(2)),),
        f"Popularity in sessions of {_KEYS:,} keys, gap {_GAP}, a record of each key every five seconds on average, a "
        f"watermark after each {_SESSION_BATCH:,} records: processor time of the step for a record, rows included.",
        _sessions,
    ),
)
