"""State by key with snapshots, so that the cost of a checkpoint depends on the changed keys and not on all keys.

A snapshot copies nothing when it is taken: it is a view of the values at that moment. When the step writes to a key for
the first time afterwards, the newest snapshot keeps the previous value. So the keys that changed between two snapshots
are the keys whose values the earlier one and those in between keep. It does not matter which of the snapshots became
checkpoints.

The keys are divided into shards. Each shard has a storage and snapshots of its own, so that one shard is saved and
loaded without reading another one.
"""

from __future__ import annotations

import itertools
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from typing import Any, Protocol, TypeVar

from millstream.state.shards import SHARDS, shard_of

__all__ = [
    "Entries",
    "KeyedSnapshot",
    "KeyedStore",
    "Memory",
    "ShardedSnapshot",
    "Storage",
    "Values",
    "divide",
    "in_memory",
    "merge_parts",
]

_KEYS_PER_PART = 4096
_Value = TypeVar("_Value")


class KeyedSnapshot(Mapping[str, bytes]):
    """The state of a keyed step at one moment, as bytes by key. It stays the same while the step continues."""

    __slots__ = ()

    @abstractmethod
    def since(self, earlier: object) -> Mapping[str, bytes | None] | None:
        """The changes since an earlier state of the same step; a key that was deleted has the value None.

        None instead of the changes, if they are unknown for this other state.
        """

    @abstractmethod
    def parts(self) -> Iterator[Mapping[str, bytes | None]]:
        """The complete state in parts of some keys each. A later part overrides an earlier one; None deletes a key.

        So a state that is larger than memory can be read.
        """

    def to_dict(self) -> dict[str, bytes]:
        """A copy of the complete state."""
        return merge_parts(self.parts())

    def in_order(self) -> Iterator[tuple[str, bytes]]:
        """The complete state in the order of the keys."""
        return iter(sorted(self.to_dict().items()))

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())


def merge_parts(parts: Iterable[Mapping[str, bytes | None]]) -> dict[str, bytes]:
    """Merge parts of a state; a later part overrides an earlier one, and None deletes a key."""
    merged: dict[str, bytes | None] = {}
    for part in parts:
        merged.update(part)
        if None in part.values():
            for key in [key for key, value in part.items() if value is None]:
                del merged[key]
    return merged  # type: ignore[return-value]  # no None is left


class Entries(KeyedSnapshot):
    """The state of a keyed step that holds a dict: `since` compares all keys, and returns the changes.

    >>> Entries({"ann": b"2", "cleo": b"1"}).since(Entries({"ann": b"1", "bob": b"1"}))
    {'ann': b'2', 'cleo': b'1', 'bob': None}
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, bytes]) -> None:
        self._entries = dict(entries)

    def since(self, earlier: object) -> Mapping[str, bytes | None] | None:
        if not isinstance(earlier, Entries):
            return None
        before = earlier._entries
        changed: dict[str, bytes | None] = {k: value for k, value in self._entries.items() if before.get(k) != value}
        return changed | dict.fromkeys(key for key in before if key not in self._entries)

    def parts(self) -> Iterator[Mapping[str, bytes | None]]:
        yield self._entries

    def __getitem__(self, key: str) -> bytes:
        return self._entries[key]


class ShardedSnapshot(KeyedSnapshot):
    """The state of a keyed step, divided into shards.

    >>> state = ShardedSnapshot([Entries(part) for part in divide({"ann": b"1", "bob": b"2"}, 64)])
    >>> state["bob"], state.by_shard[13].to_dict(), list(state.in_order())
    (b'2', {'ann': b'1'}, [('ann', b'1'), ('bob', b'2')])
    """

    __slots__ = ("by_shard",)

    def __init__(self, by_shard: Sequence[KeyedSnapshot]) -> None:
        self.by_shard = by_shard

    def since(self, earlier: object) -> Mapping[str, bytes | None] | None:
        if not isinstance(earlier, ShardedSnapshot) or len(earlier.by_shard) != len(self.by_shard):
            return None
        merged: dict[str, bytes | None] = {}
        for now, before in zip(self.by_shard, earlier.by_shard, strict=True):
            changed = now.since(before)
            if changed is None:
                return None
            merged.update(changed)
        return merged

    def parts(self) -> Iterator[Mapping[str, bytes | None]]:
        for shard in self.by_shard:
            yield from shard.parts()

    def in_order(self) -> Iterator[tuple[str, bytes]]:
        return merge(*(shard.in_order() for shard in self.by_shard))

    def __getitem__(self, key: str) -> bytes:
        return self.by_shard[shard_of(key, len(self.by_shard))][key]

    def __reduce__(self) -> tuple[type[Entries], tuple[dict[str, bytes]]]:
        return Entries, (self.to_dict(),)


def divide(entries: Mapping[str, _Value], shards: int) -> list[dict[str, _Value]]:
    """Divide a mapping by the shards of its keys."""
    divided: list[dict[str, _Value]] = [{} for _ in range(shards)]
    for key, value in entries.items():
        divided[shard_of(key, shards)][key] = value
    return divided


class Values(Protocol):
    """The storage of one shard of a `KeyedStore`. One thread writes; another may read at the same time."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, value: bytes | None) -> None:
        """Set a value, or delete the key with None."""
        ...

    def put_all(self, part: Mapping[str, bytes | None]) -> None: ...

    def entries(self) -> Iterator[tuple[str, bytes]]:
        """All keys and values at the time of the call; later writes do not change the result."""
        ...

    def in_order(self) -> Iterator[tuple[str, bytes]]:
        """The same as `entries`, in the order of the keys."""
        ...


