"""Windows over event time of a fixed length: tumbling, and sliding by panes that windows share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, model_validator

from millstream.arrays import Array
from millstream.config.durations import Duration, format_duration
from millstream.substreams import Watermark
from millstream.substreams.windows.contracts import (
    GREATEST,
    LEAST,
    Assignment,
    Closed,
    Window,
    Windows,
    clipped,
    group_by_pane,
)
from millstream.substreams.windows.times import Times, time_labels

__all__ = ["SlidingWindow", "TumblingWindow"]

_MOST = 10_000
"""The most windows that a record may belong to."""


class TumblingWindow(BaseModel):
    """Windows of length `size` in event time, one after the other; one of them starts at midnight of 1970-01-01 UTC.

    A window closes when the watermark has passed the end of the window by `lateness`. Until then, the window accepts
    records that are out of order.

    >>> import numpy as np, pyarrow as pa
    >>> windows = TumblingWindow(size="1s", lateness="500ms").open()
    >>> windows.ended(Watermark(1_500_000))
    >>> found = windows.assign(pa.table({"_time": [999_999, 1_000_000, None]}), np.zeros(3, np.int64), [])
    >>> found.late.tolist(), found.cells, found.untimed.tolist()
    ([0], [(0, 1)], [2])
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["tumbling"] = "tumbling"
    size: Duration = Field(gt=0, le=GREATEST, description="The length of a window, such as `1h`.")
    lateness: Duration = Field(
        default=0, ge=0, le=GREATEST, description="How long a window accepts late records after its end."
    )

    def open(self) -> Windows:
        return _Spans(self.size, self.size, self.lateness)


