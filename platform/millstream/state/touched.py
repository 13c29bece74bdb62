"""Arrays kept so that a save costs the rows that were written to, and not all that are there.

A model's kernel writes to the array itself, and sets a flag for each row. What it saves is a snapshot: a view of a
second array, to which only those rows are copied. When rows are copied to it after that, the snapshot keeps what was
there before; so the rows that were touched between two snapshots are those that the snapshots in between have kept.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["Array", "RowStore", "Touched", "TouchedStore", "Value"]

Array = np.ndarray[Any, Any]


class Touched:
    """An array of rows at one moment, as a step or model saves it. It stays as it is while they go on.

    `before` has what the rows were that have been put since, up to the snapshot that was taken next, `after`. The
    store writes to `before` first and to its rows then, so whoever reads the rows first, and then `after` before
    `before`, can tell what they read of a later time, although no lock is held.
    """

    __slots__ = ("__weakref__", "_array", "after", "before")

    def __init__(self, array: Array) -> None:
        self._array = array
        self.before: tuple[tuple[Array, Array], ...] = ()
        self.after: Touched | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self._array.shape
        return shape

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self._array.dtype
        return dtype

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    def since(self, earlier: object) -> Array | None:
        """The rows that may have changed since an earlier snapshot of the same store: their numbers, ascending.

        None if that is not known of this other state.
        """
        parts: list[Array] = []
        link = earlier if isinstance(earlier, Touched) else None
        while link is not self:
            if link is None:
                return None
            parts += [places for places, _ in link.before]
            link = link.after
        return parts[0] if len(parts) == 1 else np.unique(np.concatenate([np.zeros(0, np.int64), *parts]))

    def rows(self, places: Array) -> Array:
        """The rows of these numbers."""
        rows = self._array.take(places, axis=0)
        for put, values in self._put_since():
            at = np.searchsorted(put, places)
            at[at == len(put)] = 0
            put_since = put[at] == places
            rows[put_since] = values[at[put_since]]
        return rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            message = "a snapshot's rows are still written to; without a copy they do not stay as they are"
            raise ValueError(message)
        whole = self._array.copy()
        for places, values in self._put_since():
            _put_rows(whole, places, values)
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def __len__(self) -> int:
        return len(self._array)

    def __bytes__(self) -> bytes:
        return np.asarray(self).tobytes()

    def __repr__(self) -> str:
        return repr(np.asarray(self))

    def __reduce__(self) -> tuple[Callable[[Array], Array], tuple[Array]]:
        return np.asarray, (np.asarray(self),)

    def _put_since(self) -> list[tuple[Array, Array]]:
        """What rows were that have been put since, the latest first. Whoever asks has read the rows."""
        put: list[tuple[Array, Array]] = []
        link: Touched | None = self
        while link is not None:
            after = link.after
            put += link.before
            link = after
        return put[::-1]


Value = Array | Touched | bytes
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
        self._array = _of_rows(array)
        self._newest: Callable[[], Touched | None] = _none

    def put(self, places: Array, values: Array) -> None:
        """Set the rows of these numbers, which ascend."""
        if len(places) == 0:
            return
        newest = self._newest()
        if newest is not None:
            newest.before = (*newest.before, (places, self._array.take(places, axis=0)))
        _put_rows(self._array, places, values)

    def snapshot(self) -> Touched:
        """All rows as they are now."""
        newest = self._newest()
        if newest is not None and not newest.before:
            return newest
        made = Touched(self._array)
        if newest is not None:
            newest.after = made
        self._newest = weakref.ref(made)
        return made


class TouchedStore:
    """What a model keeps in an array that its kernel writes to: `array`, and `touched`, 1 for each row written to.

    >>> store = TouchedStore(np.zeros((4, 2), np.float32))
    >>> first = store.snapshot()
    >>> store.array[2], store.touched[2] = 5, 1
    >>> store.snapshot().since(first), np.asarray(first).any()
    (array([2]), np.False_)
    """

    def __init__(self, array: Array) -> None:
        self.array = _of_rows(array)
        self.touched: Array = np.zeros(len(array), np.uint8)
        self._copied: RowStore | None = None

    def snapshot(self) -> Touched:
        """All rows as they are now. The first one is a copy of all of them."""
        if self._copied is None:
            self._copied = RowStore(self.array.copy())
            self.touched[:] = 0
        else:
            places = np.flatnonzero(self.touched != 0)  # of booleans it is quick
            self._copied.put(places, self.array.take(places, axis=0))
            self.touched[places] = 0
        return self._copied.snapshot()


def _none() -> None:
    return None


def _of_rows(array: Array) -> Array:
    if array.ndim != 2 or not array.flags.c_contiguous or array.dtype.hasobject:
        found = f"{array.ndim} dimensions of {array.dtype}, {'' if array.flags.c_contiguous else 'not '}C-contiguous"
        message = f"rows are kept of arrays of numbers with two dimensions, C-contiguous; this one has {found}"
        raise ValueError(message)
    return array


def _put_rows(array: Array, places: Array, values: Array) -> None:
    """Set whole rows, each at one go, which takes half the time."""
    if array.nbytes:
        row = np.dtype((np.void, array.shape[1] * array.itemsize))
        array.view(row)[places, 0] = np.ascontiguousarray(values, array.dtype).view(row)[:, 0]