Storage = Callable[[int], Sequence[Values]]
"""Makes the storages of so many shards."""


class Memory:
    """Values in a dict."""

    def __init__(self) -> None:
        self._entries: dict[str, bytes] = {}
        self.get: Callable[[str], bytes | None] = self._entries.get

    def put(self, key: str, value: bytes | None) -> None:
        if value is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = value

    def put_all(self, part: Mapping[str, bytes | None]) -> None:
        if None in part.values():
            for key, value in part.items():
                self.put(key, value)
        else:
            self._entries.update(part)  # type: ignore[arg-type]  # there is no None

    def entries(self) -> Iterator[tuple[str, bytes]]:
        return iter(self._entries.copy().items())

    def in_order(self) -> Iterator[tuple[str, bytes]]:
        return iter(sorted(self._entries.copy().items()))


def in_memory(shards: int) -> Sequence[Values]:
    """Storage in dicts, one for each shard."""
    return [Memory() for _ in range(shards)]


class KeyedStore:
    """The state of a keyed step, with snapshots. `make` creates the storage of the values.

    The state that is restored decides the number of shards; a new store has the default number.

    >>> store = KeyedStore()
    >>> store.put("ann", b"1")
    >>> store.put("bob", b"1")
    >>> first = store.snapshot()
    >>> store.put("ann", b"2")
    >>> store.put("bob", None)
    >>> store.get("ann"), dict(first), store.snapshot().since(first)
    (b'2', {'ann': b'1', 'bob': b'1'}, {'ann': b'2', 'bob': None})
    """

    def __init__(self, make: Storage = in_memory) -> None:
        self._make = make
        self._begin(SHARDS)

    @property
    def shards(self) -> int:
        """The number of shards."""
        return len(self._shards)

    def get(self, key: str) -> bytes | None:
        return self._shard_of(key).values.get(key)

    def put(self, key: str, value: bytes | None) -> None:
        """Set a value, or delete the key with None."""
        self._shard_of(key).put(key, value)

    def snapshot(self) -> ShardedSnapshot:
        """A snapshot of all values."""
        return ShardedSnapshot([shard.snapshot() for shard in self._shards])

    def restore(self, state: Mapping[str, Any]) -> None:
        """Replace all values by a state from any kind of snapshot or mapping; earlier snapshots stay the same."""
        if isinstance(state, ShardedSnapshot):
            self._begin(len(state.by_shard))
            for shard, stored in zip(self._shards, state.by_shard, strict=True):
                for part in stored.parts():
                    shard.values.put_all(part)
            return
        self._begin(len(self._shards))
        whole = state.to_dict() if isinstance(state, KeyedSnapshot) else {key: bytes(state[key]) for key in state}
        for shard, entries in zip(self._shards, divide(whole, len(self._shards)), strict=True):
            shard.values.put_all(entries)

    def _begin(self, shards: int) -> None:
        self._shards = [_Shard(values) for values in self._make(shards)]
        self._key: str | None = None
        self._found = self._shards[0]

    def _shard_of(self, key: str) -> _Shard:
        if key != self._key:  # a step gets a value and puts it next
            self._key, self._found = key, self._shards[shard_of(key, len(self._shards))]
        return self._found


