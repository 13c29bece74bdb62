"""The open windows of a step with any kind of windows and any measure: Python objects by key and pane."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.steps.contracts import State
from millstream.steps.windowed.early_rows import EarlyRows
from millstream.steps.windowed.key_codes import KeyCodes, write_json
from millstream.steps.windowed.keys import Key
from millstream.steps.windowed.measures import Measure, SubtractableMeasure
from millstream.steps.windowed.open_windows import Added
from millstream.steps.windowed.options import WindowedOptions
from millstream.steps.windowed.rows import MadeRows, RowColumns, WindowOfRows
from millstream.steps.windowed.sums import PaneSum
from millstream.substreams import Watermark
from millstream.substreams.windows import ConsecutiveWindows, Move, OverlappingWindows, WaitingWindows, Window, Windows
from millstream.substreams.windows.contracts import GREATEST, clipped

__all__ = ["PanesByKey"]

_WHOLE = ""
"""The name of the only key of a step without keys."""


class PanesByKey:
    """The windows of each key, with the contents of their panes. A key of which nothing is needed is forgotten.

    The state of a step with keys has an entry for each key, without event time, which `resume` gives again.
    """

    def __init__(self, options: WindowedOptions, windows: Windows, measure: Measure, columns: RowColumns) -> None:
        self._windows, self._measure, self._columns = windows, measure, columns
        self._consecutive = windows if isinstance(windows, ConsecutiveWindows) else None
        self._overlapping = windows if isinstance(windows, OverlappingWindows) else None
        self._waiting = windows if isinstance(windows, WaitingWindows) else None
        self._subtractable = measure if isinstance(measure, SubtractableMeasure) else None
        self._early = None if options.emit is None else EarlyRows(options.emit, windows, measure, self._contents)
        self._codes = KeyCodes() if options.by is not None else None
        self._begin()

    @property
    def open_in_shards(self) -> Array:
        return self._open

    @property
    def keys_in_shards(self) -> Array:
        return self._codes.in_shards if self._codes is not None else np.ones(1, np.int64)

    def add(self, records: pa.Table, read: Any, keys: pa.DictionaryArray | None) -> Added:
        codes, touched = self._codes_of(records, keys)
        assigned = self._windows.assign(records, codes, self._memories)
        self._move(assigned.moves)
        cells = self._panes(assigned.cells)
        self._measure.add(read, assigned.rows, assigned.cell_of, cells)
        for (code, pane), contents in zip(assigned.cells, cells, strict=True):
            if not contents:  # records without a topic do not make a window
                self._drop(self._keys[code], pane)
        made: list[WindowOfRows] = []
        if "all" in self._windows.ends:
            made = [each for code in touched for each in self._close(code)]
        self._settle(touched)
        rows = self._columns.of(made, self._windows.labels, among_records=True)
        return Added(rows, assigned.late, assigned.missed, assigned.untimed)

    def end(self, watermark: Watermark) -> MadeRows:
        self._windows.ended(watermark)
        codes = self._due_at(watermark)
        made: list[WindowOfRows] = []
        for code in codes:
            if self._waiting is not None:
                self._move(self._waiting.release(code, self._keys[code].memory))
            made += self._close(code, no_more=watermark.time is None)
        self._note_changes(codes)
        if self._early is not None:
            self._early.advance(watermark)
            for key, rows in self._early.made(self._keys[code] for code in self._used()):
                self._note_changes([key.code])
                made += rows
        self._settle(codes)
        return self._columns.of(made, self._windows.labels)

    def resume(self, watermark: Watermark) -> None:
        if self._codes is not None:  # without keys, event time is in the state
            self._windows.ended(watermark)
            if self._early is not None:
                self._early.advance(watermark)

    def save(self) -> State:
        if self._codes is not None:
            return self._codes.save(lambda codes: (write_json(self._saved(self._keys[code], {})) for code in codes))
        saved = self._saved(self._keys[0], self._windows.save())
        if self._early is not None:
            saved["interval"] = self._early.interval
        return {self._measure.name: write_json(saved)}

    def restore(self, state: State) -> None:
        if self._codes is not None:
            self._windows.restore({})
            entries = self._codes.restore(state)
            self._begin()
            for code, saved in entries:
                self._restore_key(code, saved)
            return
        self._begin()
        saved = json.loads(bytes(state[self._measure.name])) if state else {}
        self._windows.restore(saved.get("windows", {}))
        if self._early is not None:
            self._early.interval = saved.get("interval")
        self._restore_key(0, saved)

    def _begin(self) -> None:
        self._keys: list[Key] = []
        """The keys by their codes."""
        self._memories: list[Any] = []
        """The memory of each key by its code."""
        self._due = np.zeros(0, np.int64)
        self._open = np.zeros(1 if self._codes is None else self._codes.shards, np.int64)
        if self._early is not None:
            self._early.interval = None
        if self._codes is None:
            self._add_key(0)

    def _add_key(self, code: int) -> Key:
        codes = self._codes
        name, shard = (_WHOLE, 0) if codes is None else (codes.names[code], int(codes.shard[code]))
        key = Key(code, name, shard, self._windows.memory())
        if code == len(self._keys):
            self._keys.append(key)
            self._memories.append(key.memory)
            if code == len(self._due):
                self._due = np.r_[self._due, np.full(max(16, code), GREATEST)]
        else:
            self._keys[code], self._memories[code] = key, key.memory
        self._due[code] = GREATEST
        return key

    def _codes_of(self, records: pa.Table, keys: pa.DictionaryArray | None) -> tuple[Array, list[int]]:
        """The code of each record's key, -1 without a key, and the codes of these keys."""
        if self._codes is None or keys is None:
            return np.zeros(records.num_rows, np.int64), [0]
        codes, new = self._codes.codes(keys)
        for code in sorted(new):
            self._add_key(code)
        return codes, np.unique(codes[codes >= 0]).tolist()

    def _used(self) -> list[int]:
        return [0] if self._codes is None else self._codes.used()

    def _due_at(self, watermark: Watermark) -> list[int]:
        """The codes of the keys to which something may happen at this watermark; all keys at the end of time."""
        if watermark.time is None:
            return self._used()
        found: list[int] = np.flatnonzero(self._due[: len(self._keys)] <= watermark.time).tolist()
        return found

    def _note_changes(self, codes: list[int]) -> None:
        if self._codes is not None:
            self._codes.change(codes)

    def _panes(self, cells: Sequence[tuple[int, int]]) -> list[Any]:
        """The contents of these panes, which change."""
        found = []
        for code, pane in cells:
            key = self._keys[code]
            if self._early is not None:
                self._early.note_change(key, pane)
            if key.sum is not None:
                key.sum.change(pane)
            contents = key.panes.get(pane)
            if contents is None:
                contents = key.panes[pane] = self._measure.contents()
                self._uncount(key)
            found.append(contents)
        return found

    def _move(self, moves: Iterable[Move]) -> None:
        for code, pane, into in moves:
            key = self._keys[code]
            contents = self._drop(key, pane)
            if into is not None and contents:
                self._uncount(key)
                before = [key.panes[into]] if into in key.panes else []
                key.panes[into] = self._measure.merge([*before, contents])
                if self._early is not None:
                    self._early.note_move(key, pane, into)

    def _drop(self, key: Key, pane: int) -> Any:
        """Remove a pane, and return its contents; None if it has none."""
        self._uncount(key)
        if key.changed is not None:
            key.changed.discard(pane)
        contents = key.panes.pop(pane, None)
        if key.sum is not None and contents is not None:
            key.sum.drop(pane, contents)
        return contents

    def _close(self, code: int, *, no_more: bool = False) -> list[WindowOfRows]:
        """Close the windows of a key that have ended, and return their rows. `no_more`: no window follows."""
        key, measure = self._keys[code], self._measure
        self._uncount(key)
        closed = self._windows.close(code, key.memory, key.panes)
        made: list[WindowOfRows] = []
        if closed.windows and key.past is None:
            key.past = measure.past()
        for window in closed.windows:
            follower = self._follower(key)
            if follower is not None and follower.number < window.number:
                made.append(self._final(key, follower))
            made.append(self._final(key, window))
        if key.past is None:
            pass
        elif no_more:
            measure.end(key.past)
        elif (
            self._consecutive is not None
            and (follower := self._follower(key)) is not None
            and self._consecutive.has_closed(key.memory, follower.number)
        ):
            made.append(self._final(key, follower))
        for pane in closed.panes:
            self._drop(key, pane)
        return made

    def _follower(self, key: Key) -> Window | None:
        """The window that makes rows even without contents; None if there is none."""
        number = None if key.past is None else self._measure.follower(key.past)
        return None if number is None or self._consecutive is None else self._consecutive.window(key.code, number)

    def _final(self, key: Key, window: Window) -> WindowOfRows:
        if window.first < window.last and self._subtractable is not None:
            key.sum = key.sum or PaneSum(self._subtractable)
            contents = key.sum.of(window, key.panes)
        else:
            contents = self._contents(key, window)
        rows = self._measure.rows(key.past, window.number, contents)
        emission = key.emissions.pop(window.number, 0) if key.emissions is not None else 0
        return WindowOfRows(window.place, key.name, window.number, window.time, rows, emission, True)

    def _contents(self, key: Key, window: Window) -> Any:
        """The contents of a window, all its panes together."""
        if window.first == window.last:
            found = [key.panes[window.first]] if window.first in key.panes else []
        else:
            found = [key.panes[pane] for pane in sorted(key.panes) if window.first <= pane <= window.last]
        return found[0] if len(found) == 1 else self._measure.merge(found)

    def _settle(self, codes: Collection[int]) -> None:
        """Forget the keys of which nothing is needed any more; count the others, and note when something happens."""
        windows, measure = self._windows, self._measure
        due: list[int] = []
        kept: list[int] = []
        for code in codes:
            key = self._keys[code]
            if key.past is not None and not measure.is_needed(key.past):
                key.past = None
            if self._codes is not None and key.past is None and not key.panes and not windows.is_needed(key.memory):
                self._codes.forget([code])
                self._due[code] = GREATEST
                continue
            self._count(key)
            time = windows.due(key.memory, key.panes)
            if (follower := self._follower(key)) is not None:
                time = min(time, clipped(follower.place + windows.lateness))
            kept.append(code)
            due.append(time)
        self._due[kept] = due

    def _count(self, key: Key) -> None:
        """Count the open windows of a key, of which more rows may be made than there are panes."""
        if not key.held and key.panes:
            held = len(key.panes) if self._overlapping is None else self._overlapping.held(key.memory, key.panes)
            key.held = held
            self._open[key.shard] += held

    def _uncount(self, key: Key) -> None:
        """Take the windows of a key out of the count, because its panes change; `_settle` counts them again."""
        if key.held:
            self._open[key.shard] -= key.held
            key.held = 0

    def _saved(self, key: Key, windows: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "windows": {**windows, **self._windows.save_memory(key.memory)},
            "open": [[pane, self._measure.save(key.panes[pane])] for pane in sorted(key.panes)],
            **self._measure.save_past(self._measure.past() if key.past is None else key.past),
            **(self._early.save(key) if self._early is not None else {}),
        }

    def _restore_key(self, code: int, saved: Mapping[str, Any]) -> None:
        key = self._keys[code] if self._codes is None else self._add_key(code)
        if "windows" in saved:
            key.memory = self._memories[code] = self._windows.restore_memory(saved["windows"])
        key.past = self._measure.restore_past(saved)
        key.panes = {pane: self._measure.restore(contents) for pane, contents in saved.get("open", [])}
        EarlyRows.restore(key, saved)
        self._settle([code])
