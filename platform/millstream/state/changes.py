"""The entry of an array in a section: all values, or the changes since the section that the new one rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from millstream.arrays import Array
from millstream.state.dirty_rows import ArraySnapshot, Value
from millstream.state.sections import ArrayEntry, flatten

__all__ = ["array_entry"]


def array_entry(
    name: str, old: Value | None, new: Value, between: Sequence[Mapping[str, ArrayEntry]] = ()
) -> ArrayEntry:
    """The entry of an array, or of bytes, in a new section.

    `old` is the value in the last section. `between` has the sections that the new one leaves out; the new section also
    has their changes.
    """
    indices, width = _find_changes(old, new)
    shape = None if isinstance(new, bytes) else new.shape
    if indices is not None:
        total_bytes, item_bytes = (len(new), 1) if isinstance(new, bytes) else (new.nbytes, new.dtype.itemsize)
        length = total_bytes // item_bytes
        if between:
            entries = [section.get(name) for section in between]
            indices = _union(indices, entries, len(new) if isinstance(new, ArraySnapshot) else length)
        if indices is not None and len(indices) * (8 + width * item_bytes) < total_bytes:
            values = new.rows(indices) if isinstance(new, ArraySnapshot) else flatten(new)[indices]
            return ArrayEntry(name, length, shape, indices, values, width)
    flat = flatten(new)
    return ArrayEntry(name, len(flat), shape, None, flat)


def _find_changes(old: Value | None, new: Value) -> tuple[Array | None, int]:
    """The indices at which `new` differs from `old` (None if unknown), and the number of values at each index."""
    if isinstance(new, ArraySnapshot):
        return new.since(old), new.shape[1]
    if old is None or isinstance(old, ArraySnapshot) or isinstance(old, bytes) != isinstance(new, bytes):
        return None, 1
    before, after = flatten(old), flatten(new)
    if before.shape != after.shape or before.dtype != after.dtype or after.dtype.itemsize not in (1, 2, 4, 8):
        return None, 1
    if not isinstance(new, bytes) and not isinstance(old, bytes) and old.shape != new.shape:
        return None, 1
    return np.flatnonzero(_bits(before) != _bits(after)), 1


def _bits(array: Array) -> Array:
    """The bits of the values as integers, so that a comparison finds NaN equal to itself."""
    return array.view({8: np.uint64, 4: np.uint32, 2: np.uint16, 1: np.uint8}[array.dtype.itemsize])


def _union(indices: Array, between: Sequence[ArrayEntry | None], length: int) -> Array | None:
    """These indices and those of the changes in between; None if an entry in between has all values, or is missing."""
    changed_before = [None if entry is None else entry.indices for entry in between]
    if any(before is None for before in changed_before):
        return None  # the array may have had another length before
    changed = np.zeros(length, np.bool_)
    for each in (indices, *changed_before):
        changed[each] = True
    return np.flatnonzero(changed)