class _Shard:
    """The values of one shard, and the newest snapshot of them."""

    __slots__ = ("_newest", "values")

    def __init__(self, values: Values) -> None:
        self.values = values
        self._newest: Callable[[], _Snapshot | None] = _none

    def put(self, key: str, value: bytes | None) -> None:
        newest = self._newest()
        if newest is not None and key not in newest.before:
            newest.before[key] = self.values.get(key)
        self.values.put(key, value)

    def snapshot(self) -> KeyedSnapshot:
        """A snapshot of all values; the same object as the one before if nothing was written since."""
        newest = self._newest()
        if newest is not None and not newest.before:
            return newest
        made = _Snapshot(self.values)
        if newest is not None:
            newest.after = made
        self._newest = weakref.ref(made)
        return made


def _none() -> None:
    return None


class _Snapshot(KeyedSnapshot):
    """The values of a shard at one moment.

    `before` has the previous values of the keys that were written to after this snapshot and before the next one, which
    is `after`. The store writes to `before` first and to its values then. So a reader without a lock reads the values
    first and `before` then: a value that is too new for the snapshot has its key in `before`.
    """

    __slots__ = ("__weakref__", "_values", "after", "before")

    def __init__(self, values: Values) -> None:
        self._values = values
        self.before: dict[str, bytes | None] = {}
        self.after: _Snapshot | None = None

    def since(self, earlier: object) -> Mapping[str, bytes | None] | None:
        keys: dict[str, None] = {}
        link = earlier if isinstance(earlier, _Snapshot) else None
        while link is not self:
            if link is None:
                return None
            keys |= dict.fromkeys(link.before)
            link = link.after
        return {key: self._value_of(key) for key in keys}

    def parts(self) -> Iterator[Mapping[str, bytes | None]]:
        entries = self._values.entries()
        before = self._changed_values()
        yield {key: value for key, value in before.items() if value is not None}
        while chunk := list(itertools.islice(entries, _KEYS_PER_PART)):
            yield {key: value for key, value in chunk if key not in before}

    def in_order(self) -> Iterator[tuple[str, bytes]]:
        entries = self._values.in_order()
        before = self._changed_values()
        unchanged = ((key, value) for key, value in entries if key not in before)
        return merge(sorted((key, value) for key, value in before.items() if value is not None), unchanged)

    def __getitem__(self, key: str) -> bytes:
        value = self._value_of(key)
        if value is None:
            raise KeyError(key)
        return value

    def __reduce__(self) -> tuple[type[Entries], tuple[dict[str, bytes]]]:
        return Entries, (self.to_dict(),)

    def _value_of(self, key: str) -> bytes | None:
        value = self._values.get(key)
        link: _Snapshot | None = self
        while link is not None:
            after = link.after
            if key in link.before:
                return link.before[key]
            link = after
        return value

    def _changed_values(self) -> dict[str, bytes | None]:
        """The values that this snapshot has for the keys written to since. Begin to read the store's values before."""
        changed: dict[str, bytes | None] = {}
        link: _Snapshot | None = self
        while link is not None:
            after = link.after
            changed = link.before.copy() | changed
            link = after
        return changed
