"""What of an array a checkpoint has to hold: all of it, or what has changed since the checkpoint that it leans on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from millstream.arrays import Array
from millstream.state.checkpoint_file import ArrayEntry, CheckpointFile, flat_of
from millstream.state.dirty_rows import ArraySnapshot, Value

__all__ = ["array_entry"]


def array_entry(step: str, name: str, old: Value | None, new: Value, between: Sequence[CheckpointFile]) -> ArrayEntry:
    """An array, or bytes, in a checkpoint. `old` is what it was in the checkpoint before; `between` lie those after the
    one that this one leans on, whose changes it has too."""
    indices, width = _changed(old, new)
    shape = None if isinstance(new, bytes) else new.shape
    if indices is not None:
        whole_bytes, item_bytes = (len(new), 1) if isinstance(new, bytes) else (new.nbytes, new.dtype.itemsize)
        length = whole_bytes // item_bytes
        if between:
            entries = [file.entries.get((step, name)) for file in between]
            indices = _united(indices, entries, len(new) if isinstance(new, ArraySnapshot) else length)
        if indices is not None and len(indices) * (8 + width * item_bytes) < whole_bytes:
            values = new.rows(indices) if isinstance(new, ArraySnapshot) else flat_of(new)[indices]
            return ArrayEntry(step, name, length, shape, indices, values, width)
    flat = flat_of(new)
    return ArrayEntry(step, name, len(flat), shape, None, flat)


def _changed(old: Value | None, new: Value) -> tuple[Array | None, int]:
    """The places where `new` differs from `old`, and how many values there are at each; None if they are not known."""
    if isinstance(new, ArraySnapshot):
        return new.since(old), new.shape[1]
    if old is None or isinstance(old, ArraySnapshot) or isinstance(old, bytes) != isinstance(new, bytes):
        return None, 1
    before, after = flat_of(old), flat_of(new)
    if before.shape != after.shape or before.dtype != after.dtype or after.dtype.itemsize not in (1, 2, 4, 8):
        return None, 1
    if not isinstance(new, bytes) and not isinstance(old, bytes) and old.shape != new.shape:
        return None, 1
    return np.flatnonzero(_bits(before) != _bits(after)), 1


def _bits(array: Array) -> Array:
    """The array as whole numbers, so that comparing is by bits (NaN equals itself)."""
    return array.view({8: np.uint64, 4: np.uint32, 2: np.uint16, 1: np.uint8}[array.dtype.itemsize])


def _united(indices: Array, between: Sequence[ArrayEntry | None], most: int) -> Array | None:
    """These places, below `most`, and those that changed in between; None if there all of it was written."""
    changed_before = [None if entry is None else entry.indices for entry in between]
    if any(before is None for before in changed_before):
        return None  # what came before it may have been longer
    changed = np.zeros(most, np.bool_)
    for some in (indices, *changed_before):
        changed[some] = True
    return np.flatnonzero(changed)
