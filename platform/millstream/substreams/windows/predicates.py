"""Windows that begin and end with records for which a function of the user returns true."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, model_validator

from millstream.arrays import Array
from millstream.config.durations import Duration
from millstream.config.imported_names import IMPORTED_NAME, import_name
from millstream.errors import ConfigError
from millstream.records import OFFSET, RANK, record_failed
from millstream.substreams import Watermark
from millstream.substreams.windows.contracts import GREATEST, Assignment, Closed, Move, Window, Windows, clipped
from millstream.substreams.windows.times import LateTimes, time_labels

__all__ = ["PredicateWindow"]

_BEGINS, _ENDS = 1, 2
_MEMORY = ("waiting", "next", "open", "ended", "began")
"""The names in the memory of a key, in the order in which they are saved."""
_WAITING = -(2**62)
"""The pane of a record that waits is less than this, and no other pane is: these times are 146,000 years ago."""

_Predicate = Annotated[str, Field(pattern=IMPORTED_NAME)]


class PredicateWindow(BaseModel):
    """Windows of a key from a record for which `begins` is true to the next one for which `ends` is true, with both.

    The functions get a record's fields as a dict and return true or false. They see the records of a key in the order
    of event time: a record waits until the watermark has passed it by `lateness`; a record that comes later is late.
    Without `begins`, a window begins with the first record after the end of the one before. Without `ends`, a window
    ends before the next record for which `begins` is true. Records outside of windows are not counted.

    >>> import sys, types
    >>> trip = sys.modules["trip"] = types.ModuleType("trip")
    >>> trip.arrives = lambda record: record["event"] == "arrival"
    >>> windows = PredicateWindow(ends="trip:arrives").open()
    >>> memory, position = windows.memory(), {"_rank": [0] * 3, "_offset": [0, 1, 2], "_time": [10, 30, 20]}
    >>> records = pa.table({**position, "event": ["start", "start", "arrival"]})
    >>> found = windows.assign(records, np.zeros(3, np.int64), [memory])
    >>> windows.ended(Watermark(25))
    >>> [move.into for move in windows.release(0, memory)], windows.close(0, memory, {10}).windows
    ([10, 10], [Window(number=10, first=10, last=10, place=21, time=20)])
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["predicate"] = "predicate"
    begins: _Predicate | None = Field(default=None, description="A function, package.module:name, of the first record.")
    ends: _Predicate | None = Field(default=None, description="A function, package.module:name, of the last record.")
    lateness: Duration = Field(
        default=0, ge=0, le=GREATEST, description="How long a record waits for records that are earlier than it."
    )

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if self.begins is None and self.ends is None:
            message = "give `begins`, `ends`, or both; without them there would be one window"
            raise ValueError(message)
        return self

    def open(self) -> Windows:
        return _Predicates(self.begins, self.ends, self.lateness)


