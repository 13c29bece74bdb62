"""Event time: the watermark over the partitions that count, which moves only at epoch boundaries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.config.durations import format_duration
from millstream.records import RANK, REJECT, TIME
from millstream.substreams import Watermark

__all__ = ["EventTime", "latest_times", "reject_ahead"]


@dataclass
class EventTime:
    """Computes the watermark: the least, over the partitions that count, of the greatest time in each partition.

    A partition counts from its beginning until it is idle or has ended. It does not count if records of it were read
    and none had a time, nor if its source has no times. If no partition counts, the watermark is the greatest time in
    any partition. Which partitions are idle is an event of the epoch log, so a replay has the same watermarks.

    >>> clock = EventTime()
    >>> clock.join(0), clock.join(1)
    (None, None)
    >>> clock.observe({0: 50})
    >>> clock.boundary(), clock.holder
    (None, 1)
    >>> clock.boundary(idle=[1]), clock.boundary(), clock.boundary(ended=[0, 1])
    (Watermark(time=50), None, Watermark(time=None))
    """

    watermark: Watermark | None = None
    """The watermark after the last boundary; None before its first value."""
    _greatest: dict[int, int | None] = field(default_factory=dict)
    """The partitions that have not ended, with the greatest time in each; None before the first record with a time."""
    _begun: set[int] = field(default_factory=set)
    """The partitions of which records were read."""
    _idle: set[int] = field(default_factory=set)
    _timeless: set[int] = field(default_factory=set)
    """The partitions that have not ended, of sources without times."""
    _most: int | None = None
    """The greatest time in any partition."""
    _joined: bool = False
    _timed: bool = False
    """True once a partition of a source with times has joined."""
    holder: int | None = field(default=None, init=False)
    """The partition for which the watermark waited at the last boundary; None if it waited for none."""

    @property
    def latest(self) -> int | None:
        """The greatest time in any partition; None before the first record with a time."""
        return self._most

    def join(self, rank: int, *, timed: bool = True) -> None:
        """Add a partition. The watermark does not move until the partition has a record, or is idle."""
        self._joined = True
        if timed:
            self._greatest.setdefault(rank, None)
            self._timed = True
        else:
            self._timeless.add(rank)

    def observe(self, latest: Mapping[int, int | None]) -> None:
        """Take the greatest time in each partition of which an epoch has records: none of them is idle any more."""
        self._idle.difference_update(latest)
        for rank, seen in latest.items():
            if rank not in self._greatest:
                continue
            self._begun.add(rank)
            if seen is not None:
                before = self._greatest[rank]
                self._greatest[rank] = seen if before is None else max(before, seen)
                self._most = seen if self._most is None else max(self._most, seen)

    def lose(self, ranks: Iterable[int]) -> None:
        """Wait for partitions whose records are lost: until a record of them is read, or they are idle again."""
        self._idle.difference_update(ranks)

    def leave(self, ended: Iterable[int], idle: Iterable[int]) -> None:
        """Stop waiting for partitions that have ended, and for idle partitions until they are observed again."""
        self._idle.update(idle)
        for rank in ended:
            self._greatest.pop(rank, None)
            for ranks in (self._timeless, self._idle, self._begun):
                ranks.discard(rank)

    def boundary(self, ended: Iterable[int] = (), idle: Iterable[int] = ()) -> Watermark | None:
        """End an epoch, with which these partitions end or are idle. Return the watermark if it rises, else None."""
        self.leave(ended, idle)
        now, before = self._now(), self.watermark
        if now is None or now == before:
            return None
        if before is not None and now.time is not None and (before.time is None or now.time < before.time):
            return None
        self.watermark = now
        return now

    def _now(self) -> Watermark | None:
        """The watermark of the present times, which may be lower than an earlier one; sets the holder."""
        counting = self._counting()
        waiting = [rank for rank, time in counting.items() if time is None]
        least = min(((time, rank) for rank, time in counting.items() if time is not None), default=None)
        self.holder = waiting[0] if waiting else least[1] if least is not None else None
        if self._joined and not self._greatest and (self._timed or not self._timeless):
            return Watermark(None)
        if waiting:
            return None
        time = least[0] if least is not None else self._most
        return None if time is None else Watermark(time)

    def _counting(self) -> dict[int, int | None]:
        return {
            rank: time
            for rank, time in self._greatest.items()
            if rank not in self._idle and (time is not None or rank not in self._begun)
        }

    def save(self) -> bytes:
        state = {
            "watermark": None if self.watermark is None else [self.watermark.time],
            "greatest": {str(rank): time for rank, time in self._greatest.items()},
            "begun": sorted(self._begun),
            "idle": sorted(self._idle),
            "timeless": sorted(self._timeless),
            "most": self._most,
            "joined": self._joined,
            "timed": self._timed,
        }
        return json.dumps(state).encode()

    @staticmethod
    def restore(saved: bytes) -> EventTime:
        state = json.loads(saved)
        return EventTime(
            None if state["watermark"] is None else Watermark(state["watermark"][0]),
            {int(rank): time for rank, time in state["greatest"].items()},
            set(state["begun"]),
            set(state["idle"]),
            set(state["timeless"]),
            state["most"],
            state["joined"],
            state["timed"],
        )


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


def reject_ahead(
    records: pa.Table, latest: Mapping[int, int | None], at: int, ahead: Mapping[int, int | None]
) -> pa.Table:
    """Reject the records whose time is later than `at`, the clock of their epoch, by more than `ahead` of their rank.

    `latest` are the `latest_times` of the records; a rank whose `ahead` is None has no limit.

    >>> records = pa.table({"_rank": [0, 0], "_time": [7, 8], "_reject": pa.nulls(2, pa.string())})
    >>> reject_ahead(records, {0: 8}, 5, {0: 2})["_reject"].to_pylist()
    [None, 'its time is more than 2us ahead of the clock (`ahead`)']
    """
    for rank, seen in latest.items():
        limit = ahead[rank]
        if seen is None or limit is None or seen <= at + limit:
            continue
        wrong = pc.and_(pc.equal(records[RANK], rank), pc.greater(records[TIME], at + limit)).fill_null(False)
        reason = pa.scalar(f"its time is more than {format_duration(limit)} ahead of the clock (`ahead`)", pa.string())
        index = records.column_names.index(REJECT)
        reject = pc.coalesce(records[REJECT], pc.if_else(wrong, reason, pa.scalar(None, pa.string())))
        records = records.set_column(index, REJECT, reject)
    return records
