"""Windows that count records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.arrays import Array
from millstream.records import TIME
from millstream.substreams import Watermark
from millstream.substreams.windows.contracts import (
    GREATEST,
    LEAST,
    Assignment,
    Closed,
    Window,
    Windows,
    group_by_pane,
    no_rows,
)

__all__ = ["CountWindow"]


class CountWindow(BaseModel):
    """Windows of `size` records each, in the order in which the step gets the records; a window closes when it is full.

    With keys, each key counts its own records. When all sources have ended, the last windows close with what they have.

    >>> windows = CountWindow(size=2).open()
    >>> memory, times = windows.memory(), pa.table({"_time": [7, None, 9]})
    >>> windows.assign(times, np.zeros(3, np.int64), [memory]).cells
    [(0, 0), (0, 1)]
    >>> [window.number for window in windows.close(0, memory, {0, 1}).windows]
    [0]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["count"] = "count"
    size: int = Field(ge=1, le=GREATEST, description="The number of records in a window.")

    def open(self) -> Windows:
        return _Counts(self.size)


class _Counts:
    """The memory of a key is the number of its records, and the time of the last one."""

    ends = frozenset({"all"})
    ordered = True
    lateness = 0
    label = pa.int64()

    def __init__(self, size: int) -> None:
        self._size = size
        self._over = False
        self._filled: dict[tuple[int, int], tuple[int, int | None]] = {}
        """For each window that the last batch filled, by the code of its key: the row and the time of its last record.
        """

    def labels(self, numbers: Iterable[int]) -> pa.Array:
        return pa.array(list(numbers), pa.int64())

    def last_since(self, time: int) -> int:
        return -1

    def memory(self) -> Any:
        return {"records": 0, "last": None}

    def assign(self, records: pa.Table, codes: Array, memories: Sequence[Any]) -> Assignment:
        self._over = False
        self._filled = {}
        rows = np.flatnonzero(codes >= 0)
        if not len(rows):
            return Assignment(rows, [], rows, rows, rows, rows)
        keys = codes[rows]
        order = np.argsort(keys, kind="stable")
        begins = np.flatnonzero(np.diff(keys[order], prepend=-1))
        sizes = np.diff(begins, append=len(rows))
        present = keys[order[begins]].tolist()
        before = np.array([memories[code]["records"] for code in present], np.int64)
        numbers = np.arange(len(rows), dtype=np.int64) + np.repeat(before - begins, sizes)
        panes = np.empty(len(rows), np.int64)
        panes[order] = numbers // self._size
        times = records[TIME].combine_chunks()
        lasts = times.take(pa.array(rows[order[begins + sizes - 1]])).to_pylist()
        for code, size, last in zip(present, sizes.tolist(), lasts, strict=True):
            memories[code]["records"] += size
            memories[code]["last"] = last
        for place in np.flatnonzero(numbers % self._size == self._size - 1).tolist():
            row = int(order[place])
            self._filled[int(keys[row]), int(panes[row])] = int(rows[row]), times[int(rows[row])].as_py()
        cells, cell_of = group_by_pane(keys, panes)
        return Assignment(rows, cells, cell_of, no_rows(), no_rows(), no_rows())

    def ended(self, watermark: Watermark) -> None:
        self._over = watermark.time is None

    def close(self, code: int, memory: Any, panes: Collection[int]) -> Closed:
        if self._over:
            memory["records"] = -(-memory["records"] // self._size) * self._size
        gone = sorted(pane for pane in panes if pane < memory["records"] // self._size)
        if self._over:
            return Closed([self._unfilled(memory, pane) for pane in gone], gone)
        return Closed([self.window(code, pane) for pane in gone], gone)

    def open(self, memory: Any, panes: Collection[int]) -> Sequence[Window]:
        return [self._unfilled(memory, pane) for pane in sorted(panes)]

    def due(self, memory: Any, panes: Collection[int]) -> int:
        return GREATEST

    def window(self, code: int, number: int) -> Window:
        place, time = self._filled.get((code, number), (0, None))
        return Window(number, number, number, place, time)

    def has_closed(self, memory: Any, number: int) -> bool:
        return bool(number < memory["records"] // self._size)

    def is_needed(self, memory: Any) -> bool:
        return bool(memory["records"])

    def save_memory(self, memory: Any) -> Mapping[str, Any]:
        return dict(memory)

    def restore_memory(self, saved: Mapping[str, Any]) -> Any:
        return {"records": saved["records"], "last": saved["last"]}

    def save(self) -> Mapping[str, int]:
        return {}

    def restore(self, state: Mapping[str, int]) -> None:
        self._over = False

    def _unfilled(self, memory: Any, pane: int) -> Window:
        """The last window of a key, which is not full."""
        last = memory["last"]
        return Window(pane, pane, pane, LEAST if last is None else last, last)
