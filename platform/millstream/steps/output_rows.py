"""Rows of outputs in the form for sinks: partitions by source and number, paths as text, times as timestamps."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from millstream.arrays import FEW_ROWS
from millstream.log.epochs import PartitionName
from millstream.records import OFFSET, PATH, RANK, TIME
from millstream.steps.child_paths import path_text
from millstream.steps.contracts import Output

__all__ = ["identity_columns", "row_schema", "rows_for_sinks"]

_TIMESTAMP = pa.timestamp("us", tz="UTC")


def row_schema(output: Output) -> pa.Schema:
    """Return the columns that a sink of this output gets."""
    fields: list[pa.Field] = []
    for column in output.schema:
        if column.name == RANK:
            fields += [pa.field("_source", pa.string()), pa.field("_partition", pa.int32())]
        elif column.name == PATH:
            fields.append(pa.field(PATH, pa.string()))
        elif column.name == TIME:
            fields.append(pa.field("time", _TIMESTAMP))
        else:
            fields.append(pa.field(column.name, column.type))
    return pa.schema(fields)


def identity_columns(output: Output) -> list[str]:
    """Return the columns that identify a row of this output."""
    if output.of == "window":
        return ["_window", *output.key]
    return ["_source", "_partition", OFFSET, *([PATH] if PATH in output.schema.names else [])]


def rows_for_sinks(rows: pa.Table, schema: pa.Schema, partitions: Sequence[PartitionName]) -> pa.Table:
    """Convert rows of an output: ranks to `_source` and `_partition`, `_path` to text, and `_time` to a timestamp.

    `schema` is the output's `row_schema`.
    """
    arrays: list[pa.ChunkedArray | pa.Array] = []
    for name, values in zip(rows.column_names, rows.columns, strict=True):
        if name == RANK:
            arrays += _partition_columns(values.combine_chunks(), partitions)
        elif name == PATH:
            arrays.append(path_text(values))
        elif name == TIME:
            arrays.append(pa.chunked_array([chunk.view(_TIMESTAMP) for chunk in values.chunks], _TIMESTAMP))
        else:
            arrays.append(values)
    return pa.Table.from_arrays(arrays, schema=schema)


def _partition_columns(ranks: pa.Array, partitions: Sequence[PartitionName]) -> list[pa.Array]:
    if len(ranks) <= FEW_ROWS:
        found = [partitions[rank] for rank in ranks.to_pylist()]
        return [pa.array([p.source for p in found], pa.string()), pa.array([p.number for p in found], pa.int32())]
    sources = pa.array([partition.source for partition in partitions], pa.string())
    numbers = pa.array([partition.number for partition in partitions], pa.int32())
    return [sources.take(ranks), numbers.take(ranks)]
