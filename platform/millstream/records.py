"""Records in columns: identities, times, and the schema that a log yields.

The identity of a record is its position: source, partition and offset. Where several records of a stream may have one
position, a *path* in the column `_path` tells them apart: numbers, each as four bytes, big-endian. Within Millstream a
partition has a *rank*, its index in the epoch log in the order of first appearance; users see `_source` and
`_partition`. Times are int64 microseconds in UTC; a missing time is null and sorts before all other times.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import StepFailed

__all__ = [
    "OFFSET",
    "OTHER",
    "PATH",
    "RANK",
    "REJECT",
    "TIME",
    "identity_of",
    "in_step_order",
    "is_text",
    "log_schema",
    "no_records",
    "record_failed",
]

RANK = "_rank"
OFFSET = "_offset"
PATH = "_path"
TIME = "_time"
OTHER = "_other"
"""The identity of the record that was joined to the one that has the position of a joined record."""
REJECT = "_reject"

_LEAST = np.iinfo(np.int64).min


def log_schema(fields: Sequence[str]) -> pa.Schema:
    """The columns that a log yields for a config with these fields. `time` is always a column, with the name `_time`.

    A record that cannot be read is a row too: its `_reject` has the reason, its fields are null.

    >>> log_schema(["text", "label"]).names
    ['_offset', '_time', '_reject', 'text', 'label']
    """
    return _log_schema(tuple(fields))


@cache
def _log_schema(fields: tuple[str, ...]) -> pa.Schema:
    head = [pa.field(OFFSET, pa.int64()), pa.field(TIME, pa.int64()), pa.field(REJECT, pa.string())]
    return pa.schema([*head, *(pa.field(name, pa.string()) for name in fields if name != "time")])


def identity_of(columns: Sequence[str]) -> list[str]:
    """The columns of a stream that identify a record.

    >>> identity_of(["_rank", "_offset", "_time", "text"]), identity_of(["_rank", "_offset", "_time", "_path"])
    (['_rank', '_offset'], ['_rank', '_offset', '_path'])
    """
    return [RANK, OFFSET, *([PATH] if PATH in columns else [])]


def no_records(schema: pa.Schema) -> pa.Table:
    """A table of this schema without rows.

    `schema.empty_table()` makes an equal table, but imports pandas, which takes longer than the validation of a config.

    >>> no_records(log_schema(["text"])).num_rows
    0
    """
    return pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def record_failed(message: str, records: pa.Table, row: int) -> StepFailed:
    """The error of a step that fails on the record in this row.

    >>> record_failed("no", pa.table({"_rank": [0, 1], "_offset": [7, 8]}), 1).offset
    8
    """
    path = records[PATH][row].as_py() if PATH in records.column_names else None
    return StepFailed(message, records[RANK][row].as_py(), records[OFFSET][row].as_py(), path or b"")


def is_text(kind: pa.DataType) -> bool:
    """True if a column of this type is text, with or without a dictionary.

    >>> is_text(pa.dictionary(pa.int8(), pa.string())), is_text(pa.binary())
    (True, False)
    """
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(plain) or pa.types.is_large_string(plain))


def in_step_order(records: pa.Table) -> pa.Table:
    """Sort the records of one epoch by time, partition and offset.

    For sorting, each time is replaced by the latest time of its partition up to this record; the column `_time` stays
    unchanged, and the times of rejects do not count. `records` has the columns `_rank`, `_offset` and `_time`.
    """
    records = records.combine_chunks()
    rank = records[RANK].to_numpy()
    offset = records[OFFSET].to_numpy()
    if (rank[1:] == rank[:-1]).all() and (offset[1:] > offset[:-1]).all():
        return records  # of one partition, already in the order of offsets
    time = pc.fill_null(_times(records), _LEAST).to_numpy()
    by_position = np.lexsort((offset, rank))
    rank, offset, time = rank[by_position], offset[by_position], time[by_position]
    starts = np.flatnonzero(np.r_[True, rank[1:] != rank[:-1]])
    increasing = time.copy()
    for start, stop in zip(starts, [*starts[1:], len(rank)], strict=True):
        np.maximum.accumulate(time[start:stop], out=increasing[start:stop])
    final = by_position[np.lexsort((offset, rank, increasing))]
    if np.array_equal(final, np.arange(len(final))):
        return records
    return records.take(pa.array(final))


def _times(records: pa.Table) -> pa.ChunkedArray:
    """The times of records, without those of rejects."""
    times = records[TIME]
    if REJECT not in records.column_names or records[REJECT].null_count == records.num_rows:
        return times
    return pc.if_else(records[REJECT].is_null(), times, pa.scalar(None, times.type))
