"""Ranges of offsets, and reading their records from logs into the columns that steps get."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from millstream.log.contracts import Log
from millstream.log.epochs import Epoch, PartitionName, PartitionTable
from millstream.records import RANK, log_schema

__all__ = ["Range", "ranges_of", "read_ranges", "read_table", "records_schema"]


@dataclass(frozen=True)
class Range:
    """The offsets [start, stop) of a partition."""

    rank: int
    partition: PartitionName
    start: int
    stop: int


def records_schema(fields: Sequence[str]) -> pa.Schema:
    """The schema of the records that steps get: the rank, then the columns of the log."""
    return log_schema(fields).insert(0, pa.field(RANK, pa.int32()))


def ranges_of(epoch: Epoch, partitions: PartitionTable | Sequence[PartitionName]) -> list[Range]:
    """The ranges of an epoch's cut."""
    return [Range(rank, partitions[rank], *span) for rank, span in epoch.cut.items()]


def read_ranges(ranges: Iterable[Range], log_of: Callable[[str], Log], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the records of these ranges. `log_of` returns the log of a source; fields that a source lacks are null."""
    for wanted in ranges:
        for batch in log_of(wanted.partition.source).read(wanted.partition.name, wanted.start, wanted.stop):
            yield _fit(batch, wanted.rank, schema)


def read_table(ranges: Iterable[Range], log_of: Callable[[str], Log], schema: pa.Schema) -> pa.Table:
    """The records of these ranges as one table."""
    return pa.Table.from_batches(read_ranges(ranges, log_of, schema), schema)


def _fit(batch: pa.RecordBatch, rank: int, schema: pa.Schema) -> pa.RecordBatch:
    """Add the rank to a log's batch, and give it exactly the columns of the schema."""
    columns: list[pa.Array] = []
    for column in schema:
        if column.name == RANK:
            columns.append(pa.repeat(pa.scalar(rank, pa.int32()), batch.num_rows))
        elif column.name in batch.schema.names:
            columns.append(batch.column(column.name))
        else:
            columns.append(pa.nulls(batch.num_rows, column.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
