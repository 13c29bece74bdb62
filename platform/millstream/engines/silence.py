"""The silence of partitions: for how long each has been read to its end and has had no new record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["Silence"]


@dataclass
class Silence:
    """Measures silences from one look at the ends of the logs to the next.

    `limit_of` returns the silence, in microseconds, after which a partition is idle; None: never. The time between two
    looks counts for at most half of this limit. So after a time without a look, as on a machine that was suspended, no
    partition is idle before its end was looked at again. A partition that a look leaves out, because its end is out of
    date, is not silent until the next look.

    >>> silence = Silence(lambda rank: 60_000_000)
    >>> for now, unread in ((0.0, False), (40.0, True), (80.0, False)):
    ...     silence.look(now, {0: False, 1: unread})
    >>> silence.is_over_limit(0), silence.is_over_limit(1)
    (True, False)
    """

    limit_of: Callable[[int], int | None]
    interval: float = 0.0
    """The time between two looks, in seconds."""
    _micros: dict[int, float] = field(default_factory=dict, init=False)
    _looked_at: float | None = field(default=None, init=False)

    def is_look_due(self, now: float) -> bool:
        """True if the last look is so long ago that the next one is due."""
        return self._looked_at is None or now - self._looked_at >= self.interval

    def look(self, now: float, unread: Mapping[int, bool]) -> None:
        """Take a look at the time `now`, in seconds: `unread` is true for partitions with records that are not cut."""
        gap = 0.0 if self._looked_at is None else (now - self._looked_at) * 1e6
        self._looked_at = now
        for rank, has_more in unread.items():
            limit = self.limit_of(rank)
            if has_more or limit is None or rank not in self._micros:
                self._micros[rank] = 0.0
            else:
                self._micros[rank] += min(gap, limit / 2)

    def interrupt(self, now: float, ranks: Iterable[int]) -> None:
        """Begin a new silence of partitions at the time `now`, because they had records since the last look."""
        since_look = 0.0 if self._looked_at is None else (now - self._looked_at) * 1e6
        self._micros.update(dict.fromkeys(ranks, -since_look))

    def is_over_limit(self, rank: int) -> bool:
        """True if the partition has been silent for its limit."""
        limit = self.limit_of(rank)
        return limit is not None and self._micros.get(rank, 0.0) >= limit
