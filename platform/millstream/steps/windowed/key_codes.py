"""The keys of a windowed step: each has a number, the code, and a place in a shard; their state is saved by key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
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
    >>> dict(keys.save(lambda code: {"of": keys.names[code]}))
    {'ann': b'{"of":"ann"}', 'bob': b'{"of":"bob"}'}
    >>> keys.forget(0)
    >>> list(keys.save(lambda code: {})), int(keys.in_shards[13])
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

    def __contains__(self, name: str) -> bool:
        return name in self._codes

    def used(self) -> list[int]:
        """The codes of all keys."""
        return self._codes.used()

    def codes(self, names: pa.DictionaryArray) -> tuple[Array, list[int]]:
        """The code of each name, -1 for null; and the codes of the keys that are new. All of them count as changed."""
        found, new = self._codes.of(names)
        for code in new:
            self._place(code)
        self._dirty[found[found >= 0]] = True
        return found, new

    def forget(self, code: int) -> None:
        """Remove a key; its code is used again."""
        self._forgotten.add(self.names[code])
        self._codes.forget(code)
        self.in_shards[self.shard[code]] -= 1
        self._dirty[code] = False

    def change(self, codes: list[int] | Array) -> None:
        """Note that the states of these keys have changed."""
        self._dirty[codes] = True

    def save(self, saved: Callable[[int], Mapping[str, Any]]) -> KeyedSnapshot:
        """A snapshot of the states of all keys; `saved` returns that of one of the keys that changed."""
        for name in self._forgotten:
            self._store.put(name, None)
        self._forgotten.clear()
        for code in np.flatnonzero(self._dirty).tolist():
            self._store.put(self.names[code], write_json(saved(code)))
        self._dirty[:] = False
        return self._store.snapshot()

    def restore(self, state: State) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Replace all keys by those of a state; return the code and the state of each."""
        self._store.restore(state)
        self._begin()
        for name, content in (state.to_dict() if isinstance(state, KeyedSnapshot) else state).items():
            code = self._codes.add(name)
            self._place(code)
            self._dirty[code] = False
            yield code, json.loads(bytes(content))

    def _begin(self) -> None:
        self._codes.clear()
        self._dirty = np.zeros(16, np.bool_)
        self.shard = np.zeros(16, np.int64)
        self.in_shards = np.zeros(self.shards, np.int64)
        self._forgotten: set[str] = set()
        """The keys that were forgotten since the last save."""

    def _place(self, code: int) -> None:
        """Find the shard of a new key."""
        if code >= len(self.shard):
            self._dirty = np.r_[self._dirty, np.zeros(code, np.bool_)]
            self.shard = np.r_[self.shard, np.zeros(code, np.int64)]
        name = self.names[code]
        self.shard[code] = shard = shard_of(name, self.shards)
        self.in_shards[shard] += 1
        self._forgotten.discard(name)


def write_json(saved: Mapping[str, Any]) -> bytes:
    """A state as JSON."""
    return json.dumps(saved, ensure_ascii=False, separators=(",", ":")).encode()
