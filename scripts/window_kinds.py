"""The picture of the kinds of windows: each kind's own code assigns the same records to windows and closes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter

from millstream.substreams import Watermark
from millstream.substreams.windows import WaitingWindows, WindowConfig

RECORDS = {"a": 1, "b": 3, "c": 7, "d": 16, "e": 18, "f": 24, "g": 27}
"""The records and their times in seconds."""
KINDS: Mapping[str, dict[str, Any]] = {
    "size: 10s": {"type": "tumbling", "size": "10s"},
    "size: 10s, slide: 5s": {"type": "sliding", "size": "10s", "slide": "5s"},
    "gap: 6s": {"type": "session", "gap": "6s"},
    "size: 2": {"type": "count", "size": 2},
    "begins: with b, ends: with d": {
        "type": "predicate",
        "begins": "scripts.window_kinds:is_b",
        "ends": "scripts.window_kinds:is_d",
    },
}
"""The options shown, by the words for them."""
_SECOND = 1_000_000
_LEFT, _SCALE, _LANE, _BAR = 250, 15, 30, 22
_FIRST, _LAST = -5, 35
"""The seconds of event time in the picture."""
_COLOURS = ("#cfe3f5", "#f9dcc4", "#cfeadf")


class Drawn(NamedTuple):
    """A window in seconds, and the records in it. From `silence` on, the window only waits for more."""

    start: float
    silence: float
    end: float
    records: str


def is_b(record: Mapping[str, Any]) -> bool:
    return bool(record["name"] == "b")


def is_d(record: Mapping[str, Any]) -> bool:
    return bool(record["name"] == "d")


def windows_of(options: Mapping[str, Any]) -> list[Drawn]:
    """The windows of the records, as this kind of windows closes them when all sources have ended.

    >>> [(drawn.start, drawn.end, drawn.records) for drawn in windows_of({"type": "count", "size": 4})]
    [(1.0, 16.0, 'abcd'), (18.0, 27.0, 'efg')]
    """
    config: Any = TypeAdapter(WindowConfig).validate_python(options)
    windows = config.open()
    memory = windows.memory()
    records = pa.table(
        {
            "_rank": [0] * len(RECORDS),
            "_offset": range(len(RECORDS)),
            "_time": [time * _SECOND for time in RECORDS.values()],
            "name": [*RECORDS],
        }
    )
    assigned = windows.assign(records, np.zeros(len(RECORDS), np.int64), [memory])
    panes: dict[int, str] = {}
    for row, cell in zip(assigned.rows.tolist(), assigned.cell_of.tolist(), strict=True):
        pane = assigned.cells[cell][1]
        panes[pane] = panes.get(pane, "") + [*RECORDS][row]
    full = windows.close(0, memory, panes)  # windows that count records close among them
    windows.ended(Watermark(None))
    moves = windows.release(0, memory) if isinstance(windows, WaitingWindows) else ()
    for _, pane, into in moves:
        names = panes.pop(pane)
        if into is not None:
            panes[into] = panes.get(into, "") + names
    left = windows.close(0, memory, panes.keys() - set(full.panes))
    drawn = []
    for window in (*full.windows, *left.windows):
        names = "".join(panes[pane] for pane in sorted(panes) if window.first <= pane <= window.last)
        times = [RECORDS[name] for name in names]
        whole = config.type in ("tumbling", "sliding")
        start = windows.labels([window.number]).cast(pa.int64())[0].as_py() / _SECOND if whole else float(times[0])
        waits = whole or config.type == "session"
        end = window.place / _SECOND if waits else float(times[-1])
        drawn.append(Drawn(start, end if whole else float(times[-1]), end, names))
    return drawn


def picture() -> str:
    """The picture as SVG."""
    lanes: list[tuple[str, str, list[list[Drawn]]]] = []
    for words, options in KINDS.items():
        rows: list[list[Drawn]] = []
        for drawn in windows_of(options):
            row = next((row for row in rows if row[-1].end <= drawn.start), None)
            if row is None:
                rows.append(row := [])
            row.append(drawn)
        lanes.append((options["type"], words, rows))
    width, height = _x(_LAST) + 20, 60 + sum(_LANE * len(rows) + 14 for _, _, rows in lanes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" font-family="Menlo, Consolas, monospace" font-size="12">',
        "<title>The kinds of windows</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        _text(16, 28, "records, by event time"),
    ]
    for second in range(_FIRST, _LAST + 1, 5):
        parts.append(f'<path d="M{_x(second):.0f},40 V{height - 8}" stroke="#e8e8e8"/>')
        parts.append(_text(_x(second), height - 10, f"{second}s", "middle", "#6b6b6b"))
    parts += [_record(name, time, 24) for name, time in RECORDS.items()]
    top = 46
    for kind, words, rows in lanes:
        parts += [_text(16, top + 10, kind, weight="bold"), _text(16, top + 25, words, fill="#6b6b6b")]
        for number, row in enumerate(rows):
            y = top + _LANE * number
            for index, drawn in enumerate(row):
                parts += _window(drawn, y, _COLOURS[index % 2])
        top += _LANE * len(rows) + 14
    return "\n".join([*parts, "</svg>"]) + "\n"


def _window(drawn: Drawn, y: int, colour: str) -> list[str]:
    left, right = _x(drawn.start), _x(drawn.end)
    pad = 0 if drawn.silence == drawn.end and drawn.end - drawn.start == 10 else 9
    parts = []
    if drawn.silence < drawn.end:
        parts.append(_bar(left - pad, right, y, "#ffffff", 'stroke-dasharray="3,3"'))
        right = _x(drawn.silence)
    parts.append(_bar(left - pad, right + pad, y, colour, ""))
    return [*parts, *(_record(name, RECORDS[name], y + _BAR / 2) for name in drawn.records)]


def _bar(left: float, right: float, y: float, fill: str, style: str) -> str:
    return (
        f'<rect x="{left + 1:.0f}" y="{y}" width="{right - left - 2:.0f}" height="{_BAR}" rx="4" '
        f'fill="{fill}" stroke="#8a8a8a" {style}/>'
    )


def _record(name: str, time: float, y: float) -> str:
    return _text(_x(time), y + 4, name, "middle", weight="bold")


def _text(x: float, y: float, text: str, anchor: str = "start", fill: str = "#1f1f1f", weight: str = "normal") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{fill}" font-weight="{weight}">{text}</text>'


def _x(second: float) -> float:
    return _LEFT + (second - _FIRST) * _SCALE
