"""The checkpoints that are kept: the newest three, one an hour for a day, one a day for longer."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["DAY", "HOUR", "kept"]

HOUR = 3_600_000_000
DAY = 24 * HOUR
_NEWEST = 3
"""The number of checkpoints that are kept in any case, because a sink may have lost its last appends."""


def kept(times: Mapping[int, int], now: int, keep: int | None) -> set[int]:
    """The numbers of the checkpoints to keep, of those with these times in microseconds.

    The first checkpoint of each hour is kept for a day, and the first one of each day for `keep` (None: without end).
    So a checkpoint that is kept now is still kept after others have come, until it is too old.

    >>> sorted(kept({number: number * HOUR // 4 for number in range(12)}, 3 * HOUR, keep=DAY))
    [0, 4, 8, 9, 10, 11]
    >>> sorted(kept({number: number * DAY // 2 for number in range(12)}, 6 * DAY, keep=3 * DAY))
    [6, 8, 9, 10, 11]
    """
    newest = set(sorted(times)[-_NEWEST:])
    hourly = _first_of_each(HOUR, {number: at for number, at in times.items() if now - at <= DAY})
    daily = _first_of_each(DAY, {number: at for number, at in times.items() if keep is None or now - at <= keep})
    return newest | hourly | daily


def _first_of_each(period: int, times: Mapping[int, int]) -> set[int]:
    first: dict[int, int] = {}
    for number in sorted(times):
        first.setdefault(times[number] // period, number)
    return set(first.values())
