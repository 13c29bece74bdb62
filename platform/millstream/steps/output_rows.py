"""Rows of outputs in the form for sinks: partitions by source and number, times as timestamps, paths as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrays import FEW_ROWS
from millstream.log.epochs import PartitionName
from millstream.records import OFFSET, OTHER, PATH, RANK, TIME
from millstream.steps.contracts import Output
from millstream.steps.path_text import path_text

__all__ = ["identity_columns", "row_schema", "rows_for_sinks", "with_columns"]

_TIMESTAMP = pa.timestamp("us", tz="UTC")


def row_schema(output: Output) -> pa.Schema:
    """Return the columns that a sink of this output gets."""
    fields: list[pa.Field] = []
    for column in output.schema:
        if column.name == RANK:
            fields += [pa.field("_source", pa.string()), pa.field("_partition", pa.int32())]
        elif column.name == TIME:
            fields.append(pa.field("time", _TIMESTAMP))
        elif column.name in (PATH, OTHER):
            fields.append(pa.field(column.name, pa.string()))
        else:
            fields.append(pa.field(column.name, column.type))
    return pa.schema(fields)


def identity_columns(output: Output) -> list[str]:
    """Return the columns that identify a row of this output."""
    if output.of == "window":
        return ["_window", *output.key]
    return ["_source", "_partition", OFFSET, *([PATH] if PATH in output.schema.names else []), *output.key]


def with_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with exactly these columns; those that the rows lack are null, and a path is empty."""
    if rows.schema.equals(schema):
        return rows
    for column in schema:
        if column.name not in rows.column_names:
            missing = b"" if column.name == PATH else None
            rows = rows.append_column(column, pa.repeat(pa.scalar(missing, column.type), rows.num_rows))
    rows = rows.select(schema.names)
    return rows if rows.schema.equals(schema) else rows.cast(schema)


def rows_for_sinks(
    rows: pa.Table, schema: pa.Schema, partitions: Sequence[PartitionName], steps: Mapping[int, str]
) -> pa.Table:
    """Convert rows of an output: ranks to `_source` and `_partition`, `_time` to a timestamp, identities to text.

    `schema` is the output's `row_schema`. A record that was made from the state of a step has a rank below 0; its
    source is the step, one of `steps` by their numbers, and it has no partition.
    """
    arrays: list[pa.ChunkedArray | pa.Array] = []
    for name, values in zip(rows.column_names, rows.columns, strict=True):
        if name == RANK:
            arrays += _partition_columns(values.combine_chunks(), partitions, steps)
        elif name == TIME:
            arrays.append(pa.chunked_array([chunk.view(_TIMESTAMP) for chunk in values.chunks], _TIMESTAMP))
        elif name == PATH:
            arrays.append(path_text(values))
        elif name == OTHER:
            arrays.append(_other_text(values.combine_chunks(), partitions, steps))
        else:
            arrays.append(values)
    return pa.Table.from_arrays(arrays, schema=schema)


def _partition_columns(
    ranks: pa.Array, partitions: Sequence[PartitionName], steps: Mapping[int, str]
) -> list[pa.Array]:
    if len(ranks) <= FEW_ROWS or ranks.to_numpy(zero_copy_only=False).min() < 0:
        found = [partitions[rank] if rank >= 0 else None for rank in ranks.to_pylist()]
        names = [
            steps[-1 - rank] if name is None else name.source
            for rank, name in zip(ranks.to_pylist(), found, strict=True)
        ]
        return [pa.array(names, pa.string()), pa.array([name and name.number for name in found], pa.int32())]
    sources = pa.array([partition.source for partition in partitions], pa.string())
    numbers = pa.array([partition.number for partition in partitions], pa.int32())
    return [sources.take(ranks), numbers.take(ranks)]


def _other_text(others: pa.Array, partitions: Sequence[PartitionName], steps: Mapping[int, str]) -> pa.Array:
    """The identities of joined records as text: source, partition, offset, and a path if there is one."""
    others = pa.concat_arrays(others.chunks) if isinstance(others, pa.ChunkedArray) else others
    ranks, offsets, paths = (others.field(name) for name in (RANK, OFFSET, PATH))
    source, number = _partition_columns(ranks.fill_null(0), partitions, steps)
    numbers = pc.coalesce(number.cast(pa.string()), pa.scalar(""))
    path = path_text(pa.chunked_array([paths.fill_null(b"")]))
    tail = pc.if_else(pc.equal(path, ""), "", pc.binary_join_element_wise("/", path, ""))
    text = pc.binary_join_element_wise(source, numbers, offsets.fill_null(0).cast(pa.string()), "/")
    return pc.if_else(others.is_valid(), pc.binary_join_element_wise(text, tail, ""), pa.scalar(None, pa.string()))
