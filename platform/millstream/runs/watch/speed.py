"""The present speed of a run."""

from __future__ import annotations

from collections import deque

__all__ = ["Speed", "per_second"]

_SECONDS = 5.0


def per_second(records: int, seconds: float) -> float | None:
    """Records per second; None if no time has passed."""
    return records / seconds if seconds > 0 else None


class Speed:
    """Records per second over the last five seconds, or over the last two samples if these are further apart.

    >>> speed = Speed()
    >>> speed.sample(0.0, 0), speed.sample(1.0, 500), speed.sample(2.0, 1000)
    (None, None, None)
    >>> speed.at(2.0), speed.at(4.0), speed.at(60.0)
    (500.0, 250.0, 0.0)
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def sample(self, now: float, records: int) -> None:
        """Add a sample: the time `now`, and the number of records processed so far."""
        self._samples.append((now, records))
        while len(self._samples) > 2 and self._samples[0][0] < now - _SECONDS:
            self._samples.popleft()

    def at(self, now: float) -> float | None:
        if len(self._samples) < 2:
            return None
        (began, before), (last, after) = self._samples[0], self._samples[-1]
        if now - last > max(_SECONDS, 2 * (last - began)):
            return 0.0
        return per_second(after - before, now - began)
