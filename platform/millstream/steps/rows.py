"""Rows as sinks get them: identities that users can read, times as timestamps."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from millstream.log.epochs import PartitionName
from millstream.records import OFFSET, RANK, TIME
from millstream.steps.contracts import Output

__all__ = ["identity_columns", "row_schema", "rows_for_sinks"]

_TIMESTAMP = pa.timestamp("us", tz="UTC")


def row_schema(output: Output) -> pa.Schema:
    """The columns that a sink of this output gets."""
    fields: list[pa.Field] = []
    for column in output.schema:
        if column.name == RANK:
            fields += [pa.field("_source", pa.string()), pa.field("_partition", pa.int32())]
        elif column.name == TIME:
            fields.append(pa.field("time", _TIMESTAMP))
        else:
            fields.append(pa.field(column.name, column.type))
    return pa.schema(fields)


def identity_columns(output: Output) -> list[str]:
    """The columns that tell one row of this output from another."""
    if output.of == "window":
        return ["_window", *output.key]
    return ["_source", "_partition", OFFSET]


def rows_for_sinks(output: Output, rows: pa.Table, partitions: Sequence[PartitionName]) -> pa.Table:
    """Rows with ranks turned into `_source` and `_partition`, and `_time` into a timestamp."""
    arrays: list[pa.ChunkedArray | pa.Array] = []
    for column in output.schema:
        values = rows[column.name]
        if column.name == RANK:
            sources = pa.array([partition.source for partition in partitions], pa.string())
            numbers = pa.array([partition.number for partition in partitions], pa.int32())
            arrays += [sources.take(values.combine_chunks()), numbers.take(values.combine_chunks())]
        elif column.name == TIME:
            arrays.append(values.cast(_TIMESTAMP))
        else:
            arrays.append(values)
    return pa.Table.from_arrays(arrays, schema=row_schema(output))
