"""The records of a join whose second stream goes to all owners of shards; they share those of the first one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrays import Array
from millstream.state.keyed_state import Entries, ShardedSnapshot, divide
from millstream.steps.contracts import State
from millstream.steps.keys import coded, keys_of, position_keys, shards_of
from millstream.steps.waiting_records import WaitingRecords, in_groups

__all__ = ["BroadcastRecords"]

_RIGHT = ">"
"""The first letter of the names of right records in the state; the names of left ones begin with `<`."""
_GONE, _ALONE, _MATCHED = 0, 1, 2
"""A left record in the state: it is not there, or has no match, or has one."""


class BroadcastRecords(WaitingRecords):
    """The records of both sides in an owner of some shards: all right ones, and the left ones of its shards.

    In the state, the left records of a few positions are one entry, whose name, `position_keys`, decides their shard.
    The right records of a key are one entry. An owner saves the entries of its shards, and restores from those of all.
    """

    _of_slots: ClassVar[tuple[str, ...]] = (*WaitingRecords._of_slots, "_blocks", "_saved")
    _blocks: Array
    """For each slot of the left side the number of its entry in the state."""
    _saved: Array
    """For each slot of the left side what the store has of it."""

    def __init__(
        self,
        schemas: Sequence[pa.Schema],
        bound: int,
        place: Callable[[pa.Table], Array],
        matters: bool,
        key: Sequence[str],
    ) -> None:
        super().__init__(schemas, bound, place, matters)
        self._key = tuple(key)
        self._owned = np.ones(self.shards, np.bool_)
        self._owns: Callable[[int], bool] = _all

    def own(self, owns: Callable[[int], bool]) -> None:
        """Own the shards for which `owns` is true; without a call, all."""
        self._owns = owns
        self._owned = np.array([owns(shard) for shard in range(self.shards)], np.bool_)

    def owned(self, keys: pa.Array | pa.ChunkedArray) -> Array:
        """True for each of these keys whose right records are in an own shard."""
        names = pc.binary_join_element_wise(_RIGHT, keys.cast(pa.string()), "")
        found: Array = self._owned[shards_of(names, self.shards)]
        return found

    def restore(self, state: State) -> None:
        if not isinstance(state, ShardedSnapshot):
            whole = {name: bytes(state[name]) for name in state}
            state = ShardedSnapshot([Entries(part) for part in divide(whole, self.shards)])
        parts, others = list(state.by_shard), dict[str, bytes]()
        for shard, part in enumerate(parts):
            if not self._owns(shard):
                others |= {name: value for name, value in part.to_dict().items() if name.startswith(_RIGHT)}
                parts[shard] = Entries({})
        self._store.restore(ShardedSnapshot(parts))
        self._begin()
        self.own(self._owns)
        own = self._store.snapshot().to_dict()
        right = {name: value for name, value in own.items() if name.startswith(_RIGHT)}
        for _, values in in_groups((name, value) for name, value in own.items() if name not in right):
            self._load_left(values)
        for names, values in in_groups((right | others).items()):
            self._load_right([name[len(_RIGHT) :] for name in names], values)
        self._stored[self.codes_of([name[len(_RIGHT) :] for name in right])] = True

    def _load_left(self, values: Sequence[bytes]) -> None:
        table, flags, _ = self._codecs[0].decode(values)
        keys = coded(keys_of(table, self._key))
        codes = self.codes_of(keys.dictionary.to_pylist())[keys.indices.to_numpy()]
        slots = self._fill(0, table, codes, self._place(table), flags != 0)
        self._saved[0, slots] = np.where(flags != 0, _MATCHED, _ALONE)

    def _load_right(self, keys: Sequence[str], values: Sequence[bytes]) -> None:
        codes = self.codes_of(keys)
        table, _, counts = self._codecs[1].decode(values)
        self._fill(1, table, np.repeat(codes, counts), self._place(table), np.zeros(table.num_rows, np.bool_))

    def _begin(self) -> None:
        super()._begin()
        self._blocks, self._saved = (np.zeros((2, 16), np.int64) for _ in range(2))
        self._numbers_of_blocks: dict[str, int] = {}

    def _mark(self, sides: Array | int, codes: Array) -> None:
        self._dirty[codes[np.broadcast_to(sides, codes.shape) == 1]] = True

    def _entry(self, code: int) -> str:
        return f"{_RIGHT}{self._names[code]}"

    def _in_shards(self) -> tuple[Array, Array]:
        """The key and the shard of each record in own shards."""
        left, right = np.flatnonzero(self._live[0, : self._sizes[0]]), self._waiting_keys(1)
        shard_of_block = shards_of(pa.array(list(self._numbers_of_blocks), pa.string()), self.shards)
        codes = np.concatenate([self._codes[0, left], right])
        shards = np.concatenate([shard_of_block[self._blocks[0, left]], self._shards_of(right)])
        return codes[self._owned[shards]], shards[self._owned[shards]]

    def _compact(self) -> None:
        self._write_left()  # the slots of records that are gone are given to others
        kept, names = np.flatnonzero(self._live[0, : self._sizes[0]]), list(self._numbers_of_blocks)
        saved, (blocks, numbers) = self._saved[0, kept], np.unique(self._blocks[0, kept], return_inverse=True)
        super()._compact()
        self._saved[0, : len(kept)], self._blocks[0, : len(kept)] = saved, numbers
        self._numbers_of_blocks = {names[block]: number for number, block in enumerate(blocks.tolist())}

    def _write(self) -> None:
        self._write_left()
        super()._write()

    def _write_keys(self, codes: Array) -> None:
        """Write the right records of those of these keys that are in own shards."""
        codes = codes[self._owned[self._shards_of(codes)]]
        values = self._encoded(1, codes, flagged=False)  # a match of a right record is not known in every shard
        self._put(codes, (bytes(value) or None for value in values))

    def _append(self, side: int, table: pa.Table, codes: Array, places: Array) -> Array:
        slots = super()._append(side, table, codes, places)
        if side == 0:
            names, numbers = position_keys(table), self._numbers_of_blocks
            found = [numbers.setdefault(name, len(numbers)) for name in names.dictionary.to_pylist()]
            self._blocks[0, slots] = np.array(found, np.int64)[names.indices.to_numpy()]
        return slots

    def _write_left(self) -> None:
        """Write the left records that have changed into the store, with those of the same entries."""
        size = self._sizes[0]
        matched = np.where(self._matched[0, :size] & self._matters, _MATCHED, _ALONE)
        present = np.where(self._live[0, :size], matched, _GONE)
        blocks, names = self._blocks[0, :size], list(self._numbers_of_blocks)
        chosen = np.zeros(len(names), np.bool_)
        chosen[blocks[present != self._saved[0, :size]]] = True
        slots = np.flatnonzero(chosen[blocks] & (present != _GONE))
        slots, changed = slots[np.argsort(blocks[slots], kind="stable")], np.flatnonzero(chosen)
        stops = np.searchsorted(blocks[slots], changed, side="right")
        values = self._bytes(0, slots, stops, present[slots] == _MATCHED)
        for block, value in zip(changed.tolist(), values, strict=True):
            self._store.put(names[block], bytes(value) or None)
        self._saved[0, :size] = present


def _all(shard: int) -> bool:
    return True
