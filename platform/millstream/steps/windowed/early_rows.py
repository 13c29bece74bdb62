"""Early rows: those of windows that are still open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from millstream.steps.windowed.keys import Key
from millstream.steps.windowed.measures import Measure
from millstream.steps.windowed.options import Emit
from millstream.steps.windowed.rows import WindowOfRows
from millstream.substreams import Watermark
from millstream.substreams.windows import Window, Windows

__all__ = ["EarlyRows"]


class EarlyRows:
    """Makes the rows of open windows that changed, each time the watermark enters the next interval of `emit`."""

    def __init__(self, emit: Emit, windows: Windows, measure: Measure, contents: Callable[[Key, Window], Any]) -> None:
        self._emit, self._windows, self._measure, self._contents = emit, windows, measure, contents
        self.interval: int | None = None
        """The interval of the watermark."""

    def advance(self, watermark: Watermark) -> None:
        self.interval = self._emit.interval(watermark.time)

    def note_change(self, key: Key, pane: int) -> None:
        if not key.changed:
            key.changed, key.since = set(), self.interval
        key.changed.add(pane)

    def note_move(self, key: Key, pane: int, into: int) -> None:
        """Give the number of emissions of a window to the one that it joins."""
        if key.emissions is not None and pane in key.emissions:
            key.emissions[into] = max(key.emissions.get(into, 0), key.emissions.pop(pane))
        self.note_change(key, into)

    def made(self, keys: Iterable[Key]) -> list[tuple[Key, list[WindowOfRows]]]:
        """The keys whose first change was in an earlier interval, with the rows of their open windows that changed."""
        if self.interval is None:
            return []
        return [(key, self._rows(key)) for key in keys if key.changed and key.since != self.interval]

    def _rows(self, key: Key) -> list[WindowOfRows]:
        made = []
        past = self._measure.past() if key.past is None else key.past
        emissions = key.emissions = key.emissions or {}
        for window in self._windows.open(key.memory, key.changed or ()):
            rows = self._measure.early_rows(past, window.number, self._contents(key, window))
            emission = emissions.get(window.number, 0)
            if rows:
                emissions[window.number] = emission + 1
                made.append(WindowOfRows(window.place, key.name, window.number, window.time, rows, emission, False))
        key.changed = None
        return made

    @staticmethod
    def save(key: Key) -> Mapping[str, Any]:
        return {
            "changed": sorted(key.changed or ()),
            "since": key.since if key.changed else None,
            "emissions": sorted((key.emissions or {}).items()),
        }

    @staticmethod
    def restore(key: Key, saved: Mapping[str, Any]) -> None:
        key.changed = set(saved.get("changed", [])) or None
        key.since = saved.get("since")
        key.emissions = dict(saved.get("emissions", [])) or None
