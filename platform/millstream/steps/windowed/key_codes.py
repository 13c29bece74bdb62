"""The keys of a windowed step: each has a number, the code, and a place in a shard; their state is saved by key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.state.keyed_state import KeyedSnapshot, KeyedStore
from millstream.state.shards import shard_of
from millstream.steps.contracts import State
from millstream.steps.windowed.codes import Codes

__all__ = ["KeyCodes", "write_json"]


class KeyCodes:
    """The codes of all keys, the keys of each shard, and the keys that changed since the last save.

    >>> keys = KeyCodes()
    >>> codes, new = keys.codes(pa.array(["ann", "bob", None, "ann"]).dictionary_encode())
    >>> codes.tolist(), new, keys.in_shards[[13, 52]].tolist()
    ([0, 1, -1, 0], [0, 1], [1, 1])
    >>> dict(keys.save(lambda codes: [b"%d" % code for code in codes]))
    {'ann': b'0', 'bob': b'1'}
    >>> keys.forget([0])
    >>> list(keys.save(lambda codes: [])), int(keys.in_shards[13])
    (['bob'], 0)
    """

    shard: Array
    """The shard of each key by its code."""
    in_shards: Array
    """The number of keys in each shard."""

    def __init__(self) -> None:
        self._codes = Codes()
        self._store = KeyedStore()
        self._begin()

    @property
    def shards(self) -> int:
        """The number of shards."""
        return self._store.shards

    @property
    def names(self) -> list[str]:
        """The name of each key by its code."""
        return self._codes.names

    def used(self) -> list[int]:
        """The codes of all keys."""
        return self._codes.used()

    def codes(self, names: pa.DictionaryArray) -> tuple[Array, list[int]]:
        """The code of each name, -1 for null; and the codes of the keys that are new. All of them count as changed."""
        found, new = self._codes.of(names)
        if new:
            self._place(new)
        self._dirty[found[found >= 0]] = True
        return found, new

    def forget(self, codes: Sequence[int]) -> None:
        """Remove keys; their codes are used again."""
        self._forgotten.update([self.names[code] for code in codes])
        for code in codes:
            self._codes.forget(code)
        self.in_shards -= np.bincount(self.shard[codes], minlength=self.shards)
        self._dirty[codes] = False

    def change(self, codes: list[int] | Array) -> None:
        """Note that the states of these keys have changed."""
        self._dirty[codes] = True

    def save(self, write: Callable[[Array], Iterable[bytes]]) -> KeyedSnapshot:
        """A snapshot of the states of all keys; `write` writes those of the keys that changed, in their order."""
        for name in self._forgotten:
            self._store.put(name, None)
        self._forgotten.clear()
        changed = np.flatnonzero(self._dirty)
        for code, written in zip(changed.tolist(), write(changed), strict=True):
            self._store.put(self.names[code], written)
        self._dirty[:] = False
        return self._store.snapshot()

    def restore(self, state: State) -> list[tuple[int, Mapping[str, Any]]]:
        """Replace all keys by those of a state; return the code and the state of each."""
        self._store.restore(state)
        self._begin()
        entries = state.to_dict() if isinstance(state, KeyedSnapshot) else state
        codes = [self._codes.add(name) for name in entries]
        if codes:
            self._place(codes)
        return [(code, json.loads(bytes(content))) for code, content in zip(codes, entries.values(), strict=True)]

    def _begin(self) -> None:
        self._codes.clear()
        self._dirty = np.zeros(16, np.bool_)
        self.shard = np.zeros(16, np.int64)
        self.in_shards = np.zeros(self.shards, np.int64)
        self._forgotten: set[str] = set()
        """The keys that were forgotten since the last save."""

    def _place(self, codes: list[int]) -> None:
        """Find the shards of new keys."""
        missing = len(self.names) - len(self.shard)
        if missing > 0:
            room = max(missing, len(self.shard))
            self._dirty = np.r_[self._dirty, np.zeros(room, np.bool_)]
            self.shard = np.r_[self.shard, np.zeros(room, np.int64)]
        names, shards = [self.names[code] for code in codes], self.shards
        placed = [shard_of(name, shards) for name in names]
        self.shard[codes] = placed
        self.in_shards += np.bincount(placed, minlength=shards)
        self._forgotten.difference_update(names)


def write_json(saved: Mapping[str, Any]) -> bytes:
    """A state as JSON."""
    return json.dumps(saved, ensure_ascii=False, separators=(",", ":")).encode()
