"""The contract of windows: the seam between the kinds of windows and the steps that keep something for each window."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.substreams import Watermark

__all__ = [
    "GREATEST",
    "LEAST",
    "Assignment",
    "Closed",
    "ConsecutiveWindows",
    "Move",
    "OverlappingWindows",
    "WaitingWindows",
    "Window",
    "Windows",
    "clipped",
    "group_by_pane",
    "no_rows",
]

LEAST, GREATEST = -(2**63), 2**63 - 1


class Window(NamedTuple):
    """A window of one key: its number, its panes from `first` to `last`, its place among others, and its time.

    The place is the end of the window in event time. For windows that count records it is the row of the batch with
    the window's last record, because these windows close among the records. The time is that of the window's rows: its
    last microsecond, or the time of its last record if it counts records; None if this record has no time.
    """

    number: int
    first: int
    last: int
    place: int
    time: int | None

    @staticmethod
    def until(end: int, number: int, first: int, last: int) -> Window:
        """A window over event time that ends before `end`."""
        return Window(number, first, last, end, clipped(end - 1))


class Move(NamedTuple):
    """The contents of a pane of a key join those of another pane; with None, no window has the pane's records."""

    code: int
    pane: int
    into: int | None


class Closed(NamedTuple):
    """The windows of a key that have closed, in their order, and the panes that no open window has."""

    windows: Sequence[Window]
    panes: Sequence[int]


@dataclass(frozen=True)
class Assignment:
    """The panes of a batch's records.

    The record in row `rows[i]` belongs to `cells[cell_of[i]]`, a cell being the number of a key and a pane. The rows in
    `late` missed the windows in `missed`, which had closed. The rows in `untimed` belong to no window, because they
    have no time. The `moves` come before the records are added to their panes.
    """

    rows: Array
    cells: Sequence[tuple[int, int]]
    cell_of: Array
    late: Array
    missed: Array
    untimed: Array
    moves: Sequence[Move] = field(default_factory=list)


class Windows(Protocol):
    """Assigns the records of each key to windows, and knows which windows have closed.

    The contents of a window are in one or several *panes*, which windows that overlap share. A step keeps, for each
    key, the contents of its panes by their numbers, and the key's *memory*: a JSON value that belongs to the windows.
    So the contents may be of any type that can be merged: counts, sketches, records.

    The state of an object of this type is the same for all keys: the progress of event time.
    """

    ends: frozenset[str]
    """The kinds of substreams whose end closes windows, as in `Traits.ends`."""
    ordered: bool
    """True if the windows of records depend on the order of the records."""
    lateness: int
    """The event time, in microseconds, for which a window stays open after its end."""
    label: pa.DataType
    """The type of the values that `labels` returns."""

    def labels(self, numbers: Iterable[int]) -> pa.Array:
        """Return the values for windows with these numbers that outputs have as `_window`."""
        ...

    def last_since(self, time: int) -> int:
        """Return the greatest number of a window that may have records of this time, or of an earlier one.

        It is -1 for windows that count records, because they count those that the step gets.
        """
        ...

    def memory(self) -> Any:
        """Return the memory of a new key."""
        ...

    def assign(self, records: pa.Table, codes: Array, memories: Sequence[Any]) -> Assignment:
        """Assign the next records to panes. `codes` has the number of each record's key, `memories` is indexed by it.

        The codes that are -1 are records without a key, which belong to no pane.
        """
        ...

    def ended(self, watermark: Watermark) -> None:
        """Move event time."""
        ...

    def close(self, code: int, memory: Any, panes: Collection[int]) -> Closed:
        """Close the windows of a key that have ended; `panes` are those with contents."""
        ...

    def open(self, memory: Any, panes: Collection[int]) -> Sequence[Window]:
        """Return the open windows of a key that have contents in these panes."""
        ...

    def due(self, memory: Any, panes: Collection[int]) -> int:
        """Return the watermark until which no window of this key closes and nothing moves."""
        ...

    def is_needed(self, memory: Any) -> bool:
        """Return whether the memory of a key without panes differs from that of a new key."""
        ...

    def save_memory(self, memory: Any) -> Mapping[str, Any]:
        """Return the memory of a key as a JSON object; its names are other ones than those of `save`.

        Memories that are equal give the same names and items in the same order, however each of them came about.
        """
        ...

    def restore_memory(self, saved: Mapping[str, Any]) -> Any:
        """Return the memory that `save_memory` saved, from an object with other names besides."""
        ...

    def save(self) -> Mapping[str, int]: ...

    def restore(self, state: Mapping[str, int]) -> None:
        """Set the state to one that `save` returned. An empty state makes the windows new."""
        ...


@runtime_checkable
class ConsecutiveWindows(Windows, Protocol):
    """Windows with consecutive numbers: the window with the next number follows a window, also without records."""

    def window(self, code: int, number: int) -> Window:
        """Return the window with this number."""
        ...

    def has_closed(self, memory: Any, number: int) -> bool:
        """Return whether this window of a key has closed."""
        ...


@runtime_checkable
class OverlappingWindows(Windows, Protocol):
    """Windows that share panes, so that a key may have more open windows than panes."""

    def held(self, memory: Any, panes: Collection[int]) -> int:
        """Return the number of the key's open windows with some of these panes, or of the panes if they are more."""
        ...


@runtime_checkable
class WaitingWindows(Windows, Protocol):
    """Windows whose records wait in panes of their own until the watermark decides to which window they belong."""

    def release(self, code: int, memory: Any) -> Sequence[Move]:
        """Return the moves of a key at this watermark."""
        ...


def clipped(time: int) -> int:
    """The nearest int64."""
    return min(max(time, LEAST), GREATEST)


def no_rows() -> Array:
    """No rows of a batch."""
    return np.zeros(0, np.int64)


def group_by_pane(codes: Array, panes: Array) -> tuple[list[tuple[int, int]], Array]:
    """Return the distinct pairs of a code and a pane, and for each row the index of its pair.

    >>> group_by_pane(np.array([4, 4, 1]), np.array([7, 7, 7]))
    ([(1, 7), (4, 7)], array([1, 1, 0]))
    """
    if not len(codes):
        return [], no_rows()
    if (codes == codes[0]).all():
        code, least = int(codes[0]), int(panes.min())
        if int(panes.max()) - least >= len(panes):  # far apart
            found, cell_of = np.unique(panes, return_inverse=True)
            return [(code, pane) for pane in found.tolist()], cell_of
        places = panes - least
        present = np.flatnonzero(np.bincount(places))
        index = np.zeros(int(present[-1]) + 1, np.int64)
        index[present] = np.arange(len(present))
        return [(code, least + place) for place in present.tolist()], index[places]
    order = np.lexsort((panes, codes))
    codes, panes = codes[order], panes[order]
    begins = np.r_[True, (codes[1:] != codes[:-1]) | (panes[1:] != panes[:-1])]
    cell_of = np.empty(len(order), np.int64)
    cell_of[order] = np.cumsum(begins) - 1
    return list(zip(codes[begins].tolist(), panes[begins].tolist(), strict=True)), cell_of
