"""Digests of state: sums over its entries, so that the digests of disjoint keys, names or steps add up.

An entry is hashed as a row of a table. Bytes under a name or key are a row of (step, name, value). An array is a row of
(step, name, dtype, shape), and for each of its rows that is not all zeros a row of (step, name, row, value).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.digests import Digest, digest_of
from millstream.state.dirty_rows import Value
from millstream.state.keyed_state import KeyedSnapshot

__all__ = ["state_digest", "states_digest"]

_BLOCK = 1 << 14  # entries that are hashed together
_SHAPE = pa.list_(pa.int64())


def state_digest(state: Mapping[str, Value], step: str = "") -> Digest:
    """The digest of the state of a step, or of a part of it.

    >>> counts = np.array([1.0, 2.0])
    >>> state_digest({"a": counts, "b": b"x"}) == state_digest({"a": counts.copy()}) + state_digest({"b": b"x"})
    True
    >>> state_digest({"a": counts}) == state_digest({"a": counts.astype(np.float32)})
    False
    """
    if isinstance(state, KeyedSnapshot):
        return _entries(step, state.in_order())
    digest = _entries(step, ((name, value) for name, value in state.items() if isinstance(value, bytes)))
    for name, value in state.items():
        if not isinstance(value, bytes):
            digest += _array(step, name, np.asarray(value))
    return digest


def states_digest(states: Mapping[str, Mapping[str, Value]]) -> Digest:
    """The digest of the states of several steps."""
    return sum((state_digest(state, step) for step, state in states.items()), Digest())


def _entries(step: str, entries: Iterable[tuple[str, bytes]]) -> Digest:
    digest, rest = Digest(), iter(entries)
    while block := list(islice(rest, _BLOCK)):
        names, values = zip(*block, strict=True)
        columns = [_repeated(step, len(block)), pa.array(names, pa.string()), pa.array(values, pa.binary())]
        digest += digest_of(pa.table(columns, ["step", "name", "value"]))
    return digest


def _array(step: str, name: str, array: Array) -> Digest:
    if array.dtype.hasobject:
        message = f"state {name!r} is an array of Python objects; save arrays of numbers, or bytes of JSON"
        raise TypeError(message)
    head = {"step": [step], "name": [name], "dtype": [array.dtype.str], "shape": pa.array([array.shape], _SHAPE)}
    digest = digest_of(pa.table(head))
    rows = len(array) if array.ndim else 1
    if not array.size:
        return digest
    whole = np.ascontiguousarray(array).reshape(rows, -1)
    width = whole.shape[1] * whole.itemsize
    words = whole.view(np.uint64 if width % 8 == 0 else np.uint8)
    for start in range(0, rows, _BLOCK):
        used = np.flatnonzero((words[start : start + _BLOCK] != 0).any(axis=1))
        digest += _rows(step, name, start + used, words[start : start + _BLOCK].take(used, axis=0), width)
    return digest


def _rows(step: str, name: str, indices: Array, rows: Array, width: int) -> Digest:
    values = pa.Array.from_buffers(pa.binary(width), len(indices), [None, pa.py_buffer(rows)])
    columns = [_repeated(step, len(indices)), _repeated(name, len(indices)), pa.array(indices), values]
    return digest_of(pa.table(columns, ["step", "name", "row", "value"]))


def _repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)
