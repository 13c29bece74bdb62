"""How fast records flow just now."""

from __future__ import annotations

from collections import deque

__all__ = ["Speed", "per_second"]

_SECONDS = 5.0


def per_second(records: int, seconds: float) -> float | None:
    """Records a second; None if no time has passed."""
    return records / seconds if seconds > 0 else None


class Speed:
    """Records a second of late: over some seconds, or over the last epochs where those take longer.

    >>> speed = Speed()
    >>> speed.mark(0.0, 0), speed.mark(1.0, 500), speed.mark(2.0, 1000)
    (None, None, None)
    >>> speed.at(2.0), speed.at(4.0), speed.at(60.0)
    (500.0, 250.0, 0.0)
    """

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()

    def mark(self, now: float, records: int) -> None:
        """So many records are through now, in all."""
        self._marks.append((now, records))
        while len(self._marks) > 2 and self._marks[0][0] < now - _SECONDS:
            self._marks.popleft()

    def at(self, now: float) -> float | None:
        if len(self._marks) < 2:
            return None
        (began, before), (last, after) = self._marks[0], self._marks[-1]
        if now - last > max(_SECONDS, 2 * (last - began)):
            return 0.0
        return per_second(after - before, now - began)
