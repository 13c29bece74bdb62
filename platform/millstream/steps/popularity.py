"""Popularity: the topics with a large share of each window, and the changes between windows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.records import no_records
from millstream.steps.column_checks import check_text_column
from millstream.steps.contracts import (
    Array,
    Output,
    Result,
    Scope,
    State,
    Step,
    Traits,
    position_fields,
    rejects_schema,
)
from millstream.steps.reject_rows import positions, reject_rows
from millstream.substreams import Watermark
from millstream.substreams.windows import WindowAssignment, WindowConfig, Windows

__all__ = ["Popularity"]


class Popularity(BaseModel):
    """Counts topics by window; a topic with a share of at least `threshold` of a window's records is popular there.

    A window's rows are made when it closes, ordered by topic. The output `topics`, with windows of an hour and a
    threshold of 0.10:

        _window               topic   count  share  popular  changed
        2026-03-01T08:00:00Z  sport      30   0.60  true     true       the first hour: sport becomes popular
        2026-03-01T08:00:00Z  travel     20   0.40  true     true
        2026-03-01T09:00:00Z  sport      95   0.95  true     false      still popular
        2026-03-01T09:00:00Z  travel      5   0.05  false    true       no longer popular
        2026-03-01T10:00:00Z  sport       0   0.00  false    true       no record about sport, which was popular

    - For alerts, keep the rows with `changed`: in these rows a topic became popular, or is no longer popular.
    - For the topics that are popular now, take the last `_window` and keep the rows with `popular`.
    - `_window` is the start of the window or, for windows that count records, the number of the window from 0.
    - `share` is relative to the window's records that have a topic. Records without a topic are not counted.
    - A topic has a row in every window in which it occurs, and in the window after one in which it was popular. Other
      windows and topics have no rows. After the last record of all partitions, no window follows.
    - `late` has the records whose window had already closed, with the `_window` that they missed. They are not counted.
    - `rejects` has, for windows over time, the records without a time. All records are passed on to the next step.

    >>> records = pa.table({"_rank": [0] * 4, "_offset": [0, 1, 2, 3], "_time": [0, 1, 2, 3], "predicted": [*"aaba"]})
    >>> step = Popularity(window={"type": "count", "size": 3}, threshold=0.5).build(records.schema)
    >>> step.process(records).outputs["topics"].select(["topic", "count", "popular"]).to_pylist()
    [{'topic': 'a', 'count': 2, 'popular': True}, {'topic': 'b', 'count': 1, 'popular': False}]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["popularity"] = "popularity"
    name: str | None = Field(default=None, description="The name in messages and in `rejects`; the type if unset.")
    of: str = Field(default="predicted", description="The field with the topic.")
    window: WindowConfig
    threshold: float = Field(default=0.1, gt=0, le=1, description="The smallest share of a popular topic.")

    def build(self, records: pa.Schema) -> Step:
        name = self.name or self.type
        check_text_column(f"step {name!r}, `of`", self.of, records, "topics")
        return _PopularityStep(name, self.of, self.window.open(), self.threshold, records)


_Row = tuple[int, str, int, float, bool, bool]
"""A row of `topics`, with the number of its window."""