class _Predicates:
    """The number of a window, and of its pane, is the time of its first record.

    If a window of the same key began at this time already, the number is a microsecond more. The memory of a key has
    the records that wait (time, rank, offset, pane, flags), the next pane for one, the open window, the windows that
    have ended (first and last time), and the number of the window that began last.
    """

    ends = frozenset({"time"})
    ordered = True  # the panes of records that wait are numbered as they come
    label = pa.timestamp("us", tz="UTC")

    def __init__(self, begins: str | None, ends: str | None, lateness: int) -> None:
        self._begins = _imported("begins", begins)
        self._ends = _imported("ends", ends)
        self.lateness = lateness
        self._late = LateTimes()

    def labels(self, numbers: Iterable[int]) -> pa.Array:
        return time_labels(numbers)

    def last_since(self, time: int) -> int:
        return time

    def memory(self) -> Any:
        return {}

    def assign(self, records: pa.Table, codes: Array, memories: Sequence[Any]) -> Assignment:
        timely = self._late.divide(records, codes, least=_WAITING)
        names = [name for name in records.column_names if not name.startswith("_")]
        taken = records.select([RANK, OFFSET, *names]).take(pa.array(timely.rows))
        cells = []
        for row, time, rank, offset, record in zip(
            timely.rows.tolist(),
            timely.values.tolist(),
            taken[RANK].to_pylist(),
            taken[OFFSET].to_pylist(),
            taken.select(names).to_pylist(),
            strict=True,
        ):
            code = int(codes[row])
            flags = sum(
                flag
                for flag, predicate in ((_BEGINS, self._begins), (_ENDS, self._ends))
                if predicate is not None and _is_true(predicate, record, records, row)
            )
            memory = memories[code]
            waiting = memory.setdefault("waiting", [])
            pane = memory["next"] = memory.get("next", _WAITING) - 1
            waiting.append([time, rank, offset, pane, flags])
            cells.append((code, pane))
        return timely.assigned(cells, np.arange(len(cells), dtype=np.int64))

    def ended(self, watermark: Watermark) -> None:
        self._late.rise(watermark, self.lateness)

    def release(self, code: int, memory: Any) -> Sequence[Move]:
        waiting = sorted(memory.get("waiting", ()), key=_order)
        count = sum(entry[0] < self._late.before for entry in waiting)
        moves = [Move(code, pane, self._place(memory, time, flags)) for time, _, _, pane, flags in waiting[:count]]
        if count == len(waiting):
            memory.pop("waiting", None), memory.pop("next", None)
        else:
            memory["waiting"] = waiting[count:]
        return moves

    def close(self, code: int, memory: Any, panes: Collection[int]) -> Closed:
        ended = memory.pop("ended", [])
        if self._late.before > GREATEST and (window := memory.pop("open", None)):
            ended.append(window)
        if memory.get("began", self._late.before) < self._late.before and "open" not in memory:
            del memory["began"]
        return Closed(
            [Window.until(last + 1, first, first, first) for first, last in ended], [first for first, _ in ended]
        )

    def open(self, memory: Any, panes: Collection[int]) -> Sequence[Window]:
        return [
            Window.until(last + 1, first, first, first)
            for first, last in filter(None, [memory.get("open")])
            if first in panes
        ]

    def due(self, memory: Any, panes: Collection[int]) -> int:
        first = min((entry[0] for entry in memory.get("waiting", ())), default=GREATEST)
        return clipped(first + self.lateness + 1)

    def is_needed(self, memory: Any) -> bool:
        return bool(memory)

    def save_memory(self, memory: Any) -> Mapping[str, Any]:
        return {name: memory[name] for name in _MEMORY if name in memory}

    def restore_memory(self, saved: Mapping[str, Any]) -> Any:
        return {name: saved[name] for name in _MEMORY if name in saved}

    def save(self) -> Mapping[str, int]:
        return self._late.save()

    def restore(self, state: Mapping[str, int]) -> None:
        self._late.restore(state)

    def _place(self, memory: Any, time: int, flags: int) -> int | None:
        """Move on by one record, and return the number of its window."""
        window = memory.get("open")
        if window is not None and self._ends is None and flags & _BEGINS:
            memory.setdefault("ended", []).append(window)
            window = None
        if window is None:
            if self._begins is not None and not flags & _BEGINS:
                return None
            number = max(time, memory["began"] + 1) if "began" in memory else time
            window = memory["open"] = [number, time]
            memory["began"] = number
        window[1] = time
        if flags & _ENDS:
            memory.setdefault("ended", []).append(window)
            del memory["open"]
        return int(window[0])


def _order(waiting: Sequence[int]) -> tuple[int, int, int, int]:
    """The order of a record that waits: event time, then step order; siblings come in the order of their panes."""
    time, rank, offset, pane, _ = waiting
    return time, rank, offset, -pane


def _imported(option: str, name: str | None) -> Callable[[dict[str, Any]], Any] | None:
    if name is None:
        return None
    try:
        found = import_name(name)
    except ConfigError as error:
        raise ConfigError(f"window, `{option}`: {error}") from error
    if not callable(found):
        raise ConfigError(f"window, `{option}`: {name} is not a function but {type(found).__name__}")
    return found  # type: ignore[no-any-return]  # a function of the user


def _is_true(predicate: Callable[[dict[str, Any]], Any], record: dict[str, Any], records: pa.Table, row: int) -> bool:
    name = getattr(predicate, "__name__", repr(predicate))
    try:
        found = predicate(dict(record))
    except (Exception, SystemExit) as error:
        message = f"window, function {name}: it raised {type(error).__name__}: {error}"
        raise record_failed(message, records, row) from error
    if not isinstance(found, bool | np.bool_):
        message = f"window, function {name}: it returned {found!r}; return True or False"
        raise record_failed(message, records, row)
    return bool(found)
