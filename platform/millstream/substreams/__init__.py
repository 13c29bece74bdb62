"""Substreams: sets of records given by a predicate, and what ends them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Before"]


@dataclass(frozen=True)
class Before:
    """The records with a time less than `time` (microseconds); `time` is None once every partition has ended."""

    time: int | None
