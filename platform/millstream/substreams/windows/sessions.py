"""Session windows: the records of a key between two silences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.arrays import Array
from millstream.config.durations import Duration
from millstream.substreams import Watermark
from millstream.substreams.windows.contracts import GREATEST, Assignment, Closed, Move, Window, Windows, clipped
from millstream.substreams.windows.times import LateTimes, time_labels

__all__ = ["SessionWindow"]


class SessionWindow(BaseModel):
    """Windows of a key that end when no record of the key comes for `gap` of event time.

    A record belongs to the session of each record that is less than `gap` away, so a record between two sessions joins
    them. A session closes when the watermark has passed its last record by `gap` and `lateness`; a record is late if a
    session of this record alone would have closed. The order of the records changes nothing.

    >>> windows = SessionWindow(gap="10s").open()
    >>> times = pa.table({"_time": [0, 5_000_000, 20_000_000]})
    >>> windows.assign(times, np.zeros(3, np.int64), [windows.memory()]).cells
    [(0, 0), (0, 20000000)]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["session"] = "session"
    gap: Duration = Field(gt=0, le=GREATEST, description="The silence that ends a session, such as `30m`.")
    lateness: Duration = Field(
        default=0, ge=0, le=GREATEST, description="How long a session accepts late records after its end."
    )

    def open(self) -> Windows:
        return _Sessions(self.gap, self.lateness)


class _Sessions:
    """The number of a session, and of its pane, is the time of its first record.

    The memory of a key is the time of the last record of each of its open sessions, by their numbers.
    """

    ends = frozenset({"time"})
    ordered = False
    label = pa.timestamp("us", tz="UTC")

    def __init__(self, gap: int, lateness: int) -> None:
        self._gap, self.lateness = gap, lateness
        self._late = LateTimes()

    def labels(self, numbers: Iterable[int]) -> pa.Array:
        return time_labels(numbers)

    def last_since(self, time: int) -> int:
        return clipped(time + self._gap - 1)

    def memory(self) -> Any:
        return {}

    def assign(self, records: pa.Table, codes: Array, memories: Sequence[Any]) -> Assignment:
        timely = self._late.divide(records, codes)
        rows, values = timely.rows, timely.values
        order, begins = self._runs(codes[rows], values)
        run_of = np.empty(len(rows), np.int64)
        run_of[order] = np.cumsum(begins) - 1
        first = np.flatnonzero(begins)
        last = np.r_[first[1:], len(rows)] - 1 if len(rows) else first
        runs = zip(
            codes[rows[order[first]]].tolist(),
            values[order[first]].tolist(),
            values[order[last]].tolist(),
            strict=True,
        )
        moves: list[Move] = []
        cells = [(code, self._extend(code, memories[code], start, end, moves)) for code, start, end in runs]
        return timely.assigned(cells, run_of, moves)

    def ended(self, watermark: Watermark) -> None:
        self._late.rise(watermark, self._gap + self.lateness - 1)

    def close(self, code: int, memory: Any, panes: Collection[int]) -> Closed:
        closed = sorted(start for start, last in memory.items() if last < self._late.before)
        windows = [Window.until(memory.pop(start) + self._gap, start, start, start) for start in closed]
        return Closed(windows, closed)

    def open(self, memory: Any, panes: Collection[int]) -> Sequence[Window]:
        return [
            Window.until(last + self._gap, start, start, start)
            for start, last in sorted(memory.items())
            if start in panes
        ]

    def due(self, memory: Any, panes: Collection[int]) -> int:
        sessions: dict[int, int] = memory
        return min(min(sessions.values()) + self._gap + self.lateness, GREATEST) if sessions else GREATEST

    def is_needed(self, memory: Any) -> bool:
        return bool(memory)

    def save_memory(self, memory: Any) -> Mapping[str, Any]:
        return {"sessions": sorted(memory.items())}

    def restore_memory(self, saved: Mapping[str, Any]) -> Any:
        return dict(saved["sessions"])

    def save(self) -> Mapping[str, int]:
        return self._late.save()

    def restore(self, state: Mapping[str, int]) -> None:
        self._late.restore(state)

    def _runs(self, codes: Array, times: Array) -> tuple[Array, Array]:
        """The order of the records by key and time, and where in this order another key or another session begins."""
        order = np.lexsort((times, codes))
        codes, times = codes[order], times[order]
        begins = np.ones(len(order), np.bool_)
        # as unsigned, because the difference of two int64 may not be one
        apart = times[1:].view(np.uint64) - times[:-1].view(np.uint64)
        begins[1:] = (codes[1:] != codes[:-1]) | (apart >= np.uint64(self._gap))
        return order, begins

    def _extend(self, code: int, sessions: dict[int, int], start: int, end: int, moves: list[Move]) -> int:
        """Add records from `start` to `end` to the sessions of a key; return the number of their session."""
        gap = self._gap
        if not sessions:
            sessions[start] = end
            return start
        if len(sessions) == 1:
            ((first, last),) = sessions.items()
            if first <= start and start - last < gap:  # the usual case
                if end > last:
                    sessions[first] = end
                return first
        near = [first for first, last in sessions.items() if first - end < gap and start - last < gap]
        if not near:
            sessions[start] = end
            return start
        number = min(start, *near) if len(near) > 1 else min(start, near[0])
        for first in near:
            end = max(end, sessions[first])
            if first != number:
                del sessions[first]
                moves.append(Move(code, first, number))
        sessions[number] = end
        return number
