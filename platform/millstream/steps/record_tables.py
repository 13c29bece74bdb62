"""Records in numbered slots, in batches of a bounded size, so that no call copies all records that are held."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from millstream.arrays import Array

__all__ = ["LARGEST", "RecordTables", "take_rows"]

LARGEST = 1 << 25
"""Records are copied into batches of so many bytes at most; a record that is larger is a batch of its own."""
_MERGED = 16
"""So many batches of one level are merged, so that a record is copied only a few times."""


class RecordTables:
    """Records of one schema. Each has a slot: 0, 1, ... in the order in which the records came.

    >>> tables = RecordTables(pa.schema([("id", pa.string())]))
    >>> for ids in (["a", "b"], ["c"]):
    ...     tables.add(pa.table({"id": ids}))
    >>> tables.take(np.array([2, 0]))["id"].to_pylist()
    ['c', 'a']
    >>> tables.free(np.array([True, False, True]))
    >>> tables.take(np.array([0, 1]))["id"].to_pylist()
    ['a', 'c']
    """

    held: int
    """The bytes of all records in memory."""
    gone: int
    """The bytes of those of them that have left."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._levels: list[int] = []
        """For each batch the number of merges of its records; it never increases from one batch to the next."""
        self._starts = np.zeros(0, np.int64)
        """The first slot of each batch."""
        self.held = self.gone = 0

    def add(self, table: pa.Table) -> None:
        """Give the records of a table the next slots."""
        added = (table.combine_chunks() if table.nbytes <= LARGEST else table).to_batches()
        self._batches += added
        self._levels += [0] * len(added)
        self.held += sum(batch.nbytes for batch in added)
        while self._levels:
            level = self._levels[-1]
            first = self._levels.index(level)
            last = deque(self._batches[first:])
            if (count := len(last)) < _MERGED:
                break
            del self._batches[first:], self._levels[first:]
            self._put(_emptied(last), level + 1)
            if len(self._batches) == first + count:
                break
        self._number()

    def take(self, slots: Array) -> pa.Table:
        """The records in these slots, in this order."""
        return pa.Table.from_batches(self.parts(slots), self._schema)

    def parts(self, slots: Array) -> Iterator[pa.RecordBatch]:
        """The records in these slots, in this order, in batches of at most `LARGEST` bytes."""
        return _parts(self._batches, self._starts, slots)

    def in_order(self, slots: Array, columns: Sequence[str]) -> Array:
        """These slots in the order of these columns of their records."""
        batches = [batch.select(columns) for batch in self._batches]
        rows = pa.Table.from_batches(_parts(batches, self._starts, slots), batches[0].schema)
        ordered: Array = slots[pc.sort_indices(rows, [(name, "ascending") for name in columns]).to_numpy()]
        return ordered

    def leave(self, slots: Array) -> None:
        """Count the records in these slots as gone."""
        self.gone += int(sum(group.sizes().sum() for group in _groups(self._batches, self._starts, slots)))

    def free(self, live: Array) -> None:
        """Free the memory of the slots for which `live` is false; the records of the others get slots from 0 on.

        One batch after the other is copied, if records of it are gone.
        """
        level, starts, old = max(self._levels, default=0), self._starts.tolist(), deque(self._batches)
        self._batches, self._levels = [], []
        self._put(_living(old, starts, live), level)
        self.held, self.gone = sum(batch.nbytes for batch in self._batches), 0
        self._number()

    def _put(self, batches: Iterable[pa.RecordBatch], level: int) -> None:
        """Append batches, merged as far as their sizes allow."""
        for merged in _merged(batches):
            self._batches.append(merged)
            self._levels.append(level)

    def _number(self) -> None:
        self._starts = _starts(self._batches)


def take_rows(table: pa.Table, rows: Array) -> pa.Table:
    """These rows of a table, in this order. A column may have more bytes than an array can have.

    >>> take_rows(pa.table({"id": ["a", "b", "c"]}), np.array([2, 0]))["id"].to_pylist()
    ['c', 'a']
    """
    batches = table.to_batches()
    return pa.Table.from_batches(_parts(batches, _starts(batches), rows), table.schema)


