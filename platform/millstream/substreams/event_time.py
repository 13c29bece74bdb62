"""Event time: the watermark over all live partitions, which moves only at epoch boundaries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.records import RANK, TIME
from millstream.substreams import Watermark

__all__ = ["EventTime", "latest_times"]


@dataclass
class EventTime:
    """Computes the watermark: the minimum, over live partitions, of the greatest time seen in each partition.

    >>> clock = EventTime()
    >>> clock.join(0)
    >>> clock.observe({0: 50})
    >>> clock.boundary(()), clock.boundary(()), clock.boundary([0])
    (Watermark(time=50), None, Watermark(time=None))
    """

    greatest: dict[int, int | None] = field(default_factory=dict)
    _last: Watermark | None = None
    _joined: bool = False

    def join(self, rank: int) -> None:
        """Add a live partition. The watermark does not move until the partition has a record with a time."""
        self.greatest.setdefault(rank, None)
        self._joined = True

    def leave(self, ranks: Iterable[int]) -> None:
        """Remove partitions that have ended."""
        for rank in ranks:
            self.greatest.pop(rank, None)

    def observe(self, latest: Mapping[int, int | None]) -> None:
        """Take the greatest time of each partition of an epoch."""
        for rank, seen in latest.items():
            before = self.greatest.get(rank)
            if seen is not None and rank in self.greatest and (before is None or seen > before):
                self.greatest[rank] = seen

    def boundary(self, ended: Iterable[int]) -> Watermark | None:
        """End an epoch, with which these partitions have ended. Return the watermark if it has risen, else None."""
        self.leave(ended)
        if not self.greatest:
            now = Watermark(None) if self._joined else None
        else:
            times = [time for time in self.greatest.values() if time is not None]
            now = Watermark(min(times)) if len(times) == len(self.greatest) else None
        if now is None or now == self._last:
            return None
        if self._last is not None and now.time is not None and (self._last.time is None or now.time < self._last.time):
            return None
        self._last = now
        return now

    def save(self) -> bytes:
        last = None if self._last is None else [self._last.time]
        return json.dumps(
            {"greatest": {str(r): t for r, t in self.greatest.items()}, "watermark": last, "joined": self._joined}
        ).encode()

    @staticmethod
    def restore(saved: bytes) -> EventTime:
        state = json.loads(saved)
        last = None if state["watermark"] is None else Watermark(state["watermark"][0])
        return EventTime({int(rank): time for rank, time in state["greatest"].items()}, last, state["joined"])


def latest_times(records: pa.Table) -> dict[int, int | None]:
    """Return the greatest time of each partition of these records; None if no record of the partition has a time.

    >>> latest_times(pa.table({"_rank": [0, 1, 0], "_time": [50, 20, None]}))
    {0: 50, 1: 20}
    """
    ranks = records[RANK].to_numpy()
    present = np.unique(ranks).tolist()
    if len(present) == 1:
        return {present[0]: pc.max(records[TIME]).as_py()}
    return {rank: pc.max(records[TIME].filter(pa.array(ranks == rank))).as_py() for rank in present}
