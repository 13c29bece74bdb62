"""The keys of a windowed step: each has a number, its open windows, and what it leaves for its next window."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.steps.windowed.sums import PaneSum
from millstream.substreams.windows.contracts import GREATEST

__all__ = ["Key", "Keys"]


@dataclass(slots=True)
class Key:
    """One key: its name, the contents of its panes, the memory of its windows, and its past.

    For early rows: `changed` has the panes that changed since the last one, `since` the interval of the first of these
    changes, and `emissions` the number of early rows of each open window that has some. They are None, as `past` is,
    until they are needed: there may be many keys. `sum` is for windows of several panes.
    """

    name: str
    memory: Any
    past: Any = None
    panes: dict[int, Any] = field(default_factory=dict)
    changed: set[int] | None = None
    since: int | None = None
    emissions: dict[int, int] | None = None
    sum: PaneSum | None = None


class Keys:
    """All keys by their codes; a code is used again after its key is forgotten.

    >>> keys = Keys()
    >>> codes = keys.codes(pa.array(["ann", "bob", None, "ann"]), lambda name: Key(name, None))
    >>> codes.tolist(), [keys[code].name for code in (0, 1)]
    ([0, 1, -1, 0], ['ann', 'bob'])
    >>> keys.forget(0)
    >>> len(keys), keys.codes(pa.array(["cleo"]), lambda name: Key(name, None)).tolist()
    (1, [0])
    """

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._keys: list[Key] = []
        self.memories: list[Any] = []
        """The memory of each key by its code."""
        self._free: list[int] = []
        self._due = np.zeros(0, np.int64)
        self.dirty = np.zeros(0, np.bool_)
        """The codes of the keys that changed since the last save."""

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, code: int) -> Key:
        return self._keys[code]

    def __contains__(self, name: str) -> bool:
        return name in self._codes

    def codes(self, names: pa.Array, make: Any) -> Array:
        """Return the code of each name, -1 for null; `make` makes a key that is new."""
        coded = names.dictionary_encode()
        known = self._codes
        found = [known[name] if name in known else self.add(make(name)) for name in coded.dictionary.to_pylist()]
        by_index = np.array([*found, -1], np.int64)
        codes: Array = by_index[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
        return codes

    def add(self, key: Key) -> int:
        """Add a key, and return its code."""
        if self._free:
            code = self._free.pop()
            self._keys[code], self.memories[code] = key, key.memory
        else:
            code = len(self._keys)
            self._keys.append(key)
            self.memories.append(key.memory)
            if code == len(self._due):
                room = max(16, code)
                self._due = np.r_[self._due, np.full(room, GREATEST)]
                self.dirty = np.r_[self.dirty, np.zeros(room, np.bool_)]
        self._codes[key.name] = code
        self._due[code] = GREATEST
        return code

    def forget(self, code: int) -> None:
        """Remove a key."""
        del self._codes[self[code].name]
        self._due[code] = GREATEST
        self.dirty[code] = False
        self._free.append(code)

    def used(self) -> list[int]:
        """The codes of all keys."""
        return list(self._codes.values())

    def set_due(self, codes: list[int], times: list[int]) -> None:
        """Set for each of these keys the watermark until which nothing happens to it."""
        self._due[codes] = times

    def due(self, time: int | None) -> list[int]:
        """The codes of the keys to which something may happen at this watermark; all keys at the end of time."""
        if time is None:
            return self.used()
        found: list[int] = np.flatnonzero(self._due[: len(self._keys)] <= time).tolist()
        return found
