"""Records in columns: identities, times, the schema that a log yields, and digests.

The identity of a record is its position: source, partition and offset. Within Millstream a partition has a *rank*, its
index in the epoch log in the order of first appearance; users see `_source` and `_partition`. Times are int64
microseconds in UTC; a missing time is null and sorts before all other times.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrays import Array

__all__ = [
    "OFFSET",
    "RANK",
    "REJECT",
    "TIME",
    "digest_of",
    "in_step_order",
    "is_text",
    "log_schema",
    "row_hashes",
]

RANK = "_rank"
OFFSET = "_offset"
TIME = "_time"
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
    unchanged. `records` has the columns `_rank`, `_offset` and `_time`.
    """
    records = records.combine_chunks()
    rank = records[RANK].to_numpy()
    offset = records[OFFSET].to_numpy()
    if (rank[1:] == rank[:-1]).all() and (offset[1:] > offset[:-1]).all():
        return records  # of one partition, already in the order of offsets
    time = pc.fill_null(records[TIME], _LEAST).to_numpy()
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


def _plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    array = column
    if isinstance(column, pa.ChunkedArray):
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # combine_chunks keeps columns over 2 GiB chunked
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def _update(digest: Any, array: pa.Array) -> None:
    kind, rows, missing = array.type, len(array), array.null_count
    if missing:
        digest.update(array.is_valid().to_numpy(zero_copy_only=False).tobytes())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        if missing == rows:
            digest.update(bytes(8 * rows))
            return
        filled = pc.fill_null(array, b"" if pa.types.is_binary(kind) else "") if missing else array
        _, offsets, data = filled.buffers()
        width = np.int64 if pa.types.is_large_string(kind) else np.int32
        bounds: Array = np.frombuffer(offsets, dtype=width)[filled.offset : filled.offset + rows + 1]
        digest.update(np.subtract(bounds[1:], bounds[:-1], dtype=np.int64).tobytes())
        if data is not None:
            digest.update(memoryview(data)[int(bounds[0]) : int(bounds[-1])])
    elif pa.types.is_list(kind):
        lengths = pc.list_value_length(array)
        digest.update((lengths.fill_null(-1) if missing else lengths).to_numpy().astype(np.int64).tobytes())
        _update(digest, array.flatten())
    elif pa.types.is_struct(kind):
        for child in array.flatten():
            _update(digest, child)
    elif pa.types.is_boolean(kind):
        filled = pc.fill_null(array, False) if missing else array
        digest.update(filled.to_numpy(zero_copy_only=False).tobytes())
    elif pa.types.is_null(kind):
        digest.update(rows.to_bytes(8, "little"))
    else:
        if pa.types.is_timestamp(kind):
            array = array.view(pa.int64())
        filled = pc.fill_null(array, 0) if missing else array
        digest.update(filled.to_numpy(zero_copy_only=False).tobytes())


def digest_of(tables: Iterable[pa.Table]) -> str:
    """A digest of rows in their order. It does not depend on the chunks of the tables.

    >>> rows = pa.table({"a": ["x", None, "yz"]})
    >>> digest_of([rows]) == digest_of([pa.concat_tables([rows.slice(0, 1), rows.slice(1)])])
    True
    """
    digest = hashlib.sha256()
    for table in tables:
        for name in table.column_names:
            digest.update(name.encode() + b"\0")
            _update(digest, _plain(table[name]))
    return digest.hexdigest()[:32]


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(values: Array) -> Array:
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: Array = values ^ (values >> np.uint64(31))
    return mixed


def _hash(column: pa.ChunkedArray) -> Array:
    array = _plain(column)
    if pa.types.is_floating(array.type):
        bits = (pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0).view(np.uint64)
        hashes = _mix(bits)
    elif pa.types.is_integer(array.type) or pa.types.is_boolean(array.type) or pa.types.is_timestamp(array.type):
        ints = array.cast(pa.int64()) if not pa.types.is_boolean(array.type) else array.cast(pa.uint8())
        hashes = _mix(pc.fill_null(ints, 0).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64))
    else:
        coded = array.cast(pa.string()).dictionary_encode()
        words = [b"\0" if word is None else b"\1" + word.encode() for word in coded.dictionary.to_pylist()]
        table = np.array(
            [int.from_bytes(hashlib.blake2b(w, digest_size=8).digest(), "little") for w in words] or [0],
            dtype=np.uint64,
        )
        hashes = table[pc.fill_null(coded.indices, 0).to_numpy(zero_copy_only=False)]
    if array.null_count:
        hashes = np.where(array.is_null().to_numpy(zero_copy_only=False), _GOLDEN, hashes)
    return hashes


def row_hashes(rows: pa.Table, columns: Sequence[str] | None = None) -> Array:
    """A 64-bit hash of each row over these columns (default: all), independent of chunks and of the column order."""
    total = np.zeros(rows.num_rows, dtype=np.uint64)
    for name in sorted(columns if columns is not None else rows.column_names):
        salt = np.uint64(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little"))
        with np.errstate(over="ignore"):
            total += _mix(_hash(rows[name]) + salt)
    return _mix(total)
