"""Arrays kept so that a checkpoint costs the rows that were written to, and not all that are there.

A model's kernel writes to the array itself, and sets a flag for each row. A snapshot copies these rows, and no others:
it is a second array, as it was when the oldest snapshot that somebody keeps was taken or before, and what was put over
its rows until this one was. So the rows that were touched between two snapshots are those that were put between them.
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
class _Put:
    """Rows that were put, for the snapshot of this number and those after it."""

    number: int
    indices: Array
    rows: Array


class ArraySnapshot:
    """An array of rows at one moment, as a step or model saves it. It stays as it is while they go on.

    Once no older snapshot is kept, the store moves what was put into its array, and only then forgets that it was put.
    So whoever reads first what was put, and then the array, has all of it without a lock: it makes no difference that
    a row was moved meanwhile.
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
        """The rows that may have changed since an earlier snapshot of the same store: their numbers, ascending.

        None if that is not known of this other state.
        """
        if not isinstance(earlier, ArraySnapshot) or earlier._store is not self._store or earlier.number > self.number:
            return None
        parts = [put.indices for put in self._put() if put.number > earlier.number]
        return parts[0] if len(parts) == 1 else np.unique(np.concatenate([np.zeros(0, np.int64), *parts]))

    def rows(self, indices: Array) -> Array:
        """The rows of these numbers, not to be written to."""
        puts = self._put()
        if puts and puts[-1].indices is indices:
            return puts[-1].rows
        rows = self._store.array.take(indices, axis=0)
        for put in puts:
            at = np.searchsorted(put.indices, indices)
            at[at == len(put.indices)] = 0
            found = put.indices[at] == indices
            rows[found] = put.rows[at[found]]
        return rows

    def compact(self) -> None:
        """Move what can be, in the background: the next snapshot need not."""
        self._store.move()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            message = "a snapshot's rows are still written to; without a copy they do not stay as they are"
            raise ValueError(message)
        puts = self._put()
        whole = self._store.array.copy()
        for put in puts:
            _put_rows(whole, put)
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def __len__(self) -> int:
        return len(self._store.array)

    def __bytes__(self) -> bytes:
        return np.asarray(self).tobytes()

    def __repr__(self) -> str:
        return repr(np.asarray(self))

    def __reduce__(self) -> tuple[Callable[[Array], Array], tuple[Array]]:
        return np.asarray, (np.asarray(self),)

    def _put(self) -> list[_Put]:
        """What was put until then, and perhaps not yet moved."""
        return [put for put in self._store.puts if put.number <= self.number]


Value = Array | ArraySnapshot | bytes
"""What a state has under a name."""


class RowStore:
    """Rows of an array that are put, and snapshots of them. The array is the store's own from now on.

    >>> store = RowStore(np.zeros((3, 2)))
    >>> first = store.snapshot()
    >>> store.put(np.array([1]), np.array([[7.0, 8.0]]))
    >>> second = store.snapshot()
    >>> second.since(first), second.rows(np.array([1])), first.rows(np.array([1]))
    (array([1]), array([[7., 8.]]), array([[0., 0.]]))
    """

    def __init__(self, array: Array) -> None:
        self.array = _of_rows(array)
        """The rows as they were when the oldest snapshot that is kept was taken, or before."""
        self.puts: tuple[_Put, ...] = ()
        """What is put over them since."""
        self._number = 0
        self._kept: list[weakref.ref[ArraySnapshot]] = []
        self._moving = threading.Lock()
        """Held by whoever changes `puts`."""

    def put(self, indices: Array, rows: Array) -> None:
        """Set the rows of these numbers, which ascend. Both arrays are the store's own from now on."""
        if len(indices):
            with self._moving:
                self.puts = (*self.puts, _Put(self._number + 1, indices, rows))

    def snapshot(self) -> ArraySnapshot:
        """All rows as they are now."""
        newest = self._kept[-1]() if self._kept else None
        if newest is not None and not any(put.number > newest.number for put in self.puts):
            return newest
        self._number += 1
        made = ArraySnapshot(self, self._number)
        self._kept = [*(ref for ref in self._kept if ref() is not None), weakref.ref(made)]
        self.move()
        return made

    def move(self) -> None:
        """Move into the array what was put until the oldest snapshot was taken that is kept; whoever keeps one may."""
        with self._moving:
            oldest = min(each.number for ref in self._kept if (each := ref()) is not None)
            moved = [put for put in self.puts if put.number <= oldest]
            for put in moved:
                _put_rows(self.array, put)
            self.puts = self.puts[len(moved) :]


class DirtyRows:
    """What a model keeps in an array that its kernel writes to: `array`, and `dirty`, 1 for each row written to.

    >>> store = DirtyRows(np.zeros((4, 2), np.float32))
    >>> first = store.snapshot()
    >>> store.array[2], store.dirty[2] = 5, 1
    >>> store.snapshot().since(first), np.asarray(first).any()
    (array([2]), np.False_)
    """

    def __init__(self, array: Array) -> None:
        self.array = _of_rows(array)
        self.dirty: Array = np.zeros(len(array), np.uint8)
        self._copied: RowStore | None = None

    def snapshot(self) -> ArraySnapshot:
        """All rows as they are now. The first one is a copy of all of them."""
        if self._copied is None:
            self._copied = RowStore(self.array.copy())
            self.dirty[:] = 0
        else:
            indices = np.flatnonzero(self.dirty != 0)  # of booleans it is quick
            self._copied.put(indices, self.array.take(indices, axis=0))
            self.dirty[indices] = 0
        return self._copied.snapshot()


def _of_rows(array: Array) -> Array:
    if array.ndim != 2 or not array.flags.c_contiguous or array.dtype.hasobject:
        found = f"{array.ndim} dimensions of {array.dtype}, {'' if array.flags.c_contiguous else 'not '}C-contiguous"
        message = f"rows are kept of arrays of numbers with two dimensions, C-contiguous; this one has {found}"
        raise ValueError(message)
    return array


def _put_rows(array: Array, put: _Put) -> None:
    """Set whole rows, each at one go, which takes half the time."""
    if array.nbytes:
        row = np.dtype((np.void, array.shape[1] * array.itemsize))
        array.view(row)[put.indices, 0] = np.ascontiguousarray(put.rows, array.dtype).view(row)[:, 0]
