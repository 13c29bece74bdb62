"""Substreams: sets of records given by a predicate, whose end closes windows."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Watermark"]


@dataclass(frozen=True)
class Watermark:
    """The end of all records with a time less than `time`, in microseconds; None if every partition has ended.

    >>> Watermark(50).held_back(20), Watermark(None).held_back(20)
    (Watermark(time=30), Watermark(time=None))
    """

    time: int | None

    def held_back(self, micros: int) -> Watermark:
        """The watermark of rows that are made up to this long after their time."""
        return self if self.time is None or not micros else Watermark(self.time - micros)