@dataclass(frozen=True)
class _Group:
    """The chosen slots that are in one batch: their numbers among all chosen ones, and their rows in the batch."""

    batch: pa.RecordBatch
    numbers: Array
    rows: Array

    def sizes(self) -> Array:
        """The bytes of each row, without those of nested values."""
        sizes = np.full(len(self.rows), sum(_width(field.type) for field in self.batch.schema), np.int64)
        for column in self.batch.columns:
            if _is_text(column.type):
                ends = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, 4 * column.offset)
                sizes += ends[self.rows + 1] - ends[self.rows]
        return sizes


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_binary(kind))


def _width(kind: pa.DataType) -> int:
    """The bytes of a value in its column, without those of a text."""
    return kind.bit_width // 8 if types.is_primitive(kind) else 4


def _starts(batches: Sequence[pa.RecordBatch]) -> Array:
    """The first slot of each batch."""
    stops: Array = np.cumsum([0, *(batch.num_rows for batch in batches)])
    return stops[:-1]


def _groups(batches: Sequence[pa.RecordBatch], starts: Array, slots: Array) -> list[_Group]:
    """These slots by the batches in which they are."""
    found = np.searchsorted(starts, slots, side="right") - 1
    order = np.argsort(found, kind="stable")
    numbers, firsts = np.unique(found[order], return_index=True)
    parts = np.split(order, firsts[1:]) if len(numbers) else []
    return [
        _Group(batches[number], part, slots[part] - starts[number])
        for number, part in zip(numbers.tolist(), parts, strict=True)
    ]


def _parts(batches: Sequence[pa.RecordBatch], starts: Array, slots: Array) -> Iterator[pa.RecordBatch]:
    """The rows in these slots, in this order, in batches of at most `LARGEST` bytes."""
    groups, sizes = _groups(batches, starts, slots), np.zeros(len(slots), np.int64)
    for group in groups:
        sizes[group.numbers] = group.sizes()
    ends = np.cumsum(sizes)
    if len(slots) and ends[-1] <= LARGEST:
        yield _taken(groups, len(slots))
        return
    first = 0
    while first < len(slots):
        limit = ends[first] - sizes[first] + LARGEST
        stop = max(first + 1, int(np.searchsorted(ends, limit, side="right")))
        yield _taken(_groups(batches, starts, slots[first:stop]), stop - first)
        first = stop


def _taken(groups: Sequence[_Group], count: int) -> pa.RecordBatch:
    """The rows of all groups, in the order of their numbers, which are those below `count`."""
    taken = [group.batch.take(pa.array(group.rows)) for group in groups]
    if len(taken) == 1:
        return taken[0]
    numbers, order = np.concatenate([group.numbers for group in groups]), np.empty(count, np.int64)
    order[numbers] = np.arange(count)
    together = pa.concat_batches(taken)
    return together if (numbers[1:] > numbers[:-1]).all() else together.take(pa.array(order))


def _merged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches that follow each other as one, as long as they have at most `LARGEST` bytes together."""
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        size += batch.nbytes
        if group and size > LARGEST:
            yield _one_batch(group)
            group, size = [], batch.nbytes
        group.append(batch)
    if group:
        yield _one_batch(group)


def _one_batch(group: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return group[0] if len(group) == 1 else pa.concat_batches(group)


def _living(batches: deque[pa.RecordBatch], starts: Sequence[int], live: Array) -> Iterator[pa.RecordBatch]:
    """Take all batches away; return each with the rows for whose slots `live` is true."""
    for start, batch in zip(starts, _emptied(batches), strict=True):
        mask = live[start : start + batch.num_rows]
        if mask.all():
            yield batch
        elif mask.any():
            yield batch.filter(pa.array(mask))


def _emptied(batches: deque[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take all batches away, so that the memory of each is free once it was used."""
    while batches:
        yield batches.popleft()
