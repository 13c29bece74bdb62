"""Windows: stretches of the stream, numbered in the order in which they close."""

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
from millstream.substreams import Before

__all__ = ["Assigned", "CountWindow", "TumblingWindow", "WindowConfig", "Windows"]

_LEAST, _GREATEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Assigned:
    """The windows of a batch's records: the record in row `rows[i]` belongs to window `windows[i]`.

    `late` marks, among these, the windows that had closed already. The rows in `untimed` belong to no window, because
    they have no time.
    """

    rows: Array
    windows: Array
    late: Array
    untimed: Array


class Windows(Protocol):
    """Tells records apart by windows, and knows which windows have closed. What fell into them is the step's to keep.

    What they remember does not grow with the records.
    """

    @property
    def first_open(self) -> int:
        """All windows with a lesser number have closed, the others have not; it never goes back."""
        ...

    @property
    def ends(self) -> frozenset[str]:
        """The substreams whose end closes windows, as in a step's traits."""
        ...

    @property
    def label(self) -> pa.DataType:
        """The type of `labels`."""
        ...

    def labels(self, windows: Array) -> pa.Array:
        """What users see of these windows, as `_window`."""
        ...

    def assign(self, records: pa.Table) -> Assigned:
        """The windows of the next records."""
        ...

    def ended(self, substream: Any) -> None:
        """A substream that is among `ends` has ended."""
        ...

    def save(self) -> Mapping[str, int]: ...

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on from what `save` gave; an empty state is that of new windows."""
        ...


class CountWindow(BaseModel):
    """Windows of `size` records each, in the order in which the step gets them; a window closes when it is full.

    >>> windows = CountWindow(size=2).open()
    >>> windows.assign(pa.table({"_time": [7, None, 9]})).windows.tolist()
    [0, 0, 1]
    >>> windows.first_open
    1
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["count"] = "count"
    size: int = Field(ge=1, le=_GREATEST, description="How many records a window holds.")

    def open(self) -> Windows:
        return _Counted(self.size)


class TumblingWindow(BaseModel):
    """Windows of `size` by event time, one after the other; midnight of 1970-01-01 UTC starts one.

    A window closes once event time has passed its end by `lateness`: so long does it wait for records out of order.

    >>> windows = TumblingWindow(size="1s", lateness="500ms").open()
    >>> windows.ended(Before(1_500_000))
    >>> windows.first_open
    1
    >>> windows.assign(pa.table({"_time": [999_999, 1_000_000, None]})).late.tolist()
    [True, False]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["tumbling"] = "tumbling"
    size: Duration = Field(gt=0, le=_GREATEST, description="How much time a window spans, such as `1h`.")
    lateness: Duration = Field(
        default=0, ge=0, le=_GREATEST, description="How long a window waits after its end for records that come late."
    )

    def open(self) -> Windows:
        return _Tumbling(self.size, self.lateness)


WindowConfig = Annotated[CountWindow | TumblingWindow, Field(discriminator="type")]
"""What a config may say of a window; `open` makes the windows themselves."""


class _Counted:
    ends: frozenset[str] = frozenset()
    label = pa.int64()

    def __init__(self, size: int) -> None:
        self._size = size
        self._records = 0

    @property
    def first_open(self) -> int:
        return self._records // self._size

    def labels(self, windows: Array) -> pa.Array:
        return pa.array(windows, pa.int64())

    def assign(self, records: pa.Table) -> Assigned:
        rows = np.arange(records.num_rows, dtype=np.int64)
        windows = (rows + self._records) // self._size
        self._records += records.num_rows
        return Assigned(rows, windows, np.zeros(len(rows), np.bool_), rows[:0])

    def ended(self, substream: Any) -> None:
        pass

    def save(self) -> Mapping[str, int]:
        return {"records": self._records}

    def restore(self, state: Mapping[str, int]) -> None:
        self._records = state.get("records", 0)


class _Tumbling:
    """Window n holds the times in [n * size, (n + 1) * size); times are int64, and so are window numbers then."""

    ends = frozenset({"time"})
    label = pa.timestamp("us", tz="UTC")

    def __init__(self, size: int, lateness: int) -> None:
        self._size = size
        self._lateness = lateness
        self._first = _LEAST // size
        self._last = _GREATEST // size
        self._first_open = self._first

    @property
    def first_open(self) -> int:
        return self._first_open

    def labels(self, windows: Array) -> pa.Array:
        # The window that holds the least int64 may start before it; that is shown as the least.
        whole = windows >= -(-_LEAST // self._size)
        return pa.array(np.where(whole, windows * self._size, _LEAST), pa.int64()).cast(self.label)

    def assign(self, records: pa.Table) -> Assigned:
        times = records[TIME].combine_chunks()
        timed = times.is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(timed)
        windows = times.drop_null().to_numpy() // self._size
        return Assigned(rows, windows, windows < self._first_open, np.flatnonzero(~timed))

    def ended(self, substream: Any) -> None:
        if not isinstance(substream, Before):
            return
        closed = self._last + 1 if substream.time is None else (substream.time - self._lateness) // self._size
        self._first_open = max(self._first_open, closed)

    def save(self) -> Mapping[str, int]:
        return {"first_open": self._first_open}

    def restore(self, state: Mapping[str, int]) -> None:
        self._first_open = state.get("first_open", self._first)
