"""The order of records that tasks have computed apart from each other: that of the stream, by columns of their files.

A task knows the records of one partition, so it stores with each record its epoch and its mended time: the latest time
of the partition in this epoch up to the record. Sorted by epoch, mended time, partition, offset and path, the records
of all tasks are in the order in which a run of the same cuts gives them to a step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrays import Array
from millstream.log.epochs import Epoch
from millstream.records import OFFSET, PATH, RANK, REJECT, TIME

__all__ = ["EPOCH", "MENDED", "PHASE", "PartitionOrder", "in_stream_order"]

EPOCH, MENDED = "_epoch", "_mended"
PHASE = "_phase"
"""The column that is 1 for rows that steps made at the boundary of an epoch: they follow the records of the epoch."""

_BEFORE_ALL = np.iinfo(np.int64).min


class PartitionOrder:
    """The epoch and the mended time of each record of one partition.

    `records` are in the order of their offsets; rejects have no time here, as in a run.

    >>> records = pa.table({"_offset": [0, 1, 2, 4], "_time": [7, 5, None, 6], "_reject": [None, None, None, None]})
    >>> order = PartitionOrder(records, 0, [Epoch(3, {0: (0, 2)}), Epoch(4, {0: (2, 5)})])
    >>> made = order.added(pa.table({"_offset": [1, 4, 4]}))
    >>> made["_epoch"].to_pylist(), made["_mended"].to_pylist(), order.latest()
    ([3, 4, 4], [7, 6, 6], {'3': 7, '4': 6})
    """

    def __init__(self, records: pa.Table, rank: int, epochs: Sequence[Epoch]) -> None:
        self._offsets = records[OFFSET].to_numpy()
        spans = [(epoch.number, *epoch.cut[rank]) for epoch in epochs if rank in epoch.cut]
        times = records[TIME]
        if REJECT in records.column_names and records[REJECT].null_count < records.num_rows:
            times = pc.if_else(records[REJECT].is_null(), times, pa.scalar(None, times.type))
        self._mended = pc.fill_null(times, _BEFORE_ALL).to_numpy().copy()
        self._epochs = np.empty(len(self._offsets), np.int64)
        for number, start, stop in spans:
            first, last = np.searchsorted(self._offsets, (start, stop))
            self._epochs[first:last] = number
            part = self._mended[first:last]
            np.maximum.accumulate(part, out=part)

    def added(self, made: pa.Table) -> pa.Table:
        """The records that steps made of the records, with the columns of their order."""
        offsets = made[OFFSET].to_numpy()
        if np.array_equal(offsets, self._offsets):
            epochs, mended = self._epochs, self._mended
        else:
            places = np.searchsorted(self._offsets, offsets)
            epochs, mended = self._epochs[places], self._mended[places]
        return made.append_column(EPOCH, pa.array(epochs)).append_column(MENDED, pa.array(mended))

    def latest(self) -> dict[str, int | None]:
        """The greatest time in each epoch of which the log has records; None if none of them has a time."""
        found: dict[str, int | None] = {}
        for epoch in np.unique(self._epochs).tolist():
            last = np.searchsorted(self._epochs, epoch + 1)
            most = int(self._mended[last - 1])
            found[str(epoch)] = None if most == _BEFORE_ALL else most
        return found


def in_stream_order(records: pa.Table) -> pa.Table:
    """Sort the records of several tasks into the order of the stream."""
    records = records.combine_chunks()
    if PHASE in records.column_names and (ended := records[PHASE].to_numpy()).any():
        return _by_phase(records, ended)
    names = [EPOCH, MENDED, RANK, OFFSET]
    if PATH in records.column_names and (pc.max(pc.binary_length(records[PATH])).as_py() or 0) > 0:
        return _sorted(records, [*names, PATH])
    columns = [records[name].to_numpy() for name in names]
    order = np.lexsort(columns[::-1])
    return records if np.array_equal(order, np.arange(len(order))) else records.take(pa.array(order))


def _by_phase(records: pa.Table, ended: Array) -> pa.Table:
    """Sort records of which some are rows of boundaries, which are in the order of `in_boundary_order`."""
    path = [PATH] if PATH in records.column_names else []
    at_end = _sorted(records.filter(pa.array(ended == 1)), [EPOCH, MENDED, RANK, OFFSET, *path])
    both = pa.concat_tables([in_stream_order(records.filter(pa.array(ended == 0))), at_end])
    return both.take(pa.array(np.argsort(both[EPOCH].to_numpy(), kind="stable")))


def _sorted(records: pa.Table, names: Sequence[str]) -> pa.Table:
    return records.take(pc.sort_indices(records, [(name, "ascending") for name in names]))
