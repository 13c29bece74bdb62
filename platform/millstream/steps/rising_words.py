"""Words that rise: those that occur in a window more often than in the windows before it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from millstream.arrays import Array
from millstream.steps.column_checks import check_text_column
from millstream.steps.contracts import Step
from millstream.steps.windowed.measures import Row
from millstream.steps.windowed.options import WindowedOptions
from millstream.steps.windowed.step import WindowedStep
from millstream.steps.windowed.texts import plain_texts
from millstream.substreams.windows import CountWindow, TumblingWindow

__all__ = ["Trending"]

_WORDS = re.compile(r"\b\w\w+\b")
"""The words of a text in lower case, as the models count them."""


class Trending(WindowedOptions):
    """Finds words that rise against their own past, and the topic in which they rise.

    A word counts once for each record. The past of a word is the share of records with this word in the windows
    before, whose weight halves every `half_life` windows; so `expected` is the number of records that the past lets
    expect in this window, and `rise` is `count / expected`, with an `expected` of less than 1 taken as 1. The output
    `trending` has, for each window after the first one, the words with a `count` of at least `least` and a rise of at
    least `rise`: at most `most` words, those first whose count is the most standard deviations, the root of `expected`,
    above it. `topic` is the topic of most of the window's records with the word, and `in_topic` the number of these.

    >>> position = {"_rank": [0] * 6, "_offset": range(6), "_time": range(6)}
    >>> texts = ["fine weather", "fine day", "fine weather", "storm warning", "a storm", "storm and rain"]
    >>> records = pa.table({**position, "text": texts, "predicted": ["weather"] * 6})
    >>> step = Trending(window={"type": "count", "size": 3}, least=2).build(records.schema)
    >>> step.process(records).outputs["trending"].to_pylist()[0]["word"]
    'storm'
    """

    type: Literal["trending"] = "trending"
    text: str = Field(default="text", description="The field with the text.")
    of: str = Field(default="predicted", description="The field with the topic.")
    rise: float = Field(
        default=3.0,
        gt=1,
        description="The least rise of a word: 3 is three times its past.",
        json_schema_extra={"keeps_state": True},
    )
    least: int = Field(
        default=10,
        ge=1,
        description="The least number of records in the window with the word.",
        json_schema_extra={"keeps_state": True},
    )
    most: int = Field(
        default=20,
        ge=1,
        description="The most words that a window has in the output.",
        json_schema_extra={"keeps_state": True},
    )
    half_life: float = Field(
        default=8.0,
        gt=0,
        description="The windows in which the weight of the past halves.",
        json_schema_extra={"keeps_state": True},
    )
    words: int = Field(
        default=100_000,
        ge=1,
        description="The most words whose past is kept; the rarest are dropped.",
        json_schema_extra={"keeps_state": True},
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not isinstance(self.window, CountWindow | TumblingWindow):
            message = f"a window needs windows of the same size before it, and {self.window.type} windows have none"
            raise ValueError(f"{message}; take tumbling or count windows")
        return self

    def build(self, records: pa.Schema) -> Step:
        name = self.name or self.type
        check_text_column(f"step {name!r}, `text`", self.text, records, "words")
        check_text_column(f"step {name!r}, `of`", self.of, records, "topics")
        return WindowedStep(name, self, _Rises(self), records)


@dataclass
class _Words:
    """The words of a pane: the number of its records, and of those with each word, by topic; "" is no topic."""

    records: int = 0
    topics: dict[str, Counter[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.records)


@dataclass
class _Past:
    """The number of records in earlier windows, and of those with each word; both fade.

    `following` is the number of the window after the last one.
    """

    records: float = 0.0
    words: dict[str, float] = field(default_factory=dict)
    following: int = 0


class _Rises:
    name = "trending"
    output = "trending"
    identity: tuple[str, ...] = ("word",)
    ordered = False
    columns: Sequence[pa.Field] = (
        pa.field("word", pa.string()),
        pa.field("count", pa.int64()),
        pa.field("expected", pa.float64()),
        pa.field("rise", pa.float64()),
        pa.field("topic", pa.string()),
        pa.field("in_topic", pa.int64()),
    )

    def __init__(self, options: Trending) -> None:
        self._options = options

    def read(self, records: pa.Table) -> tuple[pa.Array, pa.Array]:
        return plain_texts(records[self._options.text]), plain_texts(records[self._options.of])

    def topics(self, read: tuple[pa.Array, pa.Array], rows: Array) -> pa.Array:
        return read[1].take(pa.array(rows))

    def contents(self) -> _Words:
        return _Words()

    def add(self, read: tuple[pa.Array, pa.Array], rows: Array, cell_of: Array, cells: Sequence[_Words]) -> None:
        taken = pa.array(rows)
        texts, topics = (column.take(taken).to_pylist() for column in read)
        for text, topic, cell in zip(texts, topics, cell_of.tolist(), strict=True):
            words = cells[cell]
            words.records += 1
            for word in set(_WORDS.findall((text or "").lower())):
                words.topics.setdefault(word, Counter())[topic or ""] += 1

    def merge(self, contents: Sequence[_Words]) -> _Words:
        merged = _Words()
        for words in contents:
            merged.records += words.records
            for word, topics in words.topics.items():
                merged.topics.setdefault(word, Counter()).update(topics)
        return merged

    def rows(self, past: _Past, number: int, contents: _Words) -> Sequence[Row]:
        rows = self.early_rows(past, number, contents)
        self._fade(past, number)
        past.records += contents.records
        for word in sorted(contents.topics):
            past.words[word] = past.words.get(word, 0.0) + contents.topics[word].total()
        self._forget(past)
        past.following = number + 1
        return rows

    def early_rows(self, past: _Past, number: int, contents: _Words) -> Sequence[Row]:
        if not past.records:
            return []
        found = sorted(self._rising(past, contents), key=lambda rising: (-rising[0], rising[1][0]))
        return [row for _, row in found[: self._options.most]]

    def past(self) -> _Past:
        return _Past()

    def follower(self, past: _Past) -> int | None:
        return None

    def end(self, past: _Past) -> None:
        past.records, past.words, past.following = 0.0, {}, 0

    def is_needed(self, past: _Past) -> bool:
        return bool(past.records)

    def save(self, contents: _Words) -> Any:
        return [contents.records, [[word, sorted(contents.topics[word].items())] for word in sorted(contents.topics)]]

    def restore(self, saved: Any) -> _Words:
        return _Words(saved[0], {word: Counter(dict(topics)) for word, topics in saved[1]})

    def save_past(self, past: _Past) -> Mapping[str, Any]:
        return {"records": past.records, "words": sorted(past.words.items()), "following": past.following}

    def restore_past(self, saved: Mapping[str, Any]) -> _Past:
        return _Past(saved.get("records", 0.0), dict(saved.get("words", [])), saved.get("following", 0))

    def _rising(self, past: _Past, contents: _Words) -> Iterable[tuple[float, Row]]:
        """The words that rise, each with the standard deviations by which it does."""
        for word, topics in contents.topics.items():
            count = topics.total()
            if count < self._options.least:
                continue
            expected = past.words.get(word, 0.0) / past.records * contents.records
            floor = max(expected, 1.0)
            if count >= self._options.rise * floor:
                topic, in_topic = min(topics.items(), key=lambda item: (-item[1], item[0]))
                yield (
                    (count - expected) / math.sqrt(floor),
                    (word, count, expected, count / floor, topic or None, in_topic),
                )

    def _fade(self, past: _Past, number: int) -> None:
        factor = 2.0 ** (-(number + 1 - past.following) / self._options.half_life)
        past.records *= factor
        past.words = {word: weight * factor for word, weight in past.words.items()}

    def _forget(self, past: _Past) -> None:
        """Drop the rarest words, if there are too many."""
        if len(past.words) > self._options.words:
            kept = sorted(past.words.items(), key=lambda item: (-item[1], item[0]))
            past.words = dict(sorted(kept[: self._options.words]))