class SlidingWindow(BaseModel):
    """Windows of length `size` in event time; one starts every `slide`, and one of them at midnight of 1970-01-01 UTC.

    A record belongs to `size / slide` windows, and is counted once: the windows share panes whose length is the
    greatest common divisor of `size` and `slide`. A window closes as a tumbling one does. A record is late if all its
    windows have closed.

    >>> windows = SlidingWindow(size="1h", slide="20m").open()
    >>> [window.number for window in windows.open(windows.memory(), {3})]
    [1, 2, 3]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["sliding"] = "sliding"
    size: Duration = Field(gt=0, le=GREATEST, description="The length of a window, such as `1h`.")
    slide: Duration = Field(gt=0, le=GREATEST, description="The time from one window to the next, such as `1m`.")
    lateness: Duration = Field(
        default=0, ge=0, le=GREATEST, description="How long a window accepts late records after its end."
    )

    @model_validator(mode="after")
    def _check_slide(self) -> Self:
        if self.slide > self.size:
            message = f"`slide` {format_duration(self.slide)} is longer than `size`; records would be in no window"
            raise ValueError(message)
        if -(-self.size // self.slide) > _MOST:
            windows = -(-self.size // self.slide)
            message = f"a record would belong to {windows:,} windows, and {_MOST:,} are allowed; make `slide` longer"
            raise ValueError(message)
        return self

    def open(self) -> Windows:
        return _Spans(self.size, self.slide, self.lateness)


class _Spans:
    """Window n holds the times in [n * slide, n * slide + size), pane p those in [p * pane, (p + 1) * pane).

    Times are int64, so the numbers of panes and windows fit into int64 too. The memory of a key is the first window
    that has not closed; of a tumbling window nothing, because its pane goes with it.
    """

    ends = frozenset({"time"})
    ordered = False
    label = pa.timestamp("us", tz="UTC")

    def __init__(self, size: int, slide: int, lateness: int) -> None:
        self._size, self._slide, self.lateness = size, slide, lateness
        self._pane = math.gcd(size, slide)
        self._first = (LEAST - size) // slide + 1
        self._first_open = self._first

    def labels(self, numbers: Iterable[int]) -> pa.Array:
        return time_labels(number * self._slide for number in numbers)

    def last_since(self, time: int) -> int:
        return time // self._slide

    def memory(self) -> Any:
        return [self._first_open] if self._size != self._slide else None

    def assign(self, records: pa.Table, codes: Array, memories: Sequence[Any]) -> Assignment:
        times = Times.of(records, codes)
        missed = times.values // self._slide  # the last window with this time
        late = missed < self._first_open
        rows = times.rows if not late.any() else times.rows[~late]
        panes = missed if self._pane == self._slide else times.values // self._pane
        cells, cell_of = group_by_pane(codes[rows], panes if len(rows) == len(panes) else panes[~late])
        return Assignment(rows, cells, cell_of, times.rows[late], missed[late], times.untimed)

    def ended(self, watermark: Watermark) -> None:
        time = watermark.time
        closed = GREATEST // self._slide + 1
        if time is not None:
            closed = min(closed, (time - self.lateness - self._size) // self._slide + 1)
        self._first_open = max(self._first_open, closed)

    def close(self, code: int, memory: Any, panes: Collection[int]) -> Closed:
        before = self._first_open * (self._slide // self._pane)  # the first pane of the first open window
        gone = sorted([pane for pane in panes if pane < before])
        if memory is None:
            return Closed([self._window(pane) for pane in gone], gone)
        windows = self._between(memory[0], self._first_open, panes)
        memory[0] = max(memory[0], self._first_open)
        return Closed(windows, gone)

    def open(self, memory: Any, panes: Collection[int]) -> Sequence[Window]:
        return self._between(self._first_open, GREATEST, panes)

    def _between(self, first: int, stop: int, panes: Collection[int]) -> Sequence[Window]:
        """The windows with numbers in [first, stop) that have some of these panes."""
        if not panes:
            return []
        first, stop = max(first, self._first_with(min(panes))), min(stop, self._last_with(max(panes)) + 1)
        if stop - first <= len(panes):
            windows = map(self._window, range(first, stop))
            return [window for window in windows if any(window.first <= pane <= window.last for pane in panes)]
        numbers: set[int] = set()
        for pane in panes:
            numbers.update(range(max(first, self._first_with(pane)), min(stop, self._last_with(pane) + 1)))
        return [self._window(number) for number in sorted(numbers)]

    def due(self, memory: Any, panes: Collection[int]) -> int:
        if not panes:
            return GREATEST
        number = self._first_with(min(panes))
        return self._closes(number if memory is None else max(number, memory[0]))

    def held(self, memory: Any, panes: Collection[int]) -> int:
        if memory is None or not panes:
            return len(panes)
        first, last, size = min(panes), max(panes), self._size // self._pane
        windows: int = self._last_with(last) - max(memory[0], self._first_with(first)) + 1
        if last - first > size:  # a window between two panes may have neither of them
            for before, after in itertools.pairwise(sorted(panes)):
                if after - before > size:
                    without = self._first_with(after) - max(memory[0], self._last_with(before) + 1)
                    windows -= max(0, without)
        return max(windows, len(panes))

    def window(self, code: int, number: int) -> Window:
        return self._window(number)

    def has_closed(self, memory: Any, number: int) -> bool:
        return number < self._first_open

    def is_needed(self, memory: Any) -> bool:
        return False

    def save_memory(self, memory: Any) -> Mapping[str, Any]:
        return {} if memory is None else {"next": memory[0]}

    def restore_memory(self, saved: Mapping[str, Any]) -> Any:
        return [saved["next"]] if "next" in saved else self.memory()

    def save(self) -> Mapping[str, int]:
        return {"first_open": self._first_open}

    def restore(self, state: Mapping[str, int]) -> None:
        self._first_open = state.get("first_open", self._first)

    def _window(self, number: int) -> Window:
        start = number * self._slide
        end = start + self._size
        return Window.until(end, number, start // self._pane, end // self._pane - 1)

    def _first_with(self, pane: int) -> int:
        return -((self._size - (pane + 1) * self._pane) // self._slide)

    def _last_with(self, pane: int) -> int:
        return pane * self._pane // self._slide

    def _closes(self, number: int) -> int:
        return clipped(number * self._slide + self._size + self.lateness)
