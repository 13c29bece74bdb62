"""The measure of popularity: the shares of topics in windows, and the topics that become popular."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from millstream.arrays import Array
from millstream.steps.windowed.measures import Row
from millstream.steps.windowed.texts import coded_texts, count_pairs

__all__ = ["TopicShares"]

_FORGOTTEN = 2.0**-20
"""A weight that is less than this is 0: of one record after twenty half-lives."""

_Counts = dict[str, int]


@dataclass
class _Standing:
    """The standing of a key's topics after its last window: the popular ones, and the weights of all for a half-life.

    `following` is the number of the window after the last one.
    """

    popular: frozenset[str] = frozenset()
    following: int = 0
    weights: dict[str, float] = field(default_factory=dict)


class TopicShares:
    """Counts topics. A share of at least `threshold` makes a topic popular.

    With a `half_life`, in windows, the share is that of a topic's weight: the weight is halved in this number of
    windows, and grows by the count of each window. `follows`: popularity passes from each window to the next number.
    """

    name = "popularity"
    output = "topics"
    identity: tuple[str, ...] = ("topic",)
    ordered = False

    def __init__(self, of: str, threshold: float, half_life: float | None, *, follows: bool) -> None:
        self._of = of
        self._threshold = threshold
        self._half_life = half_life
        self._follows = follows
        self.columns: Sequence[pa.Field] = [
            pa.field("topic", pa.string()),
            pa.field("count", pa.int64()),
            *([pa.field("weight", pa.float64())] if half_life is not None else []),
            pa.field("share", pa.float64()),
            pa.field("popular", pa.bool_()),
            pa.field("changed", pa.bool_()),
        ]

    def read(self, records: pa.Table) -> Any:
        return coded_texts(records[self._of])

    def topics(self, read: Any, rows: Array) -> pa.Array:
        return read.take(pa.array(rows)).dictionary_decode()

    def contents(self) -> _Counts:
        return {}

    def add(self, read: Any, rows: Array, cell_of: Array, cells: Sequence[_Counts]) -> None:
        names = read.dictionary.to_pylist()
        for cell, code, count in count_pairs(read, rows, cell_of, len(cells)):
            contents, name = cells[cell], names[code]
            contents[name] = contents.get(name, 0) + count

    def merge(self, contents: Sequence[_Counts]) -> _Counts:
        whole = dict(contents[0]) if contents else {}
        for counts in contents[1:]:
            for topic, count in counts.items():
                whole[topic] = whole.get(topic, 0) + count
        return whole

    def subtract(self, whole: _Counts, part: _Counts) -> None:
        for topic, count in part.items():
            if whole[topic] == count:
                del whole[topic]
            else:
                whole[topic] -= count

    def rows(self, past: _Standing, number: int, contents: _Counts) -> Sequence[Row]:
        counts, before = contents, past.popular
        weights = self._weights(past, number, counts)
        shares = _shares(weights)
        popular = frozenset(topic for topic, share in shares.items() if share >= self._threshold)
        changed = popular ^ before
        if self._follows:
            past.popular, past.following = popular, number + 1
        if self._half_life is not None:
            past.weights = dict(weights)
        return [
            (*self._measured(topic, counts, weights, shares), topic in popular, topic in changed)
            for topic in sorted(shares.keys() | before)
        ]

    def early_rows(self, past: _Standing, number: int, contents: _Counts) -> Sequence[Row]:
        weights = self._weights(past, number, contents)
        shares = _shares(weights)
        return [(*self._measured(topic, contents, weights, shares), None, None) for topic in sorted(shares)]

    def columns_of(self, counts: Array, totals: Array) -> list[pa.Array]:
        """The columns after the topic, for topics of windows without a past; `totals` are those of their windows."""
        shares = counts / totals
        popular = pa.array(shares >= self._threshold)
        return [pa.array(counts), pa.array(shares), popular, popular]

    def _measured(self, topic: str, counts: _Counts, weights: Mapping[str, float], shares: Mapping[str, float]) -> Row:
        weight = [weights.get(topic, 0.0)] if self._half_life is not None else []
        return (topic, counts.get(topic, 0), *weight, shares.get(topic, 0.0))

    def past(self) -> _Standing:
        return _Standing()

    def follower(self, past: _Standing) -> int | None:
        return past.following if past.popular and self._half_life is None else None

    def end(self, past: _Standing) -> None:
        past.popular, past.weights = frozenset(), {}

    def is_needed(self, past: _Standing) -> bool:
        return bool(past.popular or past.weights)

    def save(self, contents: _Counts) -> Any:
        return sorted(contents.items())

    def restore(self, saved: Any) -> _Counts:
        return dict(saved)

    def save_past(self, past: _Standing) -> Mapping[str, Any]:
        saved: dict[str, Any] = {"popular": sorted(past.popular), "following": past.following if past.popular else 0}
        if self._half_life is not None:
            saved |= {"following": past.following, "weights": sorted(past.weights.items())}
        return saved

    def restore_past(self, saved: Mapping[str, Any]) -> _Standing:
        popular = frozenset[str](saved.get("popular", []))
        return _Standing(popular, saved.get("following", 0), dict(saved.get("weights", [])))

    def _weights(self, past: _Standing, number: int, counts: _Counts) -> Mapping[str, float]:
        """The weights after this window: those after the last one, which have faded since, and the counts."""
        if self._half_life is None:
            return counts
        fade = 2.0 ** (-(number + 1 - past.following) / self._half_life)
        faded = {topic: weight * fade for topic, weight in past.weights.items() if weight * fade >= _FORGOTTEN}
        return {topic: faded.get(topic, 0.0) + counts.get(topic, 0) for topic in sorted(faded.keys() | counts.keys())}


def _shares(weights: Mapping[str, float]) -> dict[str, float]:
    total = sum(weights.values())
    return {topic: weight / total for topic, weight in weights.items()}
