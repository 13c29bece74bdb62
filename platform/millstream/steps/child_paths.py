"""Paths of children: a record that a step made of another one has that record's path, followed by its index."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrays import Array
from millstream.records import PATH

__all__ = ["with_child_paths"]

_BYTES = 4


def with_child_paths(records: pa.Table, indices: Array) -> pa.Table:
    """Give records, which still have the paths of their parents, the paths of the children with these indices.

    >>> parents = pa.table({"_offset": [7, 7]})
    >>> with_child_paths(parents, np.array([0, 1]))["_path"].to_pylist()
    [b'\\x00\\x00\\x00\\x00', b'\\x00\\x00\\x00\\x01']
    """
    if PATH not in records.column_names:
        return records.append_column(pa.field(PATH, pa.binary()), _child_paths(None, indices))
    column = records.column_names.index(PATH)
    return records.set_column(column, records.schema.field(column), _child_paths(records[PATH], indices))


def _child_paths(parents: pa.Array | pa.ChunkedArray | None, indices: Array) -> pa.Array | pa.ChunkedArray:
    """The paths of children with these indices, from the paths of their parents; None if all parents have none.

    >>> _child_paths(pa.array([b"", b"\\0\\0\\0\\x03"]), np.array([3, 0])).to_pylist()
    [b'\\x00\\x00\\x00\\x03', b'\\x00\\x00\\x00\\x03\\x00\\x00\\x00\\x00']
    """
    big_endian = np.ascontiguousarray(indices, ">u4")
    last = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_BYTES), len(big_endian), [None, pa.py_buffer(big_endian)]
    ).cast(pa.binary())
    return last if parents is None else pc.binary_join_element_wise(parents.fill_null(b""), last, b"")
