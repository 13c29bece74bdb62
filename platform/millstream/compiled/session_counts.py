"""The compiled table of open sessions: the first and the last time of each, and the counts of its topics.

A row of `sessions` is a session, with the columns `KEY` (-1 for a free row), `FIRST`, `LAST`, `NEXT` and `COUNTS`; the
sessions of a key are a chain from `heads[key]` on, by `NEXT`. A row of `counts` is the count of a topic in a session,
with the columns `SESSION` (-1 for a free row), `TOPIC`, `COUNT`, `NEXT` and `IN_BUCKET`. The counts of a session are a
chain from its `COUNTS` on, by `NEXT`, and those with one hash are a chain from a bucket on, by `IN_BUCKET`. The free
rows of both tables are chains from `free[0]` and `free[1]` on, by `NEXT`; `free[2]` and `free[3]` are their numbers.

`uses` is the number of sessions with each topic, and `open_in_shards` that of sessions with a topic, by shard.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millstream.compiled.jit import compiled

__all__ = [
    "add_counts",
    "add_records",
    "add_sessions",
    "close_sessions",
    "contents_of",
    "fill_buckets",
    "free_rows",
]

_KEY, _FIRST, _LAST, _NEXT, _COUNTS = 0, 1, 2, 3, 4
_SESSION, _TOPIC, _COUNT, _IN_BUCKET = 0, 1, 2, 4
_ODD = np.uint64(0x9E3779B97F4A7C15)


@compiled
def add_records(
    codes: Any,
    times: Any,
    topics: Any,
    gap: Any,
    heads: Any,
    sessions: Any,
    counts: Any,
    buckets: Any,
    free: Any,
    uses: Any,
    shard_of: Any,
    open_in_shards: Any,
) -> None:
    """Add records to the sessions of their keys; -1 is no topic. There must be a free row for each record."""
    for index in range(len(codes)):
        code, time = codes[index], times[index]
        into, before, at = -1, -1, heads[code]
        while at >= 0:
            after = sessions[at, _NEXT]
            if not _is_near(sessions[at, _FIRST], sessions[at, _LAST], time, gap):
                before = at
            elif into < 0:
                into = before = at
                sessions[at, _FIRST] = min(sessions[at, _FIRST], time)
                sessions[at, _LAST] = max(sessions[at, _LAST], time)
            else:  # the record joins two sessions
                sessions[into, _FIRST] = min(sessions[into, _FIRST], sessions[at, _FIRST])
                sessions[into, _LAST] = max(sessions[into, _LAST], sessions[at, _LAST])
                sessions[before, _NEXT] = after
                row = sessions[at, _COUNTS]
                open_in_shards[shard_of[code]] -= row >= 0
                while row >= 0:
                    following, topic, count = counts[row, _NEXT], counts[row, _TOPIC], counts[row, _COUNT]
                    _remove(row, counts, buckets, free, uses)
                    _count(into, topic, count, sessions, counts, buckets, free, uses, shard_of, open_in_shards)
                    row = following
                _release(at, sessions, free)
            at = after
        if into < 0:
            into = _begin(code, time, time, heads, sessions, free)
        if topics[index] >= 0:
            _count(into, topics[index], 1, sessions, counts, buckets, free, uses, shard_of, open_in_shards)


@compiled
def close_sessions(
    until: Any,
    heads: Any,
    sessions: Any,
    counts: Any,
    buckets: Any,
    free: Any,
    uses: Any,
    shard_of: Any,
    open_in_shards: Any,
) -> Any:
    """Remove the sessions whose last record is not after `until`.

    Return their keys, their first and their last times, the number of topics up to each session's end, and the topics
    with their counts.
    """
    closing, found = 0, 0
    for at in range(len(sessions)):
        if sessions[at, _KEY] >= 0 and sessions[at, _LAST] <= until:
            closing += 1
            found += _number_of_topics(sessions[at, _COUNTS], counts)
    codes, firsts, lasts, stops, topics, numbers = _arrays(closing, found)
    closed, made = 0, 0
    for at in range(len(sessions)):
        code = sessions[at, _KEY]
        if code < 0 or sessions[at, _LAST] > until:
            continue
        row = sessions[at, _COUNTS]
        open_in_shards[shard_of[code]] -= row >= 0
        made = _copy_topics(row, counts, topics, numbers, made)
        while row >= 0:
            following = counts[row, _NEXT]
            _remove(row, counts, buckets, free, uses)
            row = following
        codes[closed], firsts[closed], lasts[closed] = code, sessions[at, _FIRST], sessions[at, _LAST]
        stops[closed] = made
        closed += 1
        if heads[code] == at:
            heads[code] = sessions[at, _NEXT]
        else:
            before = heads[code]
            while sessions[before, _NEXT] != at:
                before = sessions[before, _NEXT]
            sessions[before, _NEXT] = sessions[at, _NEXT]
        _release(at, sessions, free)
    return codes, firsts, lasts, stops, topics, numbers


@compiled
def contents_of(codes: Any, heads: Any, sessions: Any, counts: Any) -> Any:
    """The open sessions of these keys.

    Return for each session the index of its key, its first and its last time, and the number of topics up to its end;
    and the topics with their counts.
    """
    held, found = 0, 0
    for code in codes:
        at = heads[code]
        while at >= 0:
            held += 1
            found += _number_of_topics(sessions[at, _COUNTS], counts)
            at = sessions[at, _NEXT]
    keys, firsts, lasts, stops, topics, numbers = _arrays(held, found)
    held, found = 0, 0
    for index in range(len(codes)):
        at = heads[codes[index]]
        while at >= 0:
            found = _copy_topics(sessions[at, _COUNTS], counts, topics, numbers, found)
            keys[held], firsts[held], lasts[held], stops[held] = index, sessions[at, _FIRST], sessions[at, _LAST], found
            held += 1
            at = sessions[at, _NEXT]
    return keys, firsts, lasts, stops, topics, numbers


@compiled
def add_sessions(codes: Any, firsts: Any, lasts: Any, heads: Any, sessions: Any, free: Any) -> Any:
    """Add sessions that are not near to each other, and return their rows."""
    rows = np.empty(len(codes), np.int64)
    for index in range(len(codes)):
        rows[index] = _begin(codes[index], firsts[index], lasts[index], heads, sessions, free)
    return rows


@compiled
def add_counts(
    rows: Any,
    topics: Any,
    numbers: Any,
    sessions: Any,
    counts: Any,
    buckets: Any,
    free: Any,
    uses: Any,
    shard_of: Any,
    open_in_shards: Any,
) -> None:
    """Add counts of topics to the sessions in these rows."""
    for index in range(len(rows)):
        _count(
            rows[index],
            topics[index],
            numbers[index],
            sessions,
            counts,
            buckets,
            free,
            uses,
            shard_of,
            open_in_shards,
        )


@compiled
def free_rows(table: Any, start: Any, free: Any, which: Any) -> None:
    """Make the rows of a table from `start` on free: of sessions (0) or of counts (1)."""
    for row in range(len(table) - 1, start - 1, -1):
        table[row, 0], table[row, _NEXT] = -1, free[which]
        free[which] = row
    free[2 + which] += len(table) - start


@compiled
def fill_buckets(counts: Any, buckets: Any) -> None:
    """Put all counts into buckets that are empty."""
    for row in range(len(counts)):
        if counts[row, _SESSION] >= 0:
            place = _bucket(counts[row, _SESSION], counts[row, _TOPIC], buckets)
            counts[row, _IN_BUCKET] = buckets[place]
            buckets[place] = row


@compiled
def _arrays(sessions: Any, topics: Any) -> Any:
    """Arrays for sessions (keys, first and last times, ends of topics), and for topics with their counts."""
    return (
        np.empty(sessions, np.int64),
        np.empty(sessions, np.int64),
        np.empty(sessions, np.int64),
        np.empty(sessions, np.int64),
        np.empty(topics, np.int64),
        np.empty(topics, np.int64),
    )


@compiled
def _number_of_topics(row: Any, counts: Any) -> Any:
    """The number of counts in the chain from this row on."""
    number = 0
    while row >= 0:
        number += 1
        row = counts[row, _NEXT]
    return number


@compiled
def _copy_topics(row: Any, counts: Any, topics: Any, numbers: Any, stop: Any) -> Any:
    """Append the topics in the chain from this row on, with their counts, to those before `stop`; return the end."""
    while row >= 0:
        topics[stop], numbers[stop] = counts[row, _TOPIC], counts[row, _COUNT]
        stop += 1
        row = counts[row, _NEXT]
    return stop


@compiled
def _is_near(first: Any, last: Any, time: Any, gap: Any) -> Any:
    if time < first:  # as unsigned, because the difference of two int64 may not be one
        return np.uint64(first) - np.uint64(time) < np.uint64(gap)
    if time > last:
        return np.uint64(time) - np.uint64(last) < np.uint64(gap)
    return True


@compiled
def _bucket(session: Any, topic: Any, buckets: Any) -> Any:
    mixed = (np.uint64(session) * _ODD) ^ np.uint64(topic)
    mixed *= _ODD
    return np.int64((mixed >> np.uint64(32)) & np.uint64(len(buckets) - 1))


@compiled
def _begin(code: Any, first: Any, last: Any, heads: Any, sessions: Any, free: Any) -> Any:
    at = free[0]
    free[0] = sessions[at, _NEXT]
    free[2] -= 1
    sessions[at, _KEY], sessions[at, _FIRST], sessions[at, _LAST] = code, first, last
    sessions[at, _NEXT], sessions[at, _COUNTS] = heads[code], -1
    heads[code] = at
    return at


@compiled
def _release(at: Any, sessions: Any, free: Any) -> None:
    """Free the row of a session, which its key has left."""
    sessions[at, _KEY], sessions[at, _NEXT] = -1, free[0]
    free[0] = at
    free[2] += 1


@compiled
def _count(
    session: Any,
    topic: Any,
    number: Any,
    sessions: Any,
    counts: Any,
    buckets: Any,
    free: Any,
    uses: Any,
    shard_of: Any,
    open_in_shards: Any,
) -> None:
    place = _bucket(session, topic, buckets)
    row = buckets[place]
    while row >= 0:
        if counts[row, _SESSION] == session and counts[row, _TOPIC] == topic:
            counts[row, _COUNT] += number
            return
        row = counts[row, _IN_BUCKET]
    row = free[1]
    free[1] = counts[row, _NEXT]
    free[3] -= 1
    counts[row, _SESSION], counts[row, _TOPIC], counts[row, _COUNT] = session, topic, number
    counts[row, _NEXT], counts[row, _IN_BUCKET] = sessions[session, _COUNTS], buckets[place]
    if sessions[session, _COUNTS] < 0:
        open_in_shards[shard_of[sessions[session, _KEY]]] += 1
    sessions[session, _COUNTS] = buckets[place] = row
    uses[topic] += 1


@compiled
def _remove(row: Any, counts: Any, buckets: Any, free: Any, uses: Any) -> None:
    """Free the row of a count, which its session has left."""
    place = _bucket(counts[row, _SESSION], counts[row, _TOPIC], buckets)
    if buckets[place] == row:
        buckets[place] = counts[row, _IN_BUCKET]
    else:
        before = buckets[place]
        while counts[before, _IN_BUCKET] != row:
            before = counts[before, _IN_BUCKET]
        counts[before, _IN_BUCKET] = counts[row, _IN_BUCKET]
    uses[counts[row, _TOPIC]] -= 1
    counts[row, _SESSION], counts[row, _NEXT] = -1, free[1]
    free[1] = row
    free[3] += 1
