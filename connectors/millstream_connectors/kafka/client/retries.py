"""The time limit of retries, and the log messages about a server that is unavailable."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from millstream_connectors.kafka.client.errors import RetryStopped, RetryTimeout

__all__ = ["RetryTimer"]

_LOGGER = logging.getLogger(__name__)

_STOP_SECONDS = 2.0
"""A stop does not interrupt retries before this time: most failures are over sooner."""
_QUIET_SECONDS = 1.0
"""Shorter failures, such as a change of leader, are not logged."""
_REPEAT_SECONDS = 10.0


class RetryTimer:
    """Limits how long requests to `server` are retried, and logs when a failure begins, continues and ends.

    Several kinds of request may fail at the same time, each under its own name; each kind has the whole timeout.

    >>> timer = RetryTimer("Kafka at HOST:1", 30)
    >>> timer.failed("ends", "connection refused", since=timer.now())
    >>> timer.failed("topics", "connection refused", since=timer.now() - 30)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    millstream_connectors...RetryTimeout: gave up waiting for Kafka at HOST:1 after 30 s: connection refused
    """

    def __init__(
        self,
        server: str,
        timeout: float,
        *,
        stopped: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.timeout = timeout
        self.now = clock
        self._server, self._stopped = server, stopped
        self._lock = threading.Lock()
        self._since: dict[str, float] = {}
        self._logged_since: float | None = None  # the start of the failure that has been logged
        self._last_logged = 0.0

    def failed(self, kind: str, reason: str, *, since: float, unreachable: bool = False) -> None:
        """Record that an attempt failed that began at `since`; `RetryTimeout` once the timeout has passed."""
        with self._lock:
            now = self.now()
            since = self._since.setdefault(kind, since)
            if now - since >= self.timeout:
                del self._since[kind]
                message = f"gave up waiting for {self._server} after {self.timeout:g} s: {reason}"
                raise RetryTimeout(message, unreachable=unreachable)
            if self._logged_since is None and now - since >= _QUIET_SECONDS:
                self._logged_since = since
                self._last_logged = now
                _LOGGER.warning("waiting for %s, up to %.0f s: %s", self._server, self.timeout, reason)
            elif self._logged_since is not None and now - self._last_logged >= _REPEAT_SECONDS:
                self._last_logged = now
                waited = now - self._logged_since
                _LOGGER.warning("still waiting for %s, for %.0f s so far: %s", self._server, waited, reason)

    def check_stop(self, kind: str, reason: str) -> None:
        """Raise `RetryStopped` if the caller has stopped and the failure is not a short one."""
        with self._lock:
            if self.now() - self._since.get(kind, self.now()) >= _STOP_SECONDS and self._stopped():
                del self._since[kind]
                raise RetryStopped(f"stopped while waiting for {self._server}: {reason}")

    def succeeded(self, kind: str) -> None:
        """Record that a request of this kind was answered."""
        if not self._since:
            return
        with self._lock:
            self._since.pop(kind, None)
            if not self._since and self._logged_since is not None:
                waited = self.now() - self._logged_since
                self._logged_since = None
                _LOGGER.warning("%s answers again, after %.0f s", self._server, waited)
