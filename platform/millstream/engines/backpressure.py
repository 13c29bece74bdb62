"""Backpressure: a limit on the epochs and records that are cut and not yet finished."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from millstream.log.epochs import Epoch
from millstream.log.epochs.planner import room

__all__ = ["Backpressure"]


class Backpressure:
    """Counts the epochs and records that are cut and not yet finished, and their age; safe between threads."""

    def __init__(self, max_records: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_records, self._clock = max_records, clock
        self._open: dict[int, int] = {}
        """Sizes by epoch, in order."""
        self._since: dict[int, float] = {}
        """By epoch, the time of its cut; kept while `clear` has taken it out of flight."""
        self._records = 0
        self._lock = threading.Lock()

    def admit(self, epoch: Epoch) -> None:
        """An epoch is cut, or taken up again by a new start."""
        with self._lock:
            self._open[epoch.number] = epoch.size
            self._since.setdefault(epoch.number, self._clock())
            self._records += epoch.size

    def release(self, epoch: int) -> None:
        """The epochs up to this one are finished."""
        with self._lock:
            while self._open and (first := next(iter(self._open))) <= epoch:
                self._records -= self._open.pop(first)
                self._since.pop(first, None)

    def clear(self) -> None:
        """A new start: no epoch is in flight."""
        with self._lock:
            self._open.clear()
            self._records = 0

    def room(self) -> bool:
        """True while another epoch may be cut."""
        with self._lock:
            return room(len(self._open), self._records, self._max_records)

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
        """The seconds since an unfinished epoch was cut, or taken up by this start."""
        with self._lock:
            return self._clock() - self._since[epoch] if epoch in self._since else None
