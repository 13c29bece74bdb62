"""Windows: sections of the stream, numbered in the order in which they close."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.arrays import Array
from millstream.config.durations import Duration
from millstream.records import TIME
from millstream.substreams import Watermark

__all__ = ["CountWindow", "TumblingWindow", "WindowAssignment", "WindowConfig", "Windows"]

_LEAST, _GREATEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class WindowAssignment:
    """The windows of a batch's records: the record in row `rows[i]` belongs to window `windows[i]`.

    `late[i]` is true if this window had already closed. The rows in `untimed` belong to no window, because they have
    no time.
    """

    rows: Array
    windows: Array
    late: Array
    untimed: Array


class Windows(Protocol):
    """Assigns records to windows, and knows which windows have closed. A step keeps the contents of the windows itself.

    The state has a fixed size, independent of the number of records.
    """

    @property
    def first_open(self) -> int:
        """The number of the first open window: all windows before it have closed. The number never falls."""
        ...

    @property
    def ends(self) -> frozenset[str]:
        """The kinds of substreams whose end closes windows, as in `Traits.ends`."""
        ...

    @property
    def lateness(self) -> int:
        """The event time, in microseconds, for which a window stays open after its end."""
        ...

    @property
    def label(self) -> pa.DataType:
        """The type of the values that `labels` returns."""
        ...

    def labels(self, windows: Array) -> pa.Array:
        """Return the values for these windows that outputs have as `_window`."""
        ...

    def assign(self, records: pa.Table) -> WindowAssignment:
        """Assign the next records to windows."""
        ...

    def ended(self, substream: Any) -> None:
        """Close the windows that end with this substream, one of the kinds in `ends`."""
        ...

    def save(self) -> Mapping[str, int]: ...

    def restore(self, state: Mapping[str, int]) -> None:
        """Set the state to one that `save` returned. An empty state makes the windows new."""
        ...


class CountWindow(BaseModel):
    """Windows of `size` records each, in the order in which the step gets the records; a window closes when it is full.

    >>> windows = CountWindow(size=2).open()
    >>> windows.assign(pa.table({"_time": [7, None, 9]})).windows.tolist()
    [0, 0, 1]
    >>> windows.first_open
    1
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["count"] = "count"
    size: int = Field(ge=1, le=_GREATEST, description="The number of records in a window.")

    def open(self) -> Windows:
        return _CountWindows(self.size)


class TumblingWindow(BaseModel):
    """Windows of length `size` in event time, one after the other; one of them starts at midnight of 1970-01-01 UTC.

    A window closes when the watermark has passed the end of the window by `lateness`. Until then, the window accepts
    records that are out of order.

    >>> windows = TumblingWindow(size="1s", lateness="500ms").open()
    >>> windows.ended(Watermark(1_500_000))
    >>> windows.first_open
    1
    >>> windows.assign(pa.table({"_time": [999_999, 1_000_000, None]})).late.tolist()
    [True, False]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["tumbling"] = "tumbling"
    size: Duration = Field(gt=0, le=_GREATEST, description="The length of a window, such as `1h`.")
    lateness: Duration = Field(
        default=0, ge=0, le=_GREATEST, description="How long a window accepts late records after its end."
    )

    def open(self) -> Windows:
        return _TumblingWindows(self.size, self.lateness)


WindowConfig = Annotated[CountWindow | TumblingWindow, Field(discriminator="type")]
"""The options of windows in a config; their method `open` makes the `Windows`."""


class _CountWindows:
    ends: frozenset[str] = frozenset()
    lateness = 0
    label = pa.int64()

    def __init__(self, size: int) -> None:
        self._size = size
        self._records = 0

    @property
    def first_open(self) -> int:
        return self._records // self._size

    def labels(self, windows: Array) -> pa.Array:
        return pa.array(windows, pa.int64())

    def assign(self, records: pa.Table) -> WindowAssignment:
        rows = np.arange(records.num_rows, dtype=np.int64)
        windows = (rows + self._records) // self._size
        self._records += records.num_rows
        return WindowAssignment(rows, windows, np.zeros(len(rows), np.bool_), rows[:0])

    def ended(self, substream: Any) -> None:
        pass

    def save(self) -> Mapping[str, int]:
        return {"records": self._records}

    def restore(self, state: Mapping[str, int]) -> None:
        self._records = state.get("records", 0)


class _TumblingWindows:
    """Window n holds the times in [n * size, (n + 1) * size). Times are int64, so window numbers fit into int64 too."""

    ends = frozenset({"time"})
    label = pa.timestamp("us", tz="UTC")

    def __init__(self, size: int, lateness: int) -> None:
        self._size = size
        self.lateness = lateness
        self._first = _LEAST // size
        self._last = _GREATEST // size
        self._first_open = self._first

    @property
    def first_open(self) -> int:
        return self._first_open

    def labels(self, windows: Array) -> pa.Array:
        # The window that holds the least int64 may start before it; then its label is the least int64.
        in_range = windows >= -(-_LEAST // self._size)
        return pa.array(np.where(in_range, windows * self._size, _LEAST), pa.int64()).cast(self.label)

    def assign(self, records: pa.Table) -> WindowAssignment:
        times = records[TIME].combine_chunks()
        timed = times.is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(timed)
        windows = times.drop_null().to_numpy() // self._size
        return WindowAssignment(rows, windows, windows < self._first_open, np.flatnonzero(~timed))

    def ended(self, substream: Any) -> None:
        if not isinstance(substream, Watermark):
            return
        closed = self._last + 1 if substream.time is None else (substream.time - self.lateness) // self._size
        self._first_open = max(self._first_open, closed)

    def save(self) -> Mapping[str, int]:
        return {"first_open": self._first_open}

    def restore(self, state: Mapping[str, int]) -> None:
        self._first_open = state.get("first_open", self._first)
