"""Signals that stop a run: SIGINT (Ctrl-C) and SIGTERM."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from millstream.runs.termination import kill_descendants

__all__ = ["StopSignals"]

_CLOSE_SECONDS = 1.0


class _StopEvent(threading.Event):
    """An event that a signal handler may set while it interrupts a thread that waits for the event.

    `threading.Event.wait` holds the event's lock for a moment. With the usual lock, a handler that interrupts the
    thread at this moment would wait for its own thread; a reentrant lock prevents this.
    """

    def __init__(self) -> None:
        super().__init__()
        self._cond = threading.Condition(threading.RLock())


class StopSignals:
    """Sets `event` at the first SIGINT or SIGTERM; a second SIGINT prints the reason to wait, a third exits at once.

    The handler calls all functions that are passed in. `close` gets the number of seconds it may take to show messages.
    """

    def __init__(
        self, say: Callable[[str], None], waits_for: Callable[[], str], close: Callable[[float], None]
    ) -> None:
        self.event: threading.Event = _StopEvent()
        self._say, self._waits_for, self._close = say, waits_for, close
        self._interrupts = 0

    @contextmanager
    def install(self) -> Iterator[None]:
        """Install the handlers, in the main thread and before Spark starts, because PySpark keeps existing handlers."""
        before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first = not self.event.is_set()
        self.event.set()
        if number == signal.SIGINT:
            self._interrupts += 1
        if first:
            self._say("stopping after the epoch in progress")
        elif number == signal.SIGINT and self._interrupts < 3:
            self._say(
                f"waiting {self._waits_for()}; press Ctrl-C again to exit at once, "
                "and the next start continues from the newest checkpoint"
            )
        if self._interrupts >= 3:
            self._say("exiting at once")
            self._close(_CLOSE_SECONDS)
            kill_descendants()
            os._exit(130)
