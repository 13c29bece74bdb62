"""How a run is asked to end: Ctrl-C and SIGTERM."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from millstream.runs.termination import kill_descendants

__all__ = ["Stopping"]

_LAST_WORDS_SECONDS = 1.0


class _Asked(threading.Event):
    """An event that a signal handler may set while it interrupts its own thread in the midst of a wait for it.

    The lock of Python's own is held for a moment there, by that very thread, which would then wait for itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self._cond = threading.Condition(threading.RLock())


class Stopping:
    """Sets `event` at the first SIGINT or SIGTERM; a second SIGINT is told what is waited for, a third gives up.

    All that is given is called inside a signal handler; `close` has so many seconds for what was said to be shown.
    """

    def __init__(
        self, say: Callable[[str], None], waits_for: Callable[[], str], close: Callable[[float], None]
    ) -> None:
        self.event: threading.Event = _Asked()
        self._say, self._waits_for, self._close = say, waits_for, close
        self._interrupts = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """In the main thread, before Spark starts: PySpark leaves alone what is not installed from its own thread."""
        before = {number: signal.signal(number, self._asked) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        first = not self.event.is_set()
        self.event.set()
        if number == signal.SIGINT:
            self._interrupts += 1
        if first:
            self._say("stopping after the epoch in hand")
        elif number == signal.SIGINT and self._interrupts < 3:
            self._say(
                f"waiting {self._waits_for()}; Ctrl-C once more gives up at once, "
                "and the next start goes on from the last checkpoint"
            )
        if self._interrupts >= 3:
            self._say("gave up")
            self._close(_LAST_WORDS_SECONDS)
            kill_descendants()
            os._exit(130)
