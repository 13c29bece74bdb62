"""A step that measures something in windows: every kind of window, with or without keys, with or without early rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.errors import StepFailed
from millstream.records import TIME, no_records
from millstream.state.keyed_state import KeyedSnapshot, KeyedStore
from millstream.steps.column_checks import check_text_column
from millstream.steps.contracts import Output, Result, Scope, State, Traits, WindowRows, rejects_schema
from millstream.steps.reject_rows import reject_rows
from millstream.steps.windowed.keys import Key, Keys
from millstream.steps.windowed.late_rows import late_rows, late_schema
from millstream.steps.windowed.measures import Measure, Row
from millstream.steps.windowed.options import Emit, WindowedOptions
from millstream.steps.windowed.sums import PaneSum
from millstream.steps.windowed.texts import plain_texts
from millstream.substreams import Watermark
from millstream.substreams.windows import Move, Window
from millstream.substreams.windows.times import clipped

__all__ = ["WindowedStep"]

_WHOLE = ""
"""The name of the only key of a step without keys."""
_NO_WINDOWS = WindowRows(pa.nulls(0, pa.int64()), pa.nulls(0, pa.int64()))
"""The windows of no rows, made without pandas, which `pa.array` imports."""


class _Made(NamedTuple):
    """The rows of one window of one key; the first three values order them."""

    place: int
    key: str
    number: int
    rows: Sequence[Row]
    emission: int
    final: bool


class WindowedStep:
    """A measure in windows. Without `by` there is one key, and the step is global.

    A step with keys saves the state of each key under the key's name, without event time, which `resume` gives again.
    """

    def __init__(self, name: str, options: WindowedOptions, measure: Measure, records: pa.Schema) -> None:
        self._name = name
        self._measure = measure
        self._windows = options.window.open()
        self._by = options.by
        if self._by is not None:
            check_text_column(f"step {name!r}, `by`", self._by, records, "keys")
        self._emit: Emit | None = options.emit
        self._max_open = options.max_open
        self._no_records = no_records(records)
        label = pa.field("_window", self._windows.label)
        key = [pa.field(self._by, pa.string())] if self._by is not None else []
        emission = [pa.field("_emission", pa.int64()), pa.field("_final", pa.bool_())] if self._emit is not None else []
        self._made = pa.schema([label, *key, *measure.columns, *emission])
        self._no_rows = no_records(self._made)
        self._late = late_schema(records, self._windows.label)
        self._rejects = rejects_schema(records)
        self._forgotten: set[str] = set()
        """The keys that were forgotten since the last save."""
        self._interval: int | None = None
        """The interval of the watermark, for early rows."""
        self.restore({})

    @property
    def traits(self) -> Traits:
        windows, ends = self._windows, self._windows.ends
        return Traits(
            Scope.GLOBAL if self._by is None else Scope.KEYED,
            ordered=windows.ordered or self._measure.ordered,
            ends=ends if self._emit is None else ends | {"time"},
            key=self._by,
            held_back=windows.lateness,
        )

    @property
    def outputs(self) -> Sequence[Output]:
        measure = self._measure
        key = [self._by] if self._by is not None else []
        emission = ["_emission"] if self._emit is not None else []
        made = Output(measure.output, self._made, of="window", key=(*key, *measure.identity, *emission))
        by_time = "time" in self._windows.ends
        late = [Output("late", self._late)] if by_time else []
        rejects = [Output("rejects", self._rejects)] if by_time or self._by is not None else []
        return [made, *late, *rejects]

    def process(self, records: pa.Table) -> Result:
        if not records.num_rows:
            return self._result(records, [], [], {})
        codes = self._codes(records)
        touched = [0] if self._by is None else np.unique(codes[codes >= 0]).tolist()
        assigned = self._windows.assign(records, codes, self._keys.memories)
        self._move(assigned.moves)
        read = self._measure.read(records)
        cells = self._panes(assigned.cells)
        self._measure.add(read, assigned.rows, assigned.cell_of, cells)
        for (code, pane), contents in zip(assigned.cells, cells, strict=True):
            if not contents:  # records without a topic do not make a window
                self._drop(self._keys[code], pane)
        self._keys.dirty[touched] = True
        made: list[_Made] = []
        if "all" in self._windows.ends:
            made = [each for code in touched for each in self._close(code)]
        self._settle(touched)
        self._check_limit()
        outputs: dict[str, pa.Table] = {}
        if len(assigned.late):
            topics = self._measure.topics(read, assigned.late)
            labels = self._windows.labels(assigned.missed.tolist())
            outputs["late"] = late_rows(records, assigned.late, topics, labels)
        reasons = dict.fromkeys(assigned.untimed.tolist(), "no time")
        reasons |= dict.fromkeys(np.flatnonzero(codes < 0).tolist(), f"no {self._by}")
        if reasons:
            rejected = sorted(reasons)
            outputs["rejects"] = reject_rows(self._name, records, rejected, [reasons[row] for row in rejected])
        all_times = records[TIME].combine_chunks() if made else []
        times = [all_times[each.place].as_py() for each in made]  # each window closes with its last record
        return self._result(records, made, times, outputs)

    def ended(self, substream: Any) -> Result:
        if not isinstance(substream, Watermark):
            return Result(self._no_records)
        self._windows.ended(substream)
        codes = self._keys.due(substream.time)
        made: list[_Made] = []
        for code in codes:
            self._move(self._windows.release(code, self._keys[code].memory))
            made += self._close(code, no_more=substream.time is None)
        self._keys.dirty[codes] = True
        self._interval = self._interval_of(substream)
        if self._interval is not None:
            made += self._early_rows(self._interval)
        self._settle(codes)
        by_time = "time" in self._windows.ends
        times = [clipped(each.place - 1) if by_time else None for each in made]
        return self._result(self._no_records, made, times, {})

    def resume(self, watermark: Watermark) -> None:
        if self._by is not None:  # without keys, event time is in the state
            self._windows.ended(watermark)
            self._interval = self._interval_of(watermark)

    def save(self) -> State:
        if self._by is None:
            return {self._measure.name: _written(self._saved(self._keys[0], self._windows.save()))}
        for name in self._forgotten:
            self._store.put(name, None)
        self._forgotten.clear()
        for code in np.flatnonzero(self._keys.dirty).tolist():
            key = self._keys[code]
            self._store.put(key.name, _written(self._saved(key, {})))
        self._keys.dirty[:] = False
        return self._store.snapshot()

    def restore(self, state: State) -> None:
        self._keys = Keys()
        self._store = KeyedStore()
        self._forgotten.clear()
        self._interval = None
        self._open = 0
        if self._by is None:
            saved = json.loads(bytes(state[self._measure.name])) if state else {}
            self._windows.restore(saved.get("windows", {}))
            self._interval = saved.get("interval")
            self._restore_key(_WHOLE, saved)
            return
        self._windows.restore({})
        self._store.restore(state)
        for name, content in (state.to_dict() if isinstance(state, KeyedSnapshot) else state).items():
            self._restore_key(name, json.loads(bytes(content)))
        self._keys.dirty[:] = False

    def _interval_of(self, watermark: Watermark) -> int | None:
        return None if self._emit is None else self._emit.interval(watermark.time)

    def _codes(self, records: pa.Table) -> Array:
        """The code of each record's key, -1 without a key."""
        if self._by is None:
            return np.zeros(records.num_rows, np.int64)
        return self._keys.codes(plain_texts(records[self._by]), self._new_key)

    def _new_key(self, name: str) -> Key:
        self._forgotten.discard(name)
        return Key(name, self._windows.memory())

    def _panes(self, cells: Sequence[tuple[int, int]]) -> list[Any]:
        """The contents of these panes, which change."""
        found = []
        for code, pane in cells:
            key = self._keys[code]
            if self._emit is not None:
                self._note_change(key, pane)
            if key.sum is not None:
                key.sum.change(pane)
            contents = key.panes.get(pane)
            if contents is None:
                contents = key.panes[pane] = self._measure.contents()
                self._open += 1
            found.append(contents)
        return found

    def _move(self, moves: Iterable[Move]) -> None:
        for code, pane, into in moves:
            key = self._keys[code]
            contents = self._drop(key, pane)
            if into is not None and contents:
                self._open += into not in key.panes
                before = [key.panes[into]] if into in key.panes else []
                key.panes[into] = self._measure.merge([*before, contents])
                if key.emissions is not None and pane in key.emissions:
                    key.emissions[into] = max(key.emissions.get(into, 0), key.emissions.pop(pane))
                if self._emit is not None:
                    self._note_change(key, into)

    def _drop(self, key: Key, pane: int) -> Any:
        """Remove a pane, and return its contents; None if it has none."""
        self._open -= pane in key.panes
        if key.changed is not None:
            key.changed.discard(pane)
        contents = key.panes.pop(pane, None)
        if key.sum is not None and contents is not None:
            key.sum.drop(pane, contents)
        return contents

    def _note_change(self, key: Key, pane: int) -> None:
        if not key.changed:
            key.changed, key.since = set(), self._interval
        key.changed.add(pane)

    def _close(self, code: int, *, no_more: bool = False) -> list[_Made]:
        """Close the windows of a key that have ended, and return their rows. `no_more`: no window follows."""
        key, measure = self._keys[code], self._measure
        closed = self._windows.close(code, key.memory, key.panes)
        made: list[_Made] = []
        if closed.windows and key.past is None:
            key.past = measure.past()
        for window in closed.windows:
            follower = measure.follower(key.past)
            if follower is not None and follower < window.number:
                made.append(self._final(key, self._windows.window(code, follower)))
            made.append(self._final(key, window))
        if key.past is None:
            pass
        elif no_more:
            measure.end(key.past)
        elif (follower := measure.follower(key.past)) is not None and self._windows.has_closed(key.memory, follower):
            made.append(self._final(key, self._windows.window(code, follower)))
        for pane in closed.panes:
            self._drop(key, pane)
        return made

    def _final(self, key: Key, window: Window) -> _Made:
        if window.first < window.last and self._measure.subtracts:
            key.sum = key.sum or PaneSum(self._measure)
            contents = key.sum.of(window, key.panes)
        else:
            contents = self._contents(key, window)
        rows = self._measure.rows(key.past, window.number, contents)
        emission = key.emissions.pop(window.number, 0) if key.emissions is not None else 0
        return _Made(window.place, key.name, window.number, rows, emission, True)

    def _early_rows(self, interval: int) -> list[_Made]:
        """The rows of the open windows that changed, of the keys whose first change was in an earlier interval."""
        made: list[_Made] = []
        for code in self._keys.used():
            key = self._keys[code]
            if not key.changed or key.since == interval:
                continue
            past = self._measure.past() if key.past is None else key.past
            emissions = key.emissions = key.emissions or {}
            for window in self._windows.open(key.memory, key.changed):
                rows = self._measure.early_rows(past, window.number, self._contents(key, window))
                emission = emissions.get(window.number, 0)
                if rows:
                    emissions[window.number] = emission + 1
                    made.append(_Made(window.place, key.name, window.number, rows, emission, False))
            key.changed = None
            self._keys.dirty[code] = True
        return made

    def _contents(self, key: Key, window: Window) -> Any:
        """The contents of a window, all its panes together."""
        if window.first == window.last:
            found = [key.panes[window.first]] if window.first in key.panes else []
        else:
            found = [key.panes[pane] for pane in sorted(key.panes) if window.first <= pane <= window.last]
        return found[0] if len(found) == 1 else self._measure.merge(found)

    def _settle(self, codes: Collection[int]) -> None:
        """Forget the keys of which nothing is needed any more; note when something happens to the others."""
        windows, measure = self._windows, self._measure
        due: list[int] = []
        kept: list[int] = []
        for code in codes:
            key = self._keys[code]
            if key.past is not None and not measure.is_needed(key.past):
                key.past = None
            if self._by is not None and key.past is None and not key.panes and not windows.is_needed(key.memory):
                self._keys.forget(code)
                self._forgotten.add(key.name)
                continue
            time = windows.due(key.memory, key.panes)
            if key.past is not None and (follower := measure.follower(key.past)) is not None:
                time = min(time, windows.window(code, follower).place + windows.lateness)
            kept.append(code)
            due.append(time)
        self._keys.set_due(kept, due)

    def _check_limit(self) -> None:
        for number, what in ((self._open, "open windows, panes included"), (len(self._keys), "keys")):
            if number > self._max_open:
                message = (
                    f"step {self._name!r} has {number:,} {what}, and `max_open` allows {self._max_open:,}; "
                    "make the windows longer, the lateness shorter, the keys fewer, or `max_open` greater"
                )
                raise StepFailed(message)

    def _result(
        self, records: pa.Table, made: list[_Made], times: Sequence[int | None], outputs: Mapping[str, pa.Table]
    ) -> Result:
        """The result with the rows of these windows, whose times are `times`."""
        output = self._measure.output
        order = sorted((index for index, each in enumerate(made) if each.rows), key=lambda index: made[index][:3])
        if not order:
            return Result(records, {output: self._no_rows, **outputs}, windows={output: _NO_WINDOWS})
        made = [made[index] for index in order]
        counts = np.array([len(each.rows) for each in made], np.int64)
        numbers = pa.array(np.repeat(np.array([each.number for each in made], np.int64), counts))
        places = pa.array(np.repeat(np.array(order, np.int64), counts))
        windows = WindowRows(numbers, pa.array(times, pa.int64()).take(places))
        return Result(records, {output: self._table(made), **outputs}, windows={output: windows})

    def _table(self, made: Sequence[_Made]) -> pa.Table:
        numbers = [each.number for each in made for _ in each.rows]
        columns: list[Any] = [self._windows.labels(numbers)]
        if self._by is not None:
            columns.append([each.key for each in made for _ in each.rows])
        columns += map(list, zip(*(row for each in made for row in each.rows), strict=True))
        if self._emit is not None:
            columns.append([each.emission for each in made for _ in each.rows])
            columns.append([each.final for each in made for _ in each.rows])
        return pa.table(columns, schema=self._made)

    def _saved(self, key: Key, windows: Mapping[str, Any]) -> dict[str, Any]:
        saved: dict[str, Any] = {
            "windows": {**windows, **self._windows.save_memory(key.memory)},
            "open": [[pane, self._measure.save(key.panes[pane])] for pane in sorted(key.panes)],
            **self._measure.save_past(self._measure.past() if key.past is None else key.past),
        }
        if self._emit is not None:
            saved["changed"] = sorted(key.changed or ())
            saved["since"] = key.since if key.changed else None
            saved["emissions"] = sorted((key.emissions or {}).items())
            if self._by is None:
                saved["interval"] = self._interval
        return saved

    def _restore_key(self, name: str, saved: Mapping[str, Any]) -> None:
        key = self._new_key(name)
        if "windows" in saved:
            key.memory = self._windows.restore_memory(saved["windows"])
        key.past = self._measure.restore_past(saved)
        key.panes = {pane: self._measure.restore(contents) for pane, contents in saved.get("open", [])}
        key.changed = set(saved.get("changed", [])) or None
        key.since = saved.get("since")
        key.emissions = dict(saved.get("emissions", [])) or None
        self._open += len(key.panes)
        code = self._keys.add(key)
        self._settle([code])


def _written(saved: Mapping[str, Any]) -> bytes:
    return json.dumps(saved, ensure_ascii=False, separators=(",", ":")).encode()
