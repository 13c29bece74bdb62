"""Paths of children: a record that a step made of another one has that record's path, followed by its index.

A child of a record and a partner may have the partner's identity instead of an index: its rank, its offset in two items
of 31 bits, its path with three bytes in an item, and the length of this path in an item that begins with the bits 01.
No item begins with 1, as those of rounds do.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrays import Array
from millstream.records import PATH

__all__ = ["partner_text", "path_items", "with_child_paths", "with_partner_paths"]

_BYTES = 4
_BITS = 31
_LOW = (1 << _BITS) - 1
_PARTNER = 0x40000000


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


def with_partner_paths(records: pa.Table, ranks: Array, offsets: Array, paths: pa.Array) -> pa.Table:
    """Give records, which still have the paths of their parents, those of children with partners of these identities.

    >>> parents = pa.table({"_path": pa.array([b"", b""], pa.binary())})
    >>> made = with_partner_paths(parents, np.array([2, -1]), np.array([7, 0]), pa.array([b"", b"ab"]))
    >>> [np.frombuffer(path, ">u4").tolist() for path in made["_path"].to_pylist()]
    [[2, 0, 7, 1073741824], [2147483647, 0, 0, 6382080, 1073741826]]
    """
    lengths = pc.binary_length(paths).to_numpy()
    heads = np.stack([ranks & _LOW, offsets >> _BITS & _LOW, offsets & _LOW], axis=1).astype(">u4")
    ends = (_PARTNER | lengths).astype(">u4")
    partners = pc.binary_join_element_wise(_fixed(heads), _in_items(paths, lengths), _fixed(ends), b"")
    column = records.column_names.index(PATH)
    joined = pc.binary_join_element_wise(records[PATH], partners, b"")
    return records.set_column(column, records.schema.field(column), joined)


def partner_text(item: int) -> str | None:
    """The last item of a partner's identity as text: the length of the partner's path.

    >>> partner_text(0x40000008), partner_text(8)
    ('p8', None)
    """
    return f"p{item & ~_PARTNER}" if item & _PARTNER else None


def _in_items(paths: pa.Array, lengths: Array) -> pa.Array:
    """Paths with a zero before every three bytes, and zeros at the end."""
    if not lengths.any():
        return paths
    known = paths.dictionary_encode()
    items = [
        b"".join(b"\0" + path[at : at + 3].ljust(3, b"\0") for at in range(0, len(path), 3))
        for path in known.dictionary.to_pylist()
    ]
    return pa.array(items, pa.binary()).take(known.indices)


def _fixed(items: Array) -> pa.Array:
    """Each row of items as bytes."""
    width = items.dtype.itemsize * items[0].size if len(items) else _BYTES
    buffer = pa.py_buffer(np.ascontiguousarray(items))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(items), [None, buffer]).cast(pa.binary())


def _child_paths(parents: pa.Array | pa.ChunkedArray | None, indices: Array) -> pa.Array | pa.ChunkedArray:
    """The paths of children with these indices, from the paths of their parents; None if all parents have none.

    >>> _child_paths(pa.array([b"", b"\\0\\0\\0\\x03"]), np.array([3, 0])).to_pylist()
    [b'\\x00\\x00\\x00\\x03', b'\\x00\\x00\\x00\\x03\\x00\\x00\\x00\\x00']
    """
    last = path_items(indices)
    return last if parents is None else pc.binary_join_element_wise(parents.fill_null(b""), last, b"")


def path_items(numbers: Array) -> pa.Array:
    """Items of paths: each number as four bytes.

    >>> path_items(np.array([3])).to_pylist()
    [b'\\x00\\x00\\x00\\x03']
    """
    big_endian = np.ascontiguousarray(numbers, ">u4")
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(4), len(big_endian), [None, pa.py_buffer(big_endian)])
    return fixed.cast(pa.binary())
