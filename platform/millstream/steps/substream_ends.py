"""The substreams of keys in event time: the state of each, and its end."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from millstream.state.keyed_state import KeyedSnapshot, KeyedStore
from millstream.steps.contracts import State
from millstream.substreams import Watermark

__all__ = ["EndedKey", "KeySubstreams"]


class EndedKey(NamedTuple):
    """A key whose substream has ended: its end, the key, the time of its first record, and its last state."""

    end: int | None
    key: str
    first: int | None
    state: str


@dataclass
class OpenKey:
    """The substreams of one key: those that have ended and wait for the watermark, and the open one.

    `first` and `last` are the times in the open substream, and `state` is its state as JSON; None if none is open.
    """

    ended: list[tuple[int, int, str]]
    first: int | None = None
    last: int | None = None
    state: str | None = None

    def written(self) -> bytes | None:
        if self.state is None and not self.ended:
            return None
        return json.dumps([self.ended, self.first, self.last, self.state], ensure_ascii=False).encode()

    @staticmethod
    def read(stored: bytes | None) -> OpenKey:
        if stored is None:
            return OpenKey([])
        ended, *others = json.loads(stored)
        return OpenKey([tuple(each) for each in ended], *others)


class KeySubstreams:
    """The states of keys whose substreams end: `idle` after their last record, or `within` after their first.

    A record after the end begins the next substream of its key, wherever the watermark is; any other record belongs to
    the last substream, until the watermark has passed its end. So two substreams of a key never have the same first
    time. `ended` returns the substreams whose end the watermark has passed, each once. Without `idle` and `within`, the
    end of time ends all.

    >>> substreams = KeySubstreams(KeyedStore(), idle=10, within=None)
    >>> for time, state in ((1, "1"), (8, "2"), (30, "1")):
    ...     substreams.put("ann", substreams.open("ann", time), time, state)
    >>> substreams.ended(Watermark(19))
    [EndedKey(end=18, key='ann', first=1, state='2')]
    """

    def __init__(self, store: KeyedStore, idle: int | None, within: int | None) -> None:
        self._store = store
        self._watermark: int | None = None
        self._idle, self._within = idle, within
        self.timed = idle is not None or within is not None
        """True if substreams end in event time."""
        self.restore({})

    def open(self, key: str, time: int | None) -> OpenKey | None:
        """The substreams of a key for a record of this time; None if the record is late, as its substream has ended."""
        found = OpenKey.read(self._store.get(key))
        if not self.timed or time is None:
            return found
        if found.first is None and found.ended and time <= found.ended[-1][0]:
            self._reopen(found)
        if found.first is not None and found.last is not None and found.state is not None:
            end = self._end(found.first, found.last)
            if time <= end:
                return found
            found.ended.append((end, found.first, found.state))
            found.first = found.last = found.state = None
        late = self._watermark is not None and self._end(time, time) < self._watermark
        return None if late else found

    def last_since(self, time: int) -> int:
        """The latest beginning of a substream to which a record of this time, or of an earlier one, may belong."""
        return min(self._end(time, time), 2**63 - 1) if self.timed else 2**63 - 1

    def put(self, key: str, found: OpenKey, time: int | None, state: str | None) -> None:
        """Set the state after a record of this time; None closes the substream without an end."""
        found.state = state
        if state is None:
            found.first = found.last = None
        elif time is not None:
            found.first = time if found.first is None else found.first
            found.last = time if found.last is None else max(found.last, time)
        self._store.put(key, found.written())
        self._await(key, found)

    def ended(self, watermark: Watermark) -> list[EndedKey]:
        """The substreams that have ended with this watermark, in the order of their ends, keys and first records."""
        if watermark.time is None:
            return self._all_ended()
        self.resume(watermark)
        found: list[EndedKey] = []
        while self._queue and self._queue[0][0] < watermark.time:
            end, key = heapq.heappop(self._queue)
            if self._awaited.get(key) != end:
                continue
            del self._awaited[key]
            entry = OpenKey.read(self._store.get(key))
            found += self._take_ended(key, entry, watermark.time)
            self._store.put(key, entry.written())
            self._await(key, entry)
        return sorted(found)

    def resume(self, watermark: Watermark) -> None:
        """Take the last watermark, by which a record is late."""
        self._watermark = 2**63 if watermark.time is None else watermark.time  # later than all times

    def save(self) -> KeyedSnapshot:
        return self._store.snapshot()

    def restore(self, state: State) -> None:
        self._store.restore(state)
        self._watermark = None
        self._awaited: dict[str, int] = {}
        """The end for which each key is in the queue."""
        self._queue: list[tuple[int, str]] = []
        if self.timed:
            for key, entry in self._entries():
                self._await(key, entry)

    def _reopen(self, found: OpenKey) -> None:
        """Open the last substream again, since no later one is open, and its end is not before the record."""
        end, first, state = found.ended.pop()
        found.first, found.state = first, state
        found.last = first if self._idle is None else end - self._idle  # the same end follows from this time

    def _entries(self) -> Iterator[tuple[str, OpenKey]]:
        for key, stored in self._store.snapshot().in_order():
            yield key, OpenKey.read(stored)

    def _end(self, first: int, last: int) -> int:
        ends = []
        if self._idle is not None:
            ends.append(last + self._idle)
        if self._within is not None:
            ends.append(first + self._within)
        return min(ends)

    def _end_of(self, entry: OpenKey) -> int | None:
        """The end of the open substream; without `idle` and `within`, the time of its last record."""
        if not self.timed or entry.first is None or entry.last is None:
            return entry.last
        return self._end(entry.first, entry.last)

    def _await(self, key: str, entry: OpenKey) -> None:
        """Put a key into the queue, unless it is there for an end that is not later.

        A key whose end moves on stays where it is: it is looked at when its earlier end has passed.
        """
        ends = [end for end, _, _ in entry.ended]
        if self.timed and entry.first is not None and entry.last is not None:
            ends.append(self._end(entry.first, entry.last))
        if ends and (key not in self._awaited or min(ends) < self._awaited[key]):
            self._awaited[key] = min(ends)
            heapq.heappush(self._queue, (min(ends), key))

    def _take_ended(self, key: str, entry: OpenKey, watermark: int) -> list[EndedKey]:
        found = [EndedKey(end, key, first, state) for end, first, state in entry.ended if end < watermark]
        entry.ended = [each for each in entry.ended if each[0] >= watermark]
        if entry.first is not None and entry.last is not None and entry.state is not None:
            end = self._end(entry.first, entry.last)
            if end < watermark:
                found.append(EndedKey(end, key, entry.first, entry.state))
                entry.first = entry.last = entry.state = None
        return found

    def _all_ended(self) -> list[EndedKey]:
        """The substreams that are left at the end of time; no state is left."""
        found: list[EndedKey] = []
        for key, entry in self._entries():
            found += [EndedKey(end, key, first, state) for end, first, state in entry.ended]
            if entry.state is not None:
                found.append(EndedKey(self._end_of(entry), key, entry.first, entry.state))
            self._store.put(key, None)
        self.restore({})
        self.resume(Watermark(None))
        return sorted(found, key=lambda each: (each.end is not None, each.end or 0, each.key, each.first or 0))
