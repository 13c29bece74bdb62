"""Arrays that track their dirty rows, so that the cost of a checkpoint depends on these rows and not on the array.

A model's kernel writes to the array itself and sets a flag for each row that it writes to. A snapshot copies only the
flagged rows, as one update. A snapshot consists of a shared base array and all updates up to its own number; updates up
to the oldest live snapshot are moved into the base array. The rows that changed between two snapshots are the rows of
the updates between them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from millstream.arrays import Array

__all__ = ["ArraySnapshot", "DirtyRows", "RowStore", "Value"]


@dataclass(frozen=True, eq=False, slots=True)
class _Update:
    """New contents of rows; part of the snapshot with this number and of all later ones."""

    number: int
    indices: Array
    rows: Array


class ArraySnapshot:
    """The rows of an array at one moment; they stay the same while the step or model continues to write.

    When no older snapshot is alive, the store moves updates into its array, and removes them from its list afterwards.
    So a reader that takes the list of updates first and reads the array then needs no lock: if an update is moved
    meanwhile, the reader applies it a second time, with the same result.
    """

    __slots__ = ("__weakref__", "_store", "number")

    def __init__(self, store: RowStore, number: int) -> None:
        self._store = store
        self.number = number

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self._store.array.shape
        return shape

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self._store.array.dtype
        return dtype

    @property
    def nbytes(self) -> int:
        return self._store.array.nbytes

    def since(self, earlier: object) -> Array | None:
        """The indices of rows that may have changed since an earlier snapshot of the same store, in ascending order.

        None if `earlier` is no earlier snapshot of this store.
        """
        if not isinstance(earlier, ArraySnapshot) or earlier._store is not self._store or earlier.number > self.number:
            return None
        changed = [update.indices for update in self._updates() if update.number > earlier.number]
        return changed[0] if len(changed) == 1 else np.unique(np.concatenate([np.zeros(0, np.int64), *changed]))

    def rows(self, indices: Array) -> Array:
        """The rows at these indices; the caller must not write to the result."""
        updates = self._updates()
        if updates and updates[-1].indices is indices:
            return updates[-1].rows
        rows = self._store.array.take(indices, axis=0)
        for update in updates:
            at = np.searchsorted(update.indices, indices)
            at[at == len(update.indices)] = 0
            found = update.indices[at] == indices
            rows[found] = update.rows[at[found]]
        return rows

    def compact(self) -> None:
        """Compact the store; a background thread can do this, so that the next snapshot has less to do."""
        self._store.compact()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            message = (
                "the rows of a snapshot can be read only as a copy, because their store changes; leave out copy=False"
            )
            raise ValueError(message)
        updates = self._updates()
        array = self._store.array.copy()
        for update in updates:
            _apply(array, update)
        return array if dtype is None else array.astype(dtype, copy=False)

    def __len__(self) -> int:
        return len(self._store.array)

    def __bytes__(self) -> bytes:
        return np.asarray(self).tobytes()

    def __repr__(self) -> str:
        return repr(np.asarray(self))

    def __reduce__(self) -> tuple[Callable[[Array], Array], tuple[Array]]:
        return np.asarray, (np.asarray(self),)

    def _updates(self) -> list[_Update]:
        """The updates in this snapshot that may not be in the array yet, oldest first."""
        return [update for update in self._store.updates if update.number <= self.number]


Value = Array | ArraySnapshot | bytes
"""The value of a name in the state of a step."""


class RowStore:
    """An array whose rows are set with `put`, and its snapshots. The store takes over the array.

    >>> store = RowStore(np.zeros((3, 2)))
    >>> first = store.snapshot()
    >>> store.put(np.array([1]), np.array([[7.0, 8.0]]))
    >>> second = store.snapshot()
    >>> second.since(first), second.rows(np.array([1])), first.rows(np.array([1]))
    (array([1]), array([[7., 8.]]), array([[0., 0.]]))
    """

    def __init__(self, array: Array) -> None:
        self.array = _require_rows(array)
        """The rows at the time of the oldest live snapshot or before."""
        self.updates: tuple[_Update, ...] = ()
        """The updates that are not in the array yet, oldest first."""
        self._number = 0
        self._snapshots: list[weakref.ref[ArraySnapshot]] = []
        self._changing = threading.Lock()
        """Every change of `updates` holds this lock."""

    def put(self, indices: Array, rows: Array) -> None:
        """Set the rows at these indices, which must be in ascending order. The store takes over both arrays."""
        if len(indices):
            with self._changing:
                self.updates = (*self.updates, _Update(self._number + 1, indices, rows))

    def snapshot(self) -> ArraySnapshot:
        """A snapshot of all rows."""
        newest = self._snapshots[-1]() if self._snapshots else None
        if newest is not None and not any(update.number > newest.number for update in self.updates):
            return newest
        self._number += 1
        made = ArraySnapshot(self, self._number)
        self._snapshots = [*(ref for ref in self._snapshots if ref() is not None), weakref.ref(made)]
        self.compact()
        return made

    def compact(self) -> None:
        """Move all updates up to the oldest live snapshot into the array.

        The caller must hold a snapshot of this store. A thread other than the writer's may call this.
        """
        with self._changing:
            oldest = min(each.number for ref in self._snapshots if (each := ref()) is not None)
            moved = [update for update in self.updates if update.number <= oldest]
            for update in moved:
                _apply(self.array, update)
            self.updates = self.updates[len(moved) :]


class DirtyRows:
    """An `array` that a model's kernel writes to, and `dirty`, where the kernel sets 1 for each row that it writes to.

    >>> store = DirtyRows(np.zeros((4, 2), np.float32))
    >>> first = store.snapshot()
    >>> store.array[2], store.dirty[2] = 5, 1
    >>> store.snapshot().since(first), np.asarray(first).any()
    (array([2]), np.False_)
    """

    def __init__(self, array: Array) -> None:
        self.array = _require_rows(array)
        self.dirty: Array = np.zeros(len(array), np.uint8)
        self._rows: RowStore | None = None

    def snapshot(self) -> ArraySnapshot:
        """Snapshot all rows and clear the flags. The first snapshot copies all rows, a later one the dirty rows."""
        if self._rows is None:
            self._rows = RowStore(self.array.copy())
            self.dirty[:] = 0
        else:
            indices = np.flatnonzero(self.dirty != 0)  # flatnonzero is fast for booleans
            self._rows.put(indices, self.array.take(indices, axis=0))
            self.dirty[indices] = 0
        return self._rows.snapshot()


def _require_rows(array: Array) -> Array:
    if array.ndim != 2 or not array.flags.c_contiguous or array.dtype.hasobject:
        found = f"{array.ndim} dimensions of {array.dtype}, {'' if array.flags.c_contiguous else 'not '}C-contiguous"
        message = f"rows need a C-contiguous array of numbers with two dimensions; this array has {found}"
        raise ValueError(message)
    return array


def _apply(array: Array, update: _Update) -> None:
    """Write an update into the array; to copy each row as a single value of its size takes half the time."""
    if array.nbytes:
        row = np.dtype((np.void, array.shape[1] * array.itemsize))
        array.view(row)[update.indices, 0] = np.ascontiguousarray(update.rows, array.dtype).view(row)[:, 0]
