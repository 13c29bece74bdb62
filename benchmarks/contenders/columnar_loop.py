"""A hand-written loop around a compiled model: a file in, Parquet out, counts by the hour, nothing durable."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from benchmarks.contenders.text_learners import OneByOne
from benchmarks.kit.rates import Rate, Samples, since
from millstream.steps.contracts import Array

__all__ = ["HourlyCounts", "columnar_loop", "parsing"]

_HOUR = 3_600_000_000
_PREDICTIONS = pa.schema(
    [("id", pa.int64()), ("label", pa.string()), ("predicted", pa.string()), ("probability", pa.float64())]
)


class HourlyCounts:
    """The number of records of each topic in each hour.

    >>> counts = HourlyCounts(2)
    >>> counts.add(pa.array([0, 7_200_000_000]).cast(pa.timestamp("us", "UTC")), np.array([1, 0]))
    >>> counts.add(pa.array([7_200_000_000]).cast(pa.timestamp("us", "UTC")), np.array([-1]))
    >>> counts.table().to_pylist()[-1]
    {'hour': 2, 'counts': [1, 0]}
    """

    def __init__(self, topics: int) -> None:
        self._topics = topics
        self._hours: dict[int, Array] = {}

    def add(self, times: pa.Array, classes: Array) -> None:
        hours = times.cast(pa.int64()).to_numpy() // _HOUR
        first, known = int(hours.min()), classes >= 0
        pairs = (hours - first)[known] * self._topics + classes[known]
        counts = np.bincount(pairs, minlength=(int(hours.max()) - first + 1) * self._topics)
        for hour, row in enumerate(counts.reshape(-1, self._topics), first):
            self._hours[hour] = self._hours.get(hour, 0) + row

    def table(self) -> pa.Table:
        return pa.table({"hour": list(self._hours), "counts": [row.tolist() for row in self._hours.values()]})


def columnar_loop(model: str, file: str, work: str, batch: int, topics: int, *, whole: bool = False) -> Rate:
    """Read `batch` rows, predict and learn them one by one, write the predictions; with the first batch if `whole`."""
    OneByOne(model).take(pa.array(["a text"]), pa.array(["a label"]))  # loads or compiles the model
    learner, counts = OneByOne(model), HourlyCounts(topics)
    samples = Samples([(time.monotonic(), 0)] if whole else [])
    with pq.ParquetWriter(Path(work) / "predictions.parquet", _PREDICTIONS) as writer:
        for rows in _batches(Path(file), batch):
            classes, probability = learner.take(rows["text"], rows["label"])
            predicted = learner.names.take(pa.array(classes, mask=classes < 0))
            ids = pa.array(np.arange(samples.records, samples.records + rows.num_rows))
            made = [ids, rows["label"], predicted, pa.array(probability)]
            writer.write_table(pa.Table.from_arrays(made, schema=_PREDICTIONS))
            counts.add(rows["time"], classes)
            samples.add(rows.num_rows)
    pq.write_table(counts.table(), Path(work) / "topics.parquet")
    return samples.rate(learner.correct)


def parsing(file: str) -> Rate:
    """Unpack and parse a file of gzipped JSON Lines into Arrow, and nothing else."""
    began = time.perf_counter()
    return since(began, _parsed(Path(file)).num_rows)


def _parsed(file: Path) -> pa.Table:
    with gzip.open(file, "rb") as lines:
        return pyarrow.json.read_json(lines, read_options=pyarrow.json.ReadOptions(use_threads=False))


def _batches(file: Path, size: int) -> Iterator[pa.RecordBatch]:
    if file.suffix == ".gz":
        yield from _parsed(file).combine_chunks().to_batches(size)
        return
    with pq.ParquetFile(file) as texts:
        yield from texts.iter_batches(size, columns=["text", "label", "time"], use_threads=False)