class _PopularityStep:
    def __init__(self, name: str, of: str, windows: Windows, threshold: float, records: pa.Schema) -> None:
        self._name = name
        self._of = of
        self._windows = windows
        self._threshold = threshold
        self._no_records = no_records(records)
        label = pa.field("_window", windows.label)
        self._topics = pa.schema(
            [
                label,
                ("topic", pa.string()),
                ("count", pa.int64()),
                ("share", pa.float64()),
                ("popular", pa.bool_()),
                ("changed", pa.bool_()),
            ]
        )
        self._rejects = rejects_schema(records)
        self._late = pa.schema([*position_fields(records), pa.field("topic", pa.string()), label])
        self.restore({})

    @property
    def traits(self) -> Traits:
        by_time = "time" in self._windows.ends
        return Traits(Scope.GLOBAL, ordered=not by_time, ends=self._windows.ends, held_back=self._windows.lateness)

    @property
    def outputs(self) -> Sequence[Output]:
        topics = Output("topics", self._topics, of="window", key=("topic",))
        if "time" not in self._windows.ends:
            return [topics]
        return [topics, Output("late", self._late), Output("rejects", self._rejects)]

    def process(self, records: pa.Table) -> Result:
        if not records.num_rows:
            return Result(records, {"topics": self._close_windows()})
        assigned = self._windows.assign(records)
        topics = records[self._of].combine_chunks()
        if pa.types.is_dictionary(topics.type):
            topics = topics.dictionary_decode()
        topics = topics.cast(pa.string())
        self._count(assigned, topics.dictionary_encode())
        outputs = {"topics": self._close_windows()}
        if assigned.late.any():
            outputs["late"] = self._late_rows(records, topics, assigned)
        if len(assigned.untimed):
            outputs["rejects"] = self._untimed_rows(records, assigned.untimed)
        return Result(records, outputs)

    def ended(self, substream: Any) -> Result:
        self._windows.ended(substream)
        no_more = isinstance(substream, Watermark) and substream.time is None and "time" in self._windows.ends
        return Result(self._no_records, {"topics": self._close_windows(no_more)})

    def save(self) -> State:
        state = {
            "windows": dict(self._windows.save()),
            "open": [[window, sorted(self._open[window].items())] for window in sorted(self._open)],
            "popular": sorted(self._popular),
            "following": self._following if self._popular else 0,
        }
        return {"popularity": json.dumps(state, ensure_ascii=False, separators=(",", ":")).encode()}

    def restore(self, state: State) -> None:
        saved = json.loads(bytes(state["popularity"])) if state else {}
        self._windows.restore(saved.get("windows", {}))
        self._open: dict[int, dict[str, int]] = {window: dict(counts) for window, counts in saved.get("open", [])}
        self._popular = frozenset[str](saved.get("popular", []))
        self._following: int = saved.get("following", 0)  # the window after the one that `_popular` describes

    def _count(self, assigned: WindowAssignment, topics: pa.DictionaryArray) -> None:
        names = topics.dictionary.to_pylist()
        codes = topics.indices.fill_null(-1).to_numpy()[assigned.rows].astype(np.int64)
        counted = ~assigned.late & (codes >= 0)
        windows, indices = np.unique(assigned.windows[counted], return_inverse=True)
        pairs, counts = np.unique(indices * len(names) + codes[counted], return_counts=True)
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            index, code = divmod(pair, len(names))
            by_topic = self._open.setdefault(int(windows[index]), {})
            by_topic[names[code]] = by_topic.get(names[code], 0) + count

    def _close_windows(self, no_more: bool = False) -> pa.Table:
        """Close the windows that have ended, and return their rows. `no_more`: no window follows these."""
        first_open = self._windows.first_open
        rows: list[_Row] = []
        for window in sorted(window for window in self._open if window < first_open):
            if self._popular and self._following < window:
                rows += self._close(self._following)
            rows += self._close(window)
        if no_more:
            self._popular = frozenset()
        elif self._popular and self._following < first_open:
            rows += self._close(self._following)
        if not rows:
            return no_records(self._topics)
        windows, *columns = zip(*rows, strict=True)
        labels = self._windows.labels(np.array(windows, np.int64))
        return pa.table([labels, *map(list, columns)], schema=self._topics)

    def _close(self, window: int) -> list[_Row]:
        counts = self._open.pop(window, {})
        total = sum(counts.values())
        shares = {topic: count / total for topic, count in counts.items()}
        popular = frozenset(topic for topic, share in shares.items() if share >= self._threshold)
        changed = popular ^ self._popular
        rows = [
            (window, topic, counts.get(topic, 0), shares.get(topic, 0.0), topic in popular, topic in changed)
            for topic in sorted(counts.keys() | self._popular)
        ]
        self._popular, self._following = popular, window + 1
        return rows

    def _late_rows(self, records: pa.Table, topics: pa.Array, assigned: WindowAssignment) -> pa.Table:
        rows = assigned.rows[assigned.late]
        windows = self._windows.labels(assigned.windows[assigned.late])
        columns = [*positions(records, rows).columns, topics.take(rows), windows]
        return pa.Table.from_arrays(columns, schema=self._late)

    def _untimed_rows(self, records: pa.Table, untimed: Array) -> pa.Table:
        return reject_rows(self._name, records, untimed, "no time")
