"""The first records of a pipeline's sources, in memory: read once, for any number of simulated runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.log.contracts import Log, Partition
from millstream.records import OFFSET, TIME

__all__ = ["MemoryLog", "Recorded", "RecordedPartition", "greatest_time", "recorded"]


@dataclass(frozen=True, eq=False)
class RecordedPartition:
    """The records of a partition at the offsets [start, stop). `ended`: the partition will never have more records."""

    partition: Partition
    start: int
    stop: int
    ended: bool
    records: pa.Table

    @property
    def size(self) -> int:
        return self.stop - self.start


Recorded = Mapping[str, Sequence[RecordedPartition]]
"""The records of each source."""


def recorded(logs: Mapping[str, Log], most: int) -> Recorded:
    """Read at most `most` offsets of each source, in equal shares of its partitions."""
    found: dict[str, list[RecordedPartition]] = {}
    for source, log in logs.items():
        partitions = log.partitions()
        share = max(1, most // max(1, len(partitions)))
        found[source] = [_recorded(log, partition, share) for partition in partitions]
    return found


def greatest_time(records: Recorded) -> int:
    """The greatest time of any record; 0 without times."""
    tables = [part.records for parts in records.values() for part in parts if TIME in part.records.column_names]
    return max((pc.max(table[TIME]).as_py() or 0 for table in tables), default=0)


def _recorded(log: Log, partition: Partition, most: int) -> RecordedPartition:
    start, end = log.beginning(partition.name), log.end(partition.name)
    stop = min(end, start + most)
    batches = list(log.read(partition.name, start, stop))
    table = pa.Table.from_batches(batches).combine_chunks() if batches else pa.table({OFFSET: pa.array([], pa.int64())})
    return RecordedPartition(partition, start, stop, stop == end and log.ended(partition.name), table)


class MemoryLog:
    """A source as a run reads it.

    `size_of` returns the number of offsets that a partition has now; it is negative before the partition exists.
    """

    def __init__(
        self,
        partitions: Sequence[RecordedPartition],
        fields: Sequence[str],
        size_of: Callable[[RecordedPartition], int] = lambda part: part.size,
    ) -> None:
        self.fields = fields
        self._parts = {part.partition.name: part for part in partitions}
        self._size_of = size_of

    def partitions(self) -> Sequence[Partition]:
        return [part.partition for part in self._parts.values() if self._size_of(part) >= 0]

    def beginning(self, partition: str, *, joined: bool = False) -> int:
        return self._parts[partition].start

    def resume(self, partition: str, wanted: int) -> int:
        return wanted

    def end(self, partition: str) -> int:
        part = self._parts[partition]
        return part.start + min(part.size, max(0, self._size_of(part)))

    def is_current(self, partition: str) -> bool:
        return True

    def ended(self, partition: str) -> bool:
        part = self._parts[partition]
        return part.ended and self.end(partition) == part.stop

    def identity(self, partition: str, upto: int) -> str:
        return partition

    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        records = self._parts[partition].records
        offsets = records[OFFSET].to_numpy()
        first, last = np.searchsorted(offsets, [start, stop])
        yield from records.slice(first, last - first).to_batches()

    def close(self) -> None:
        pass
