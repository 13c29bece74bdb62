"""The arrays of open sessions, which grow as needed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from millstream.arrays import Array

__all__ = ["SessionTable", "Sessions"]

_COLUMNS = 5
"""The columns of both tables: see `millstream.compiled.session_counts`."""


class Sessions(NamedTuple):
    """Sessions: the code of the key of each, its first and last times, and its topics, which end before `stops`."""

    codes: Array
    firsts: Array
    lasts: Array
    stops: Array
    topics: Array
    numbers: Array


class SessionTable:
    """The open sessions of each key by its code, and the counts of topics in each of them."""

    def __init__(self, shards: int) -> None:
        self.heads = np.full(16, -1, np.int64)
        """The first session of each key; -1 for none."""
        self.uses = np.zeros(16, np.int64)
        """The number of sessions that have each topic."""
        self.open_in_shards = np.zeros(shards, np.int64)
        self._sessions = np.zeros((0, _COLUMNS), np.int64)
        self._counts = np.zeros((0, _COLUMNS), np.int64)
        self._buckets = np.full(16, -1, np.int64)
        self._free = np.array([-1, -1, 0, 0], np.int64)

    def make_room(self, keys: int, topics: int, records: int) -> None:
        """Make room for this number of keys and of topics, and for so many more sessions and counts."""
        from millstream.compiled.session_counts import fill_buckets

        if keys > len(self.heads):
            self.heads = np.r_[self.heads, np.full(keys, -1, np.int64)]
        if topics > len(self.uses):
            self.uses = np.r_[self.uses, np.zeros(topics, np.int64)]
        self._sessions = self._with_room(0, self._sessions, records)
        self._counts = self._with_room(1, self._counts, records)
        if len(self._counts) > len(self._buckets):
            self._buckets = np.full(1 << (len(self._counts) - 1).bit_length(), -1, np.int64)
            fill_buckets(self._counts, self._buckets)

    def add(self, codes: Array, times: Array, topics: Array, gap: int, shard_of: Array) -> None:
        """Add records to the sessions of their keys; the topic -1 is none."""
        from millstream.compiled.session_counts import add_records

        add_records(codes, times, topics, gap, self.heads, *self._counted(shard_of))

    def close(self, until: int, shard_of: Array) -> Sessions:
        """Remove the sessions whose last record is not after `until`, and return them."""
        from millstream.compiled.session_counts import close_sessions

        return Sessions(*close_sessions(until, self.heads, *self._counted(shard_of)))

    def contents(self, codes: Array) -> Sessions:
        """The open sessions of these keys; `codes` of the result are indices of `codes`."""
        from millstream.compiled.session_counts import contents_of

        return Sessions(*contents_of(codes, self.heads, self._sessions, self._counts))

    def add_sessions(self, sessions: Array) -> Array:
        """Add sessions, which are not near to each other: for each its key, its first and its last time."""
        from millstream.compiled import session_counts

        codes, firsts, lasts = np.ascontiguousarray(sessions.T)
        added: Array = session_counts.add_sessions(codes, firsts, lasts, self.heads, self._sessions, self._free)
        return added

    def add_counts(self, rows: Array, topics: Array, numbers: Array, shard_of: Array) -> None:
        """Add counts of topics to the sessions that `add_sessions` put into these rows."""
        from millstream.compiled import session_counts

        session_counts.add_counts(rows, topics, np.ascontiguousarray(numbers), *self._counted(shard_of))

    def _counted(self, shard_of: Array) -> tuple[Array, ...]:
        tables = (self._sessions, self._counts, self._buckets, self._free)
        return (*tables, self.uses, shard_of, self.open_in_shards)

    def _with_room(self, which: int, table: Array, rows: int) -> Array:
        from millstream.compiled.session_counts import free_rows

        missing = rows - int(self._free[2 + which])
        if missing <= 0:
            return table
        size = len(table)
        longer = np.concatenate([table, np.zeros((max(missing, size), _COLUMNS), np.int64)])
        free_rows(longer, size, self._free, which)
        return longer
