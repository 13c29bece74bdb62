"""How long a server that is away is waited for, and what the user is told meanwhile."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from millstream.errors import MillstreamError

__all__ = ["HURRY_SECONDS", "Patience"]

_LOGGER = logging.getLogger(__name__)

HURRY_SECONDS = 2.0
"""The patience of somebody who only looks, whatever the config says."""
_QUIET_SECONDS = 1.0
"""Shorter troubles, such as a leader that moves, are not worth a word."""
_AGAIN_SECONDS = 10.0


class Patience:
    """Waits up to `seconds` for `whom`: a line when trouble begins, one now and then, one when it is over.

    Who is `stopped` meanwhile waits no longer.

    Several things may be asked of a server at once, each under a name; each has the whole patience.

    >>> patience = Patience("Kafka at HOST:1", 30)
    >>> patience.failed("ends", "connection refused", since=patience.now())
    >>> patience.failed("topics", "connection refused", since=patience.now() - 30, advice="does it run?")
    Traceback (most recent call last):
    ...
    millstream.errors.MillstreamError: Kafka at HOST:1 was waited for in vain for 30 s: connection refused; does it run?
    """

    def __init__(
        self,
        whom: str,
        seconds: float,
        *,
        stopped: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = seconds
        self.now = clock
        self._whom, self._stopped = whom, stopped
        self._lock = threading.Lock()
        self._since: dict[str, float] = {}
        self._began: float | None = None  # when the trouble began that the user has been told of
        self._told = 0.0

    def failed(self, what: str, reason: str, *, since: float, advice: str = "") -> None:
        """A try that began at `since` was in vain; `MillstreamError` once the patience is used up."""
        with self._lock:
            now = self.now()
            since = self._since.setdefault(what, since)
            if now - since >= HURRY_SECONDS and self._stopped():
                del self._since[what]
                raise MillstreamError(f"stopped while waiting for {self._whom}: {reason}")
            if now - since >= self.seconds:
                del self._since[what]
                message = f"{self._whom} was waited for in vain for {self.seconds:g} s: {reason}"
                raise MillstreamError(f"{message}; {advice}" if advice else message)
            if self._began is None and now - since >= _QUIET_SECONDS:
                self._began = since
                self._told = now
                _LOGGER.warning("waiting for %s, up to %.0f s: %s", self._whom, self.seconds, reason)
            elif self._began is not None and now - self._told >= _AGAIN_SECONDS:
                self._told = now
                _LOGGER.warning("still waiting for %s, for %.0f s so far: %s", self._whom, now - self._began, reason)

    def over(self, what: str) -> None:
        """It answered."""
        if not self._since:
            return
        with self._lock:
            self._since.pop(what, None)
            if not self._since and self._began is not None:
                waited = self.now() - self._began
                self._began = None
                _LOGGER.warning("%s answers again, after %.0f s", self._whom, waited)
