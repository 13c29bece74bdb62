"""Log lines for programs and for service managers: time, level, pipeline, epoch and message, as text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from millstream.plain_text import one_line
from millstream.timestamps import format_time, wall_clock

__all__ = ["Level", "LogForm", "LogLines", "display_line"]


class Level(StrEnum):
    """The importance of a message."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogForm(StrEnum):
    """The form of log lines: text, or a JSON object a line."""

    TEXT = "text"
    JSON = "json"


def display_line(level: Level, message: str) -> str:
    """A message as people see it without `--log`.

    >>> display_line(Level.WARNING, "no room")
    'warning: no room'
    """
    return f"{level}: {message}" if level in (Level.WARNING, Level.ERROR) else message


@dataclass
class LogLines:
    """Makes log lines; `epoch` is the last finished epoch of this start, if there is one.

    >>> lines = LogLines(LogForm.TEXT, "news", clock=lambda: 1_700_000_000_123_456)
    >>> lines.line(Level.INFO, "starting")
    '2023-11-14T22:13:20.123Z info news - starting'
    >>> LogLines(LogForm.JSON, "news", 7, clock=lambda: 0).line(Level.ERROR, "no room")
    '{"time": "1970-01-01T00:00:00.000Z", "level": "error", "pipeline": "news", "epoch": 7, "message": "no room"}'
    """

    form: LogForm
    pipeline: str | None
    epoch: int | None = None
    clock: Callable[[], int] = wall_clock

    def line(self, level: Level, message: str) -> str:
        time = _time(self.clock())
        if self.form is LogForm.JSON:
            fields = {"time": time, "level": level, "pipeline": self.pipeline, "epoch": self.epoch, "message": message}
            return json.dumps(fields)
        epoch = "-" if self.epoch is None else self.epoch
        return one_line(f"{time} {level} {self.pipeline or '-'} {epoch} {message}")


def _time(micros: int) -> str:
    seconds, rest = divmod(micros, 1_000_000)
    return f"{format_time(seconds * 1_000_000).removesuffix('Z')}.{rest // 1000:03d}Z"
