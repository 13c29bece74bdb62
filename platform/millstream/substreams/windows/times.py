"""The times of a batch's records, and times as labels of windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.records import TIME
from millstream.substreams import Watermark
from millstream.substreams.windows.contracts import GREATEST, LEAST, Assignment, Move, clipped

__all__ = ["LateTimes", "Times", "time_labels"]


class Times(NamedTuple):
    """The rows of a batch with a key and a time, their times, and the rows with a key and without a time."""

    rows: Array
    values: Array
    untimed: Array

    @staticmethod
    def of(records: pa.Table, codes: Array) -> Times:
        """The times of these records.

        >>> Times.of(pa.table({"_time": [5, None, 7, None]}), np.array([0, 0, -1, -1]))
        Times(rows=array([0]), values=array([5]), untimed=array([1]))
        """
        times = records[TIME].combine_chunks()
        keyed = codes >= 0
        if not times.null_count and keyed.all():
            return Times(np.arange(len(codes), dtype=np.int64), times.to_numpy(), np.zeros(0, np.int64))
        timed = times.is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(timed & keyed)
        return Times(rows, times.fill_null(0).to_numpy()[rows], np.flatnonzero(~timed & keyed))


class Timely(NamedTuple):
    """The rows of a batch that are in time, their times, and the rows that are late with theirs."""

    rows: Array
    values: Array
    late: Array
    late_values: Array
    untimed: Array

    def assigned(self, cells: Sequence[tuple[int, int]], cell_of: Array, moves: Sequence[Move] = ()) -> Assignment:
        """The assignment of the records that are in time to these cells; the numbers of windows are times."""
        return Assignment(self.rows, cells, cell_of, self.late, self.late_values, self.untimed, moves)


class LateTimes:
    """The time before which records are late, for windows without a fixed length. It never goes back.

    >>> late = LateTimes()
    >>> late.rise(Watermark(10), 4)
    >>> found = late.divide(pa.table({"_time": [5, 7]}), np.zeros(2, np.int64))
    >>> found.rows.tolist(), found.late.tolist(), late.save()
    ([1], [0], {'late_before': 6})
    """

    def __init__(self) -> None:
        self.before = LEAST
        """A record before this time is late."""

    def rise(self, watermark: Watermark, wait: int) -> None:
        """Move on with the watermark: records are late if it has passed them by `wait` microseconds."""
        self.before = max(self.before, GREATEST + 1 if watermark.time is None else watermark.time - wait)

    def divide(self, records: pa.Table, codes: Array, least: int = LEAST) -> Timely:
        """Divide the records of a batch by their times. Records before `least` are late in any case."""
        times = Times.of(records, codes)
        late = times.values < max(self.before, least)
        if not late.any():
            return Timely(times.rows, times.values, times.rows[:0], times.values[:0], times.untimed)
        kept = ~late
        return Timely(times.rows[kept], times.values[kept], times.rows[late], times.values[late], times.untimed)

    def save(self) -> Mapping[str, int]:
        return {"late_before": self.before}

    def restore(self, state: Mapping[str, int]) -> None:
        """Set the time to one that `save` returned; an empty state makes it new."""
        self.before = state.get("late_before", LEAST)


def time_labels(times: Iterable[int]) -> pa.Array:
    """Times as timestamps; one that is less than all int64 becomes the least of them.

    >>> time_labels([-(2**70), 0]).cast(pa.int64()).to_pylist()
    [-9223372036854775808, 0]
    """
    return pa.array([clipped(time) for time in times], pa.int64()).view(pa.timestamp("us", tz="UTC"))
