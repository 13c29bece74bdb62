"""The records of epochs, read from logs into the columns that steps get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from millstream.log.contracts import Log
from millstream.log.epochs import Epoch, PartitionName
from millstream.records import RANK, log_schema

__all__ = ["fitted", "read_epoch", "records_schema"]


def records_schema(fields: Sequence[str]) -> pa.Schema:
    """What an epoch's records look like when they reach the steps: the log's columns behind the rank."""
    return log_schema(fields).insert(0, pa.field(RANK, pa.int32()))


def read_epoch(
    epoch: Epoch, logs: Mapping[str, Log], partitions: Sequence[PartitionName], schema: pa.Schema
) -> list[pa.RecordBatch]:
    """The records of an epoch, read here and now; fields that a source does not have are null."""
    batches = []
    for rank, (start, stop) in epoch.cut.items():
        partition = partitions[rank]
        for batch in logs[partition.source].read(partition.name, start, stop):
            batches.append(fitted(batch, rank, schema))
    return batches


def fitted(batch: pa.RecordBatch, rank: int, schema: pa.Schema) -> pa.RecordBatch:
    """A log's batch with its rank and with exactly the schema's columns."""
    columns: list[pa.Array] = []
    for column in schema:
        if column.name == RANK:
            columns.append(pa.repeat(pa.scalar(rank, pa.int32()), batch.num_rows))
        elif column.name in batch.schema.names:
            columns.append(batch.column(column.name))
        else:
            columns.append(pa.nulls(batch.num_rows, column.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
