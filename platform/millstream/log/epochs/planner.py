"""The planner decides at which offsets epochs are cut. All engines use it; it does no I/O and reads no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["MOST_EPOCHS", "MOST_RECORDS", "Planner", "has_room"]

MOST_EPOCHS = 2
"""This number of epochs may always be in flight, however large they are."""
MOST_RECORDS = 100_000
"""More epochs may be in flight as long as they have no more records than this together."""


def has_room(epochs: int, records: int, max_records: int) -> bool:
    """True if another epoch may be cut while `epochs` with `records` are in flight: cut and not yet finished.

    The limit is two epochs; or more, if they have at most 100,000 records together, the next epoch included.

    >>> has_room(1, 500_000, 500_000), has_room(2, 500_000, 500_000), has_room(9, 90_000, 10_000)
    (True, False, True)
    """
    return epochs < MOST_EPOCHS or records + max_records <= MOST_RECORDS


def _shares(available: Mapping[int, int], most: int) -> dict[int, int]:
    """The number of records from each partition for an epoch of at most `most` records.

    Partitions get equal shares. A partition with fewer records leaves the rest of its share to the others.

    >>> _shares({0: 100, 1: 3, 2: 100}, 11)
    {0: 5, 1: 3, 2: 3}
    """
    given = dict.fromkeys(sorted(available), 0)
    left = min(most, sum(available.values()))
    while left:
        open_ranks = [rank for rank in given if given[rank] < available[rank]]
        share, extra = divmod(left, len(open_ranks))
        for index, rank in enumerate(open_ranks):
            more = min(share + (1 if index < extra else 0), available[rank] - given[rank])
            given[rank] += more
            left -= more
    return {rank: count for rank, count in given.items() if count}


@dataclass
class Planner:
    """Cuts an epoch when `max_records` are available, or when records have waited for `max_wait` seconds.

    With a `max_wait` of 0 the planner cuts as soon as one record is available, unless the engine is busy with earlier
    epochs: so epochs are small at a low rate of records, and grow under load.

    `budget` is the number of records that the planner may still cut (`--records`); None: no limit.

    >>> planner = Planner(max_records=100, max_wait=0.1, positions={0: 0})
    >>> planner.plan({0: 250}, now=0.0), planner.plan({0: 250}, now=0.0)
    ({0: (0, 100)}, {0: (100, 200)})
    >>> planner.plan({0: 250}, now=0.05), planner.plan({0: 250}, now=0.16)
    (None, {0: (200, 250)})
    >>> eager = Planner(max_records=100, max_wait=0, positions={0: 0})
    >>> eager.plan({0: 1}, now=0.0), eager.plan({0: 9}, now=0.0, busy=True), eager.plan({0: 9}, now=0.5)
    ({0: (0, 1)}, None, {0: (1, 9)})
    """

    max_records: int
    max_wait: float
    positions: dict[int, int]
    budget: int | None = None
    _waiting_since: float | None = field(default=None, init=False)

    def add(self, rank: int, beginning: int) -> None:
        """Add a partition, or move an existing partition to a later offset."""
        position = self.positions.get(rank, beginning)
        assert beginning >= position, f"partition {rank} goes back from offset {position} to {beginning}"
        self.positions[rank] = beginning

    @property
    def exhausted(self) -> bool:
        return self.budget == 0

    def behind(self, ends: Mapping[int, int]) -> int:
        """The number of available offsets that are not yet cut."""
        return sum(max(0, end - self.positions[rank]) for rank, end in ends.items())

    def plan(
        self, ends: Mapping[int, int], now: float, *, no_more: bool = False, busy: bool = False
    ) -> dict[int, tuple[int, int]] | None:
        """The next cut, or None if it is not yet due.

        `ends`: the current end of each rank. `no_more`: true if the run will cut no record beyond these ends.
        `busy`: true if the engine has `MOST_EPOCHS` or more epochs in flight.
        """
        available = {rank: end - self.positions[rank] for rank, end in ends.items() if end > self.positions[rank]}
        most = self.max_records if self.budget is None else min(self.max_records, self.budget)
        if not available or most == 0:
            self._waiting_since = None
            return None
        if sum(available.values()) < most and not no_more:
            if self._waiting_since is None:
                self._waiting_since = now
            if now - self._waiting_since < self.max_wait or (busy and not self.max_wait):
                return None
        self._waiting_since = None
        cut = {}
        for rank, count in _shares(available, most).items():
            start = self.positions[rank]
            assert count > 0, "a position never goes back"
            cut[rank] = (start, start + count)
            self.positions[rank] = start + count
        if self.budget is not None:
            self.budget -= sum(stop - start for start, stop in cut.values())
        return cut
