"""Converts between times as microseconds since 1970 in UTC and times of the standard library."""

from __future__ import annotations

import time as clocks
from datetime import UTC, datetime, timedelta

__all__ = ["format_time", "in_utc", "micros_of", "wall_clock"]

_1970 = datetime(1970, 1, 1, tzinfo=UTC)


def in_utc(time: datetime) -> datetime:
    """The same time in UTC. A time without a zone counts as UTC.

    >>> in_utc(datetime.fromisoformat("2022-02-08T16:08:31+02:00")).isoformat()
    '2022-02-08T14:08:31+00:00'
    """
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def micros_of(time: datetime) -> int:
    """The microseconds since 1970 of a time that has a zone.

    >>> micros_of(datetime(1970, 1, 2, tzinfo=UTC))
    86400000000
    """
    return (time - _1970) // timedelta(microseconds=1)


def format_time(micros: int) -> str:
    """A time as text for users, in ISO 8601.

    >>> format_time(1_644_336_511_000_000)
    '2022-02-08T16:08:31Z'
    """
    return (_1970 + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")


def wall_clock() -> int:
    """The present time by the clock of this machine, in microseconds since 1970."""
    return clocks.time_ns() // 1000
