"""Paths of records that are sent back in a cycle: the round is an item of the path, after that of the record.

An item is four bytes, as those of children: its first bit is 1, the next seven are the number of the back edge, and the
last 24 the round. In a cycle with one back edge the item takes the place of the last round of this cycle, so that the
path of a record that only goes around does not grow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrays import Array, one_array
from millstream.records import PATH
from millstream.steps.child_paths import path_items

__all__ = ["MOST_BACK_EDGES", "BackEdge", "round_text", "rounds_of", "sent_back"]

_ITEM = 4
_MARK, _ROUND = 0x80000000, 0xFFFFFF
MOST_BACK_EDGES = 64
"""The most back edges of a graph. An item has room for 128; but the rounds of cycles one behind the other add up.

Each cycle has a back edge, so the sum is at most 64 * 100,000, which fits into the bits for rounds: 24 of an item, and
23 of a place (`millstream.engines.workers.places`).
"""
_KEY = ord("[")
"""The first byte of a path that begins with the key of a window. Rows of windows are never sent back."""


@dataclass(frozen=True)
class BackEdge:
    """A back edge of a graph: its number, and if it is the only one of its cycle."""

    number: int
    alone: bool

    def items(self, rounds: Array) -> pa.Array:
        """The items of records that this edge brings to these rounds."""
        return path_items(_MARK | self.number << 24 | rounds)


def rounds_of(paths: pa.Array | pa.ChunkedArray) -> Array:
    """The rounds that brought each record here, or the record from which it was made: 0 outside of cycles.

    >>> rounds_of(pa.array([b"", b"\\0\\0\\0\\7", b"\\x80\\0\\0\\3\\0\\0\\0\\1", None])).tolist()
    [0, 0, 3, 0]
    """
    paths = one_array(pc.fill_null(paths, b"") if paths.null_count else paths)
    rounds = np.zeros(len(paths), np.int64)
    _, offsets, data = paths.buffers()
    if not len(paths) or data is None:
        return rounds
    bounds = np.frombuffer(offsets, np.int32)[paths.offset : paths.offset + len(paths) + 1].astype(np.int64)
    starts, ends = bounds[:-1], bounds[1:]
    content = np.frombuffer(data, np.uint8)
    left = np.flatnonzero(ends - starts >= _ITEM)
    left = left[content[starts[left]] != _KEY]
    at = ends[left] - _ITEM
    while len(left):
        marked = content[at] >= 0x80
        rounds[left[marked]] = _number(content, at[marked] + 1)
        again = ~marked & (at - _ITEM >= starts[left])
        left, at = left[again], at[again] - _ITEM
    return rounds


def sent_back(records: pa.Table, edge: BackEdge) -> pa.Table:
    """The records with the paths that they have in the next round, after this edge.

    >>> back = sent_back(pa.table({"_path": pa.array([b"\\0\\0\\0\\7"], pa.binary())}), BackEdge(0, alone=True))
    >>> back["_path"].to_pylist(), sent_back(back, BackEdge(0, alone=True))["_path"].to_pylist()
    ([b'\\x00\\x00\\x00\\x07\\x80\\x00\\x00\\x01'], [b'\\x00\\x00\\x00\\x07\\x80\\x00\\x00\\x02'])
    """
    paths = records[PATH]
    rounds = rounds_of(paths)
    items = edge.items(rounds + 1)
    if edge.alone:
        last = pc.binary_slice(paths, -_ITEM)
        before = pa.chunked_array([edge.items(rounds)])
        paths = pc.if_else(pc.equal(last, before), pc.binary_slice(paths, 0, -_ITEM), paths)
    paths = pc.binary_join_element_wise(paths, items, b"")
    return records.set_column(records.column_names.index(PATH), records.field(PATH), paths)


def round_text(item: int) -> str | None:
    """The item of a path as text, if it is a round: with the number of the back edge, if that is not 0.

    >>> round_text(0x80000003), round_text(0x82000003), round_text(3)
    ('r3', 'r3:2', None)
    """
    if not item & _MARK:
        return None
    edge = item >> 24 & 0x7F
    return f"r{item & _ROUND}:{edge}" if edge else f"r{item & _ROUND}"


def _number(content: Array, at: Array) -> Array:
    """The numbers of three bytes each, at these places."""
    first, second, third = (content[at + place].astype(np.int64) for place in range(3))
    found: Array = first << 16 | second << 8 | third
    return found
