"""State by key, kept so that a checkpoint costs what has changed, and not all that is there.

Nothing is copied when a step checkpoints. What it checkpoints is a snapshot, a view of the values as they are now; when
a key is first written to after that, the snapshot keeps what was there before. So the keys that have changed between
two snapshots are those that the snapshots in between have kept, and it does not matter which of them were ever written.
"""

from __future__ import annotations

import itertools
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from typing import Any, Protocol

__all__ = ["Entries", "KeyedSnapshot", "KeyedStore", "Memory", "Values"]

_AT_ONCE = 4096


class KeyedSnapshot(Mapping[str, bytes]):
    """The state of a keyed step at one moment: bytes by key. It stays as it is while the step goes on."""

    __slots__ = ()

    @abstractmethod
    def since(self, earlier: object) -> Mapping[str, bytes | None] | None:
        """What has changed since an earlier state of the same step, None for keys that are gone.

        None if that is not known of this other state.
        """

    @abstractmethod
    def parts(self) -> Iterator[Mapping[str, bytes | None]]:
        """All of it, some keys at a time; where parts overlap the later one holds, and None is for keys that are gone.

        What is larger than memory goes through memory part by part.
        """

    def copied(self) -> dict[str, bytes]:
        """All of it at once."""
        return put_together(self.parts())

    def in_order(self) -> Iterator[tuple[str, bytes]]:
        """All of it, by key."""
        return iter(sorted(self.copied().items()))

    def __iter__(self) -> Iterator[str]:
        return iter(self.copied())

    def __len__(self) -> int:
        return len(self.copied())


def put_together(parts: Iterable[Mapping[str, bytes | None]]) -> dict[str, bytes]:
    """What parts come to, one over the other."""
    whole: dict[str, bytes | None] = {}
    for part in parts:
        whole.update(part)
        if None in part.values():
            for key in [key for key, value in part.items() if value is None]:
                del whole[key]
    return whole  # type: ignore[return-value]  # no None is left


class Entries(KeyedSnapshot):
    """The state of a keyed step that keeps a dict: a checkpoint compares all of it, and writes what has changed.

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


class Values(Protocol):
    """Where a store has its values. One thread writes; another may read meanwhile."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, value: bytes | None) -> None:
        """Set a value, or forget it."""
        ...

    def put_all(self, part: Mapping[str, bytes | None]) -> None: ...

    def entries(self) -> Iterator[tuple[str, bytes]]:
        """All of them as they are when this is called, whatever is written later."""
        ...

    def in_order(self) -> Iterator[tuple[str, bytes]]:
        """The same, by key."""
        ...


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
            self._entries.update(part)  # type: ignore[arg-type]  # no None is there

    def entries(self) -> Iterator[tuple[str, bytes]]:
        return iter(self._entries.copy().items())

    def in_order(self) -> Iterator[tuple[str, bytes]]:
        return iter(sorted(self._entries.copy().items()))


class KeyedStore:
    """What a keyed step remembers. `make` gives the place where the values are.

    >>> store = KeyedStore()
    >>> store.put("ann", b"1")
    >>> store.put("bob", b"1")
    >>> first = store.snapshot()
    >>> store.put("ann", b"2")
    >>> store.put("bob", None)
    >>> store.get("ann"), dict(first), store.snapshot().since(first)
    (b'2', {'ann': b'1', 'bob': b'1'}, {'ann': b'2', 'bob': None})
    """

    def __init__(self, make: Callable[[], Values] = Memory) -> None:
        self._make = make
        self._values = make()
        self._newest: Callable[[], _Snapshot | None] = _none

    def get(self, key: str) -> bytes | None:
        return self._values.get(key)

    def put(self, key: str, value: bytes | None) -> None:
        """Set a value, or forget it with None."""
        newest = self._newest()
        if newest is not None and key not in newest.before:
            newest.before[key] = self._values.get(key)
        self._values.put(key, value)

    def snapshot(self) -> KeyedSnapshot:
        """All values as they are now."""
        newest = self._newest()
        if newest is not None and not newest.before:
            return newest
        made = _Snapshot(self._values)
        if newest is not None:
            newest.after = made
        self._newest = weakref.ref(made)
        return made

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, whatever has saved it; snapshots that were taken stay as they are."""
        values = self._make()
        for part in state.parts() if isinstance(state, KeyedSnapshot) else [{key: bytes(state[key]) for key in state}]:
            values.put_all(part)
        self._values, self._newest = values, _none


def _none() -> None:
    return None


class _Snapshot(KeyedSnapshot):
    """The values of a store at one moment.

    `before` has what the keys were that have been written to since, up to the snapshot that was taken next, `after`.
    The store writes to `before` first and to its values then, so whoever reads the values first and `before` then can
    tell that what they read is of a later time, although no lock is held.
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
        return {key: self._at(key) for key in keys}

    def parts(self) -> Iterator[Mapping[str, bytes | None]]:
        entries = self._values.entries()
        before = self._changed_since()
        yield {key: value for key, value in before.items() if value is not None}
        while some := list(itertools.islice(entries, _AT_ONCE)):
            yield {key: value for key, value in some if key not in before}

    def in_order(self) -> Iterator[tuple[str, bytes]]:
        entries = self._values.in_order()
        before = self._changed_since()
        unchanged = ((key, value) for key, value in entries if key not in before)
        return merge(sorted((key, value) for key, value in before.items() if value is not None), unchanged)

    def __getitem__(self, key: str) -> bytes:
        value = self._at(key)
        if value is None:
            raise KeyError(key)
        return value

    def __reduce__(self) -> tuple[type[Entries], tuple[dict[str, bytes]]]:
        return Entries, (self.copied(),)

    def _at(self, key: str) -> bytes | None:
        value = self._values.get(key)
        link: _Snapshot | None = self
        while link is not None:
            after = link.after
            if key in link.before:
                return link.before[key]
            link = after
        return value

    def _changed_since(self) -> dict[str, bytes | None]:
        """What the keys were that have been written to since. Whoever wants all values has begun to read them."""
        changed: dict[str, bytes | None] = {}
        link: _Snapshot | None = self
        while link is not None:
            after = link.after
            changed = link.before.copy() | changed
            link = after
        return changed
