"""The times of a batch's records, and times as labels of windows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.records import TIME
from millstream.substreams.windows.contracts import GREATEST, LEAST

__all__ = ["Times", "clipped", "time_labels"]


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


def time_labels(times: Iterable[int]) -> pa.Array:
    """Times as timestamps; one that is less than all int64 becomes the least of them.

    >>> time_labels([-(2**70), 0]).cast(pa.int64()).to_pylist()
    [-9223372036854775808, 0]
    """
    return pa.array([clipped(time) for time in times], pa.int64()).cast(pa.timestamp("us", tz="UTC"))


def clipped(time: int) -> int:
    """The nearest int64."""
    return min(max(time, LEAST), GREATEST)
