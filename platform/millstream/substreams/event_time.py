"""Event time: how far every live partition has come, moving at epoch edges only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.records import RANK, TIME
from millstream.substreams import Before

__all__ = ["EventTime", "latest_times"]


@dataclass
class EventTime:
    """The least, over live partitions, of the greatest time seen; says which substream of earlier records has ended.

    >>> clock = EventTime()
    >>> clock.join(0)
    >>> clock.observe({0: 50})
    >>> clock.edge(()), clock.edge(()), clock.edge([0])
    (Before(time=50), None, Before(time=None))
    """

    greatest: dict[int, int | None] = field(default_factory=dict)
    _told: Before | None = None
    _joined: bool = False

    def join(self, rank: int) -> None:
        """A partition is live from now on; until it has shown a time, event time stands still."""
        self.greatest.setdefault(rank, None)
        self._joined = True

    def leave(self, ranks: Iterable[int]) -> None:
        """Partitions are over."""
        for rank in ranks:
            self.greatest.pop(rank, None)

    def observe(self, latest: Mapping[int, int | None]) -> None:
        """What an epoch brought: for each of its partitions the greatest time."""
        for rank, seen in latest.items():
            before = self.greatest.get(rank)
            if seen is not None and rank in self.greatest and (before is None or seen > before):
                self.greatest[rank] = seen

    def edge(self, ended: Iterable[int]) -> Before | None:
        """The edge of an epoch: these partitions are over; the substream that has ended, if it has grown."""
        self.leave(ended)
        if not self.greatest:
            now = Before(None) if self._joined else None
        else:
            times = [time for time in self.greatest.values() if time is not None]
            now = Before(min(times)) if len(times) == len(self.greatest) else None
        if now is None or now == self._told:
            return None
        if self._told is not None and now.time is not None and (self._told.time is None or now.time < self._told.time):
            return None
        self._told = now
        return now

    def save(self) -> bytes:
        told = None if self._told is None else [self._told.time]
        return json.dumps(
            {"greatest": {str(r): t for r, t in self.greatest.items()}, "told": told, "joined": self._joined}
        ).encode()

    @staticmethod
    def restore(saved: bytes) -> EventTime:
        line = json.loads(saved)
        told = None if line["told"] is None else Before(line["told"][0])
        return EventTime({int(rank): time for rank, time in line["greatest"].items()}, told, line["joined"])


def latest_times(records: pa.Table) -> dict[int, int | None]:
    """For each partition of some records the greatest time; None where no record has one.

    >>> latest_times(pa.table({"_rank": [0, 1, 0], "_time": [50, 20, None]}))
    {0: 50, 1: 20}
    """
    ranks = records[RANK].to_numpy()
    present = np.unique(ranks).tolist()
    if len(present) == 1:
        return {present[0]: pc.max(records[TIME]).as_py()}
    return {rank: pc.max(records[TIME].filter(pa.array(ranks == rank))).as_py() for rank in present}
