"""Backpressure: a limit on the epochs and records that are cut and not yet finished."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from millstream.log.epochs import Epoch, has_room

__all__ = ["Backpressure"]


class Backpressure:
    """Counts the epochs and records that are cut and not yet finished, and their age; safe between threads."""

    def __init__(self, max_records: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_records, self._clock = max_records, clock
        self._open: dict[int, int] = {}
        """Sizes by epoch, in order."""
        self._since: dict[int, float] = {}
        """By epoch, the time of its cut. `clear` keeps the time, though the epoch is no longer in flight."""
        self._records = 0
        self._lock = threading.Lock()

    def admit(self, epoch: Epoch) -> None:
        """Add an epoch that is cut, or that a new start repeats."""
        with self._lock:
            self._open[epoch.number] = epoch.size
            self._since.setdefault(epoch.number, self._clock())
            self._records += epoch.size

    def release(self, epoch: int) -> None:
        """Remove the epochs up to this one, which are finished."""
        with self._lock:
            while self._open and (first := next(iter(self._open))) <= epoch:
                self._records -= self._open.pop(first)
                self._since.pop(first, None)

    def clear(self) -> None:
        """Remove all epochs, at a new start."""
        with self._lock:
            self._open.clear()
            self._records = 0

    def has_room(self) -> bool:
        """True while another epoch may be cut."""
        with self._lock:
            return has_room(len(self._open), self._records, self._max_records)

    @property
    def first(self) -> int | None:
        """The first epoch in flight."""
        with self._lock:
            return next(iter(self._open), None)

    @property
    def in_flight(self) -> int:
        """The number of epochs that are cut and not yet finished."""
        return len(self._open)

    def age(self, epoch: int) -> float | None:
        """The seconds since an unfinished epoch was first added; None for any other epoch."""
        with self._lock:
            return self._clock() - self._since[epoch] if epoch in self._since else None
