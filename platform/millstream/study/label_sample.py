"""The labels of a pipeline's first records, read from its own sources, in the order in which the steps get them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.config.load import Loaded
from millstream.config.sources import NamedSource
from millstream.log.contracts import Log, OpenContext
from millstream.records import OFFSET, RANK, REJECT, TIME, in_step_order
from millstream.study.labels import Labels

__all__ = ["LabelSample", "NoSample", "label_sample"]

_SECOND = 1_000_000


@dataclass(frozen=True)
class LabelSample:
    """The labels of the first records; `labelled` is the share of these records that have one.

    `whole` is true if the sources have no other records. `records_per_second` is the rate by the records' times, None
    without times.
    """

    labels: Labels
    records: int
    labelled: float
    whole: bool
    records_per_second: float | None


@dataclass(frozen=True)
class NoSample:
    """The reason why the sources are not measured."""

    reason: str


def label_sample(loaded: Loaded, field: str, most: int) -> LabelSample | NoSample:
    """Read the field of at most `most` records, in equal shares of the sources.

    Sources that end are read: files, and a generator. A generator with a `rate` is read as if it had none.
    """
    sources = loaded.config.logs
    for source in sources:
        if field not in source.config.fields:
            return NoSample(f"source {source.name!r} has no field {field!r}; a step makes it")
        if not _at_once(source.config).bounded and not hasattr(source.config, "rate"):
            return NoSample(
                f"source {source.name!r} ({source.config.type}) has no end; measure a file of its "
                "records: `source: {type: files, path: FILE}`"
            )
    with tempfile.TemporaryDirectory(prefix="millstream-advise-") as folder:
        read = [_read(loaded, source, Path(folder), field, most // len(sources)) for source in sources]
    tables = [table for tables, _ in read for table in tables]
    ranked = [
        table.append_column(RANK, pa.array(np.full(len(table), rank)))
        for rank, table in enumerate(tables)
        if len(table)
    ]
    if not ranked:
        return NoSample("the sources have no records yet")
    return _sample(in_step_order(pa.concat_tables(ranked)), field, whole=all(whole for _, whole in read))


def _at_once(source: Any) -> Any:
    """The options of a source with all its records there at once, if a `rate` spreads them over time."""
    return source if getattr(source, "rate", None) is None else source.model_copy(update={"rate": None})


def _read(loaded: Loaded, source: NamedSource, folder: Path, field: str, most: int) -> tuple[Sequence[pa.Table], bool]:
    """Read the first records of each partition; true if there are no others."""
    context = OpenContext(loaded.folder, folder / source.name, loaded.config.name, fail_fast=True)
    with closing(_at_once(source.config).open(context)) as log:
        names = [partition.name for partition in log.partitions()]
        parts = [_read_partition(log, name, field, max(1, most // len(names))) for name in names]
    return [table for table, _ in parts], all(whole for _, whole in parts)


def _read_partition(log: Log, partition: str, field: str, most: int) -> tuple[pa.Table, bool]:
    start, end = log.beginning(partition), log.end(partition)
    stop = min(end, start + most)
    schema = pa.schema([(OFFSET, pa.int64()), (TIME, pa.int64()), (REJECT, pa.string()), (field, pa.string())])
    columns = pa.Table.from_batches(_batches(log, partition, start, stop, schema), schema)
    return columns, stop == end


def _batches(log: Log, partition: str, start: int, stop: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in log.read(partition, start, stop):
        yield batch.select(schema.names).cast(schema)


def _sample(records: pa.Table, field: str, *, whole: bool) -> LabelSample | NoSample:
    labels = records[field].drop_null()
    if not len(labels):
        return NoSample(f"none of the first {len(records):,} records has a {field!r}")
    encoded = labels.combine_chunks().dictionary_encode()
    found = Labels(tuple(encoded.dictionary.to_pylist()), encoded.indices.to_numpy().astype(np.int64))
    rate = _rate(records[TIME].drop_null().to_numpy())
    return LabelSample(found, len(records), len(labels) / len(records), whole, rate)


def _rate(times: Array) -> float | None:
    """Records a second by their times."""
    spread = int(times.max() - times.min()) if len(times) else 0
    return (len(times) - 1) / spread * _SECOND if spread else None
