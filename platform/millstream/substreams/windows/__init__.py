"""Windows: sections of a stream or of a key's records, which close in event time, by count, or by predicates."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from millstream.substreams.windows.contracts import (
    Assignment,
    Closed,
    ConsecutiveWindows,
    Move,
    OverlappingWindows,
    WaitingWindows,
    Window,
    Windows,
)
from millstream.substreams.windows.counts import CountWindow
from millstream.substreams.windows.predicates import PredicateWindow
from millstream.substreams.windows.sessions import SessionWindow
from millstream.substreams.windows.spans import SlidingWindow, TumblingWindow

__all__ = [
    "Assignment",
    "Closed",
    "ConsecutiveWindows",
    "CountWindow",
    "Move",
    "OverlappingWindows",
    "PredicateWindow",
    "SessionWindow",
    "SlidingWindow",
    "TumblingWindow",
    "WaitingWindows",
    "Window",
    "WindowConfig",
    "Windows",
]

WindowConfig = Annotated[
    CountWindow | PredicateWindow | SessionWindow | SlidingWindow | TumblingWindow, Field(discriminator="type")
]
"""The options of windows in a config; their method `open` makes the `Windows`."""
