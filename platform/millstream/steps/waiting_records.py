"""The records of a join that wait for records of the other side, in memory: in columns, with a chain for each key."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.records import OFFSET, PATH, RANK, TIME, no_records
from millstream.state.keyed_state import KeyedSnapshot, KeyedStore
from millstream.state.shards import shard_of
from millstream.steps.contracts import State
from millstream.steps.record_tables import LARGEST, RecordTables
from millstream.steps.row_codec import RowCodec

__all__ = ["WaitingRecords", "in_groups"]

_FEWEST_GONE, _LEAST_GONE = 65_536, 1 << 24
"""The memory of fewer records than this, with fewer bytes than this, is not freed when they leave."""
_WRITTEN = 65_536
"""So many keys are encoded at a time."""
_LENGTH = 4
"""The bytes for the length of the left records in a stored value."""


@dataclass(frozen=True)
class Matches:
    """Matches: for each the row of the record that completed it, and the slots of the left and the right record.

    `numbers` counts from 0 the matches that one record completed.
    """

    rows: Array
    left: Array
    right: Array
    numbers: Array


@dataclass(frozen=True)
class FullShard:
    """A shard in which too many records wait, their number, and the key with most of them."""

    shard: int
    records: int
    key: str


class WaitingRecords:
    """The records that wait on two sides, 0 and 1, by key. Each has a place: its time, or the number of its window.

    Two records of a key match if their places are at most `bound` apart. A record leaves when no record of a place from
    `limit` on could match it. `place` returns the places of records that were saved, and `matters` says if it matters
    that a record was in a match.
    """

    _of_slots: ClassVar[tuple[str, ...]] = ("_following", "_places", "_codes", "_live", "_matched")
    """The arrays with an element for each slot of each side."""
    _heads: Array
    _tails: Array
    _dirty: Array
    """For each key, true if the store does not have its records as they are."""
    _stored: Array
    """For each key, true if the store has records of it."""
    _shard_of: Array
    """For each key its shard; -1 until it is needed."""
    _added: int
    """The records that came since the records of each shard were counted."""
    _room: int
    """The least number of records that could have filled a shard since then."""

    def __init__(
        self,
        schemas: Sequence[pa.Schema],
        bound: int,
        place: Callable[[pa.Table], Array],
        matters: bool,
    ) -> None:
        self._schemas, self._bound, self._place, self._matters = schemas, bound, place, matters
        self._codecs = [RowCodec(schema) for schema in schemas]
        self._store = KeyedStore()
        self._begin()

    def __len__(self) -> int:
        return sum(self._living)

    def add(self, sides: Array, codes: Array, places: Array, tables: Sequence[pa.Table]) -> Matches:
        """Add records in their order, and return the matches that they complete. `codes` are those of their keys.

        `sides`, `codes` and `places` are of all records; `tables` has the records of each side.
        """
        from millstream.compiled.join_matches import find_matches

        slots = np.empty(len(sides), np.int64)
        for side, table in enumerate(tables):
            here = np.flatnonzero(sides == side)
            slots[here] = self._append(side, table, codes[here], places[here])
        rows, others, numbers = find_matches(
            sides,
            codes,
            places,
            self._bound,
            slots,
            self._heads,
            self._tails,
            self._following,
            self._places,
            self._live,
            self._matched,
        )
        self._mark(sides, codes)
        own, is_left = slots[rows], sides[rows] == 0
        return Matches(rows, np.where(is_left, own, others), np.where(is_left, others, own), numbers)

    def codes_of(self, keys: Sequence[str]) -> Array:
        """The numbers of these keys, which are numbered as they appear."""
        numbers, names = self._numbers, self._names
        codes = [numbers.get(key, -1) for key in keys]
        for index, code in enumerate(codes):
            if code < 0:
                codes[index] = numbers.setdefault(keys[index], len(names))
                names.append(keys[index])
        if len(names) > self._heads.shape[1]:
            self._heads, self._tails = _longer(self._heads, len(names), -1), _longer(self._tails, len(names), -1)
            self._dirty, self._stored = _longer(self._dirty, len(names), 0), _longer(self._stored, len(names), 0)
            self._shard_of = _longer(self._shard_of, len(names), -1)
        return np.array(codes, np.int64)

    @property
    def shards(self) -> int:
        """The number of shards into which the keys are divided."""
        return self._store.shards

    def full_shard(self, most: int) -> FullShard | None:
        """The first shard in which more than `most` records wait; None if there is none."""
        if len(self) <= most or self._added < self._room:
            return None
        waiting, shards = self._in_shards()
        records = np.bincount(shards, minlength=self.shards)
        self._added, self._room = 0, most + 1 - int(records.max())
        full = np.flatnonzero(records > most)
        if not len(full):
            return None
        codes, counts = np.unique(waiting[shards == full[0]], return_counts=True)
        key = min(self._names[code] for code in codes[counts == counts.max()].tolist())
        return FullShard(int(full[0]), int(records[full[0]]), key)

    def take(self, side: int, slots: Array) -> pa.Table:
        """The records in these slots."""
        return self._records[side].take(slots)

    def leave(self, limit: int) -> tuple[pa.Table, pa.Table]:
        """Let the records leave that can have no match any more.

        Return those on each side that were in no match, in the order of their times and identities.
        """
        left = [self._leave(side, limit) for side in (0, 1)]
        unmatched = [no_records(schema) for schema in self._schemas]
        for side, slots in enumerate(left):
            alone = slots[~self._matched[side, slots]]
            if self._matters and len(alone):
                unmatched[side] = self.take(side, self._records[side].in_order(alone, (TIME, RANK, OFFSET, PATH)))
        gone, gone_bytes = sum(self._sizes) - len(self), sum(records.gone for records in self._records)
        live_bytes = sum(records.held for records in self._records) - gone_bytes
        if gone > max(len(self), _FEWEST_GONE) or gone_bytes > max(live_bytes, _LEAST_GONE):
            self._compact()
        return unmatched[0], unmatched[1]

    def save(self) -> KeyedSnapshot:
        self._write()
        return self._store.snapshot()

    def restore(self, state: State) -> None:
        self._store.restore(state)
        self._begin()
        if len(self._store.snapshot()):
            self._load()

    def _begin(self) -> None:
        self._records = [RecordTables(schema) for schema in self._schemas]
        self._sizes, self._living = [0, 0], [0, 0]
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._heads = np.full((2, 16), -1, np.int64)
        self._tails = np.full((2, 16), -1, np.int64)
        self._following, self._places, self._codes = (np.zeros((2, 16), np.int64) for _ in range(3))
        self._live, self._matched = (np.zeros((2, 16), np.bool_) for _ in range(2))
        self._dirty, self._stored = (np.zeros(16, np.bool_) for _ in range(2))
        self._shard_of = np.full(16, -1, np.int64)
        self._added = self._room = 0
        self._runs: list[list[tuple[int, int, Array, Array]]] = [[], []]
        """A heap for each side: the least place, a number, and the places and slots in the order of places."""
        self._run = 0

    def _mark(self, sides: Array | int, codes: Array) -> None:
        """Mark these keys, of which records on these sides came or left."""
        self._dirty[codes] = True

    def _waiting_keys(self, side: int) -> Array:
        """The key of each record that waits on a side."""
        size = self._sizes[side]
        found: Array = self._codes[side, :size][self._live[side, :size]]
        return found

    def _in_shards(self) -> tuple[Array, Array]:
        """The key and the shard of each record that waits."""
        waiting = np.concatenate([self._waiting_keys(side) for side in (0, 1)])
        return waiting, self._shards_of(waiting)

    def _shards_of(self, codes: Array) -> Array:
        """The shards of these keys."""
        for code in np.unique(codes[self._shard_of[codes] < 0]).tolist():
            self._shard_of[code] = shard_of(self._entry(code), self.shards)
        found: Array = self._shard_of[codes]
        return found

    def _entry(self, code: int) -> str:
        """The name of a key in the state."""
        return self._names[code]

    def _append(self, side: int, table: pa.Table, codes: Array, places: Array) -> Array:
        """Give new records their slots; the chains and `live` are set when matches are searched."""
        if table.num_rows:
            self._records[side].add(table)
        self._added += table.num_rows
        return self._reserve(side, codes, places)

    def _reserve(self, side: int, codes: Array, places: Array) -> Array:
        """The next slots, for records of these keys and places."""
        start, stop = self._sizes[side], self._sizes[side] + len(codes)
        if stop > self._codes.shape[1]:
            for name in self._of_slots:
                setattr(self, name, _longer(getattr(self, name), stop, 0))
        self._sizes[side] = stop
        self._living[side] += len(codes)
        slots = np.arange(start, stop)
        self._codes[side, start:stop] = codes
        if len(codes):
            self._await(side, places, slots)
        return slots

    def _await(self, side: int, places: Array, slots: Array) -> None:
        order = np.argsort(places, kind="stable")
        self._run += 1
        heapq.heappush(self._runs[side], (int(places[order[0]]), self._run, places[order], slots[order]))

    def _leave(self, side: int, limit: int) -> Array:
        """Let the records of a side leave, and return their slots."""
        runs, gone = self._runs[side], [np.zeros(0, np.int64)]
        while runs and runs[0][0] + self._bound < limit:
            _, number, places, slots = heapq.heappop(runs)
            stop = int(np.searchsorted(places, limit - self._bound))
            gone.append(slots[:stop])
            if stop < len(slots):
                heapq.heappush(runs, (int(places[stop]), number, places[stop:], slots[stop:]))
        left = np.concatenate(gone)
        self._live[side, left] = False
        self._living[side] -= len(left)
        self._records[side].leave(left)
        self._mark(side, self._codes[side, left])
        return left

    def _compact(self) -> None:
        """Free the memory of the records and keys that are gone."""
        kept = [np.flatnonzero(self._live[side, :size]) for side, size in enumerate(self._sizes)]
        codes = [self._codes[side, slots] for side, slots in enumerate(kept)]
        used = np.zeros(len(self._dirty), np.bool_)
        for each in codes:
            used[each] = True
        self._write_keys(np.flatnonzero(self._dirty & self._stored & ~used))
        left = np.flatnonzero(used)
        names, dirty, stored = [self._names[code] for code in left.tolist()], self._dirty[left], self._stored[left]
        places = [self._places[side, slots] for side, slots in enumerate(kept)]
        matched = [self._matched[side, slots] for side, slots in enumerate(kept)]
        records = self._records
        for each, live, size in zip(records, self._live, self._sizes, strict=True):
            each.free(live[:size])
        self._begin()
        self._records = records
        self.codes_of(names)
        self._dirty[: len(names)], self._stored[: len(names)] = dirty, stored
        for side in (0, 1):
            own = np.searchsorted(left, codes[side])
            self._settle(side, self._reserve(side, own, places[side]), own, places[side], matched[side])

    def _fill(self, side: int, table: pa.Table, codes: Array, places: Array, matched: Array) -> Array:
        """Add records that were saved, and return their slots."""
        slots = self._append(side, table, codes, places)
        self._settle(side, slots, codes, places, matched)
        return slots

    def _settle(self, side: int, slots: Array, codes: Array, places: Array, matched: Array) -> None:
        """Let the records in these slots wait, without a search for matches."""
        from millstream.compiled.join_matches import chain

        self._places[side, slots] = places
        self._live[side, slots] = True
        self._matched[side, slots] = matched
        chain(side, codes, slots, self._heads, self._tails, self._following)

    def _write(self) -> None:
        """Write the records of the keys that have changed into the store."""
        codes = np.flatnonzero(self._dirty)
        for start in range(0, len(codes), _WRITTEN):
            self._write_keys(codes[start : start + _WRITTEN])
        self._dirty[:] = False

    def _write_keys(self, codes: Array) -> None:
        left, right = (self._encoded(side, codes, self._matters) for side in (0, 1))
        values = (
            b"".join((len(one).to_bytes(_LENGTH), one, two)) if one or two else None
            for one, two in zip(left, right, strict=True)
        )
        self._put(codes, values)

    def _encoded(self, side: int, codes: Array, flagged: bool) -> Iterator[memoryview | bytes]:
        """The records of each of these keys on a side, as bytes; with `flagged`, those in a match have a flag."""
        from millstream.compiled.join_matches import slots_of

        slots, stops = slots_of(side, codes, self._heads, self._following, self._live)
        return self._bytes(side, slots, stops, self._matched[side, slots] & flagged)

    def _bytes(self, side: int, slots: Array, stops: Array, flags: Array) -> Iterator[memoryview | bytes]:
        """The records in these slots as bytes, divided before these numbers of records."""
        begun: list[memoryview] = []
        done = first = 0
        for part in self._records[side].parts(slots):
            stop = first + part.num_rows
            encoded = self._codecs[side].encode(part, flags[first:stop])
            offsets = np.frombuffer(encoded.buffers()[1], np.int32, len(encoded) + 1, 4 * encoded.offset)
            data = memoryview(encoded.buffers()[2] or b"")
            ending = stops[done : np.searchsorted(stops, stop, side="right")]
            start = int(offsets[0])
            for end in offsets[ending - first].tolist():
                yield b"".join([*begun, data[start:end]]) if begun else data[start:end]
                begun, start = [], end
            if start < offsets[-1]:
                begun.append(data[start : offsets[-1]])
            done, first = done + len(ending), stop
        yield from itertools.repeat(b"", len(stops) - done)

    def _put(self, codes: Array, values: Iterable[bytes | None]) -> None:
        """Put the values of these keys into the store; None deletes a key."""
        stored = self._stored[codes].tolist()
        for index, (code, value) in enumerate(zip(codes.tolist(), values, strict=True)):
            if value is not None or stored[index]:
                self._store.put(self._entry(code), value)
            stored[index] = value is not None
        self._stored[codes] = stored

    def _load(self) -> None:
        """Take the records from the store."""
        for keys, values in in_groups(pair for part in self._store.snapshot().parts() for pair in part.items()):
            codes = self.codes_of(keys)
            self._stored[codes] = True
            sizes = [_LENGTH + int.from_bytes(value[:_LENGTH]) for value in values]
            left = [value[_LENGTH:size] for value, size in zip(values, sizes, strict=True)]
            right = [value[size:] for value, size in zip(values, sizes, strict=True)]
            for side, texts in enumerate((left, right)):
                table, flags, counts = self._codecs[side].decode(texts)
                self._fill(side, table, np.repeat(codes, counts), self._place(table), flags != 0)


def in_groups(entries: Iterable[tuple[str, bytes | None]]) -> Iterator[tuple[list[str], list[bytes]]]:
    """Names and values of a state, in groups of about `LARGEST` bytes.

    >>> list(in_groups([("ann", b"1"), ("bob", None), ("cleo", b"2")]))
    [(['ann', 'cleo'], [b'1', b'2'])]
    """
    names, values, size = list[str](), list[bytes](), 0
    for name, value in entries:
        if value is None:
            continue
        if values and size + len(value) > LARGEST:
            yield names, values
            names, values, size = [], [], 0
        names.append(name)
        values.append(value)
        size += len(value)
    if values:
        yield names, values


def _longer(array: Array, size: int, fill: int) -> Array:
    """A copy with room for at least so many columns, and for half as many again."""
    longer = np.full((*array.shape[:-1], size + size // 2), fill, array.dtype)
    longer[..., : array.shape[-1]] = array
    return longer
