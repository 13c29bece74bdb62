"""The open sessions of many keys with the counts of their topics: in arrays, for speed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.steps.contracts import State, WindowRows
from millstream.steps.session_table import SessionTable
from millstream.steps.topic_shares import TopicShares
from millstream.steps.windowed.codes import Codes
from millstream.steps.windowed.key_codes import KeyCodes, write_json
from millstream.steps.windowed.open_windows import Added
from millstream.steps.windowed.options import WindowedOptions
from millstream.steps.windowed.rows import MadeRows, RowColumns
from millstream.substreams import Watermark
from millstream.substreams.windows import SessionWindow, Windows
from millstream.substreams.windows.contracts import GREATEST, LEAST
from millstream.substreams.windows.times import LateTimes

__all__ = ["TopicSessions"]


class TopicSessions:
    """The sessions of each key, without early rows: rows and state are those of `PanesByKey`, and take less time."""

    def __init__(self, options: WindowedOptions, windows: Windows, measure: TopicShares, columns: RowColumns) -> None:
        assert isinstance(options.window, SessionWindow) and options.by is not None and options.emit is None
        self._gap, self._lateness = options.window.gap, options.window.lateness
        self._measure, self._columns = measure, columns
        self._keys = KeyCodes()
        self._begin()

    @property
    def open_in_shards(self) -> Array:
        return self._table.open_in_shards

    @property
    def keys_in_shards(self) -> Array:
        return self._keys.in_shards

    def add(self, records: pa.Table, read: pa.DictionaryArray, keys: pa.DictionaryArray | None) -> Added:
        assert keys is not None
        codes, new = self._keys.codes(keys)
        topics, new_topics = self._topics.of(read)
        timely = self._late.divide(records, codes)
        table = self._table
        table.make_room(len(self._keys.names), len(self._topics.names), len(timely.rows))
        times = np.array(timely.values)  # a copy: code is compiled once more for arrays that are read-only
        table.add(codes[timely.rows], times, topics[timely.rows], self._gap, self._keys.shard)
        self._forget_closed(np.array(new, np.int64))  # a new key may have no record in time
        self._forget_unused(new_topics)
        return Added(self._columns.none, timely.late, timely.late_values, timely.untimed)

    def end(self, watermark: Watermark) -> MadeRows:
        self.resume(watermark)
        if self._late.before == LEAST or not self._keys.names:
            return self._columns.none
        closed = self._table.close(min(self._late.before - 1, GREATEST), self._keys.shard)
        if not len(closed.codes):
            return self._columns.none
        made = self._rows(closed.codes, closed.firsts, closed.lasts, closed.stops, closed.topics, closed.numbers)
        self._keys.change(closed.codes)
        self._forget_closed(np.unique(closed.codes))
        self._forget_unused(np.flatnonzero(np.bincount(closed.topics)).tolist())
        return made

    def resume(self, watermark: Watermark) -> None:
        self._late.rise(watermark, self._gap + self._lateness - 1)

    def save(self) -> State:
        return self._keys.save(self._written)

    def restore(self, state: State) -> None:
        entries = self._keys.restore(state)
        self._begin()
        if not entries:
            return
        sessions: list[tuple[int, int, int]] = []
        counts: list[tuple[int, str, int]] = []
        for code, saved in entries:
            open_ = dict(saved["open"])
            for first, last in saved["windows"]["sessions"]:
                counts += [(len(sessions), topic, count) for topic, count in open_.get(first, ())]
                sessions.append((code, first, last))
        topics, _ = self._topics.of(pa.array([topic for _, topic, _ in counts], pa.string()).dictionary_encode())
        self._table.make_room(len(self._keys.names), len(self._topics.names), max(len(sessions), len(counts)))
        rows = self._table.add_sessions(np.array(sessions, np.int64).reshape(-1, 3))
        numbers = np.array([(place, count) for place, _, count in counts], np.int64).reshape(-1, 2)
        self._table.add_counts(rows[numbers[:, 0]], topics, numbers[:, 1], self._keys.shard)

    def _begin(self) -> None:
        self._late = LateTimes()
        self._topics = Codes()
        self._table = SessionTable(self._keys.shards)

    def _forget_closed(self, codes: Array) -> None:
        """Forget those of these keys that have no open session."""
        closed = codes[self._table.heads[codes] < 0]
        if len(closed):
            self._keys.forget(closed.tolist())

    def _forget_unused(self, topics: Sequence[int]) -> None:
        for topic in topics:
            if not self._table.uses[topic]:
                self._topics.forget(topic)

    def _rows(self, codes: Array, firsts: Array, lasts: Array, stops: Array, topics: Array, numbers: Array) -> MadeRows:
        """The rows of sessions that close: ordered by their end, their key and the topic."""
        if not len(topics):
            return self._columns.none
        sizes = np.diff(stops, prepend=0)
        names = [self._keys.names[code] for code in codes.tolist()]
        order = np.argsort(lasts, kind="stable")
        if (np.diff(lasts[order]) == 0).any():
            order = np.array(sorted(range(len(names)), key=lambda index: (lasts[index], names[index])), np.int64)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        ranked, ranks = self._in_order(topics)
        totals = np.add.reduceat(np.r_[numbers, 0], np.r_[0, stops[:-1]]) if len(stops) else sizes
        rows = np.lexsort((ranks, np.repeat(place, sizes)))
        measured = [pa.array(ranked, pa.string()).take(pa.array(ranks[rows]))]
        measured += self._measure.columns_of(numbers[rows], np.repeat(totals, sizes)[rows])
        kept = order[sizes[order] > 0]
        counts = sizes[kept]
        firsts, lasts = np.repeat(firsts[kept], counts), np.repeat(lasts[kept], counts)
        times = np.where(lasts > GREATEST - (self._gap - 1), GREATEST, lasts + (self._gap - 1))
        windows = WindowRows(pa.array(firsts), pa.array(times))
        return self._columns.table(
            [names[index] for index in kept.tolist()], counts, windows.numbers, measured, windows
        )

    def _in_order(self, topics: Array) -> tuple[list[str], Array]:
        """The names of these topics in their order, and the place of each topic in it."""
        present = np.flatnonzero(np.bincount(topics))
        names = [self._topics.names[topic] for topic in present.tolist()]
        order = sorted(range(len(names)), key=names.__getitem__)
        rank = np.zeros(int(present[-1]) + 1 if len(present) else 0, np.int64)
        rank[present[order]] = np.arange(len(order))
        return [names[index] for index in order], rank[topics]

    def _written(self, codes: Array) -> Iterator[bytes]:
        """The states of these keys as `PanesByKey` writes them; written here without objects, which take long."""
        if not len(codes):
            return
        found = self._table.contents(codes)
        ranked, ranks = self._in_order(found.topics)
        sizes = np.diff(found.stops, prepend=0)
        order = np.lexsort((found.firsts, found.codes))  # the sessions in their order, then the topics in theirs
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        rows = np.lexsort((ranks, np.repeat(place, sizes)))
        topics = [json.dumps(name, ensure_ascii=False) for name in ranked]
        counts = [
            f"[{topics[rank]},{count}]"
            for rank, count in zip(ranks[rows].tolist(), found.numbers[rows].tolist(), strict=True)
        ]
        stops = np.cumsum(sizes[order]).tolist()
        firsts, lasts = found.firsts[order].tolist(), found.lasts[order].tolist()
        rest = write_json(self._measure.save_past(self._measure.past()))[1:].decode()
        start = session = 0
        for held in np.bincount(found.codes, minlength=len(codes)).tolist():
            sessions, panes = [], []
            for index in range(session, session + held):
                sessions.append(f"[{firsts[index]},{lasts[index]}]")
                if (stop := stops[index]) > start:
                    panes.append(f"[{firsts[index]},[{','.join(counts[start:stop])}]]")
                start = stop
            session += held
            yield f'{{"windows":{{"sessions":[{",".join(sessions)}]}},"open":[{",".join(panes)}],{rest}'.encode()
