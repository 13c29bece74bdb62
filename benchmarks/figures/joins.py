"""Speed of a join, and its memory over many windows."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from benchmarks.kit.measurement import Figure, Measurement, Setting, Unmeasured, Value, at_least, at_most
from benchmarks.kit.rounds import median, repeated
from millstream.config.pipeline import NamedStep
from millstream.config.sources import SourceTime
from millstream.log.epochs import Added, Epoch, PartitionName
from millstream.steps.graph import build_graph
from millstream.steps.join import Join
from millstream.steps.processor import EpochProcessor

__all__ = ["MEASUREMENTS", "memory_by_window"]

_EPOCH, _EPOCHS, _WARM = 2_500, 100, 30
"""The records of each stream in an epoch, the epochs, and those before the state has its full size."""
_STEP = 1_000
"""Microseconds between two records of a stream."""
_LAG = 20_000
"""The most records by which the second stream is behind the first one."""
_TEXT = "a text of the usual length, which is about eighty characters with the last word"
_ADDED = tuple(Added(PartitionName(name, name, 0)) for name in ("texts", "prices"))


@dataclass
class _Joined:
    """A join of texts with prices in one process: each record of a stream has a key that comes once in each stream."""

    within: str
    epoch: int = _EPOCH
    lag: int = _LAG
    processor: EpochProcessor = field(init=False)
    number: int = 0
    made: int = 0

    def __post_init__(self) -> None:
        sources = {
            "texts": SourceTime(fields=("id", "text", "time")),
            "prices": SourceTime(fields=("id", "price", "time")),
        }
        join = NamedStep("both", Join.model_validate({"by": "id", "within": self.within}), reads=("texts", "prices"))
        self.processor = EpochProcessor(build_graph([join], ["id", "text", "price"], sources, ["both"]))
        self.processor.restore({}, [])

    def records(self) -> pa.Table:
        """The records of the next epoch."""
        start, stop = self.number * self.epoch, (self.number + 1) * self.epoch
        offsets = np.arange(start, stop)
        null = pa.nulls(self.epoch, pa.string())
        late = np.random.default_rng(self.number).permutation(self.epoch) + start - self.lag
        return pa.concat_tables(
            pa.table(
                {
                    "_rank": np.full(self.epoch, rank, np.int32),
                    "_offset": offsets,
                    "_time": offsets * _STEP,
                    "_reject": null,
                    "id": pa.array(keys).cast(pa.string()),
                    "text": pa.array([_TEXT] * self.epoch) if rank == 0 else null,
                    "price": null if rank == 0 else pa.array(offsets).cast(pa.string()),
                }
            )
            for rank, keys in enumerate((offsets, late))
        )

    def process(self, records: pa.Table) -> None:
        cut = {rank: (self.number * self.epoch, (self.number + 1) * self.epoch) for rank in (0, 1)}
        epoch = Epoch(self.number, cut, _ADDED if self.number == 0 else (), 10**15)
        self.made += self.processor.process(epoch, records).rows["both"].num_rows
        self.number += 1


def _rate(setting: Setting) -> Iterator[Value]:
    epochs = _WARM + 5 if setting.quick else _EPOCHS

    def rate(_: int) -> float:
        joined = _Joined("60s")
        seconds = 0.0
        for number in range(epochs):
            records = joined.records()
            began = time.process_time()
            joined.process(records)
            seconds += time.process_time() - began if number >= _WARM else 0
        if joined.made != _EPOCH * epochs - _LAG:
            raise Unmeasured(f"the join made {joined.made} records of {_EPOCH * epochs - _LAG}")
        return 2 * _EPOCH * (epochs - _WARM) / seconds

    yield median("join_rate", repeated(setting, rate), ",.0f")


def memory_by_window(within: str, windows: int, every: int) -> list[tuple[int, int]]:
    """The bytes in Arrow's and numpy's memory after each so many windows, of 500 records of each stream."""
    import tracemalloc

    joined = _Joined(within, epoch=500, lag=500)
    taken: list[tuple[int, int]] = []
    tracemalloc.start()
    try:
        for number in range(1, windows + 1):
            joined.process(joined.records())
            if number % every == 0:
                gc.collect()
                taken.append((number, pa.total_allocated_bytes() + tracemalloc.get_traced_memory()[0]))
    finally:
        tracemalloc.stop()
    return taken


def _memory(setting: Setting) -> Iterator[Value]:
    for name, within in (("join_memory_growth", "1s"), ("join_memory_growth_without_ends", "36500d")):
        taken = memory_by_window(within, windows=100 if setting.quick else 1_000, every=5 if setting.quick else 50)
        first, last = (max(size for _, size in part) for part in (taken[2:6], taken[-4:]))
        detail = ", ".join(f"{window}: {size / 1e6:.1f} MB" for window, size in taken[3::4])
        yield Value(name, last / first, detail)


MEASUREMENTS = (
    Measurement(
        (Figure("join_rate", "records/s", at_least(150_000)),),
        "A join of two streams on one core, with 120,000 records that wait in memory: the records of both streams "
        "together, from the records of an epoch to its rows and its receipt, in the time of the processor.",
        _rate,
    ),
    Measurement(
        (Figure("join_memory_growth", "x", at_most(1.2)), Figure("join_memory_growth_without_ends", "x")),
        "The memory of a join after 1,000 windows as a multiple of that after 300, with a bound of two windows, and "
        "with one of a hundred years.",
        _memory,
    ),
)
