"""Substreams: sets of records given by a predicate, whose end closes windows."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Watermark"]


@dataclass(frozen=True)
class Watermark:
    """The end of all records with a time less than `time`, in microseconds; None if every partition has ended."""

    time: int | None
