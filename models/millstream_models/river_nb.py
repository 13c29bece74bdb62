"""River's naive Bayes over the words themselves, not their hashes; one record at a time."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.steps.contracts import Array, State
from millstream_models.chances import chances_of

__all__ = ["RiverNB"]

_FOLDED_AT = 1000
_FEWEST_ROWS = 1024
_quoted: Callable[[str], str] = json.JSONEncoder(ensure_ascii=False).encode


class RiverNB(BaseModel):
    """River's `BagOfWords | MultinomialNB`: learns from every record at once, and needs no step before it.

    Its vocabulary grows with the words of the stream; `multinomial_nb` over `hashed_text` keeps to a fixed size.

    >>> model = RiverNB().build(pa.schema([pa.field("text", pa.string())]))
    >>> rows = model.prepare(pa.array(["a late goal", "the night train"]))
    >>> model.learn(rows, np.array([0, 1]), classes=2)
    >>> model.predict(rows)[0].tolist()
    [0, 1]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    reads: ClassVar[str] = "text"
    extra: ClassVar[str] = "river"
    type: Literal["river_nb"] = "river_nb"
    batch_size: int = Field(
        default=1,
        ge=1,
        description="The model learns from this many records at a time.",
        json_schema_extra={"keeps_state": True},
    )
    alpha: float = Field(
        default=1.0,
        gt=0,
        description="Added to every count, so that no probability is 0.",
        json_schema_extra={"keeps_state": True},
    )

    def build(self, records: pa.Schema) -> _RiverNB:
        return _RiverNB(self.alpha)


class _RiverNB:
    """River's model, and the same counts as a matrix: `save` copies the matrix and need not visit every word."""

    reads = RiverNB.reads

    def __init__(self, alpha: float) -> None:
        from river.feature_extraction import BagOfWords

        self._words: Any = BagOfWords()
        self._alpha = alpha
        self.restore({})

    def prepare(self, column: pa.Array) -> Array:
        words = self._words.transform_one
        return np.fromiter((words(text or "") for text in column.to_pylist()), np.object_, len(column))

    def predict(self, inputs: Array) -> tuple[Array, Array]:
        classes, probability = np.empty(len(inputs), np.int64), np.empty(len(inputs))
        for index, words in enumerate(inputs):
            scores = self._model.joint_log_likelihood(words)
            best = max(scores, key=scores.__getitem__)
            classes[index] = best
            probability[index] = 1 / sum(math.exp(score - scores[best]) for score in scores.values())
        return classes, probability

    def chances(self, inputs: Array) -> Array:
        scores = [self._model.joint_log_likelihood(words) for words in inputs]
        return chances_of(np.array([[each[label] for label in sorted(each)] for each in scores]))

    def learn(self, inputs: Array, labels: Array, classes: int) -> None:
        for words, label in zip(inputs, labels.tolist(), strict=True):
            self._model.learn_one(words, label)
            self._learned.append((words, label))
        if len(self._learned) >= _FOLDED_AT:
            self._fold()

    def save(self) -> State:
        self._fold()
        model = self._model
        return {
            "words": b"[" + bytes(self._texts) + b"]",
            "counts": self._counts.copy(),
            "records": np.array(list(model.class_counts.items()), np.int64).reshape(-1, 2),
            "totals": np.array(list(model.class_totals.items()), np.int64).reshape(-1, 2),
        }

    def restore(self, state: State) -> None:
        from river.naive_bayes import MultinomialNB

        self._model: Any = MultinomialNB(alpha=self._alpha)  # type: ignore[no-untyped-call]
        self._learned: list[tuple[dict[str, int], int]] = []
        self._texts = bytearray(bytes(state["words"])[1:-1] if state else b"")
        words: list[str] = json.loads(b"[" + self._texts + b"]")
        self._rows = {word: row for row, word in enumerate(words)}
        self._counts: Array = np.array(state.get("counts", np.zeros((_FEWEST_ROWS, 0), np.int64)))
        for word, counts in zip(words, self._counts[: len(words)].tolist(), strict=True):
            self._model.feature_counts[word] = Counter({label: count for label, count in enumerate(counts) if count})
        if state:
            self._model.class_counts.update(dict(np.asarray(state["records"]).tolist()))
            self._model.class_totals.update(dict(np.asarray(state["totals"]).tolist()))

    def _fold(self) -> None:
        """Add the records learned since the last call to the matrix: a row for each word, a column for each class."""
        rows: list[int] = []
        for words, _ in self._learned:
            for word in words:
                if (row := self._rows.get(word)) is None:
                    row = self._rows[word] = len(self._rows)
                    self._texts += ((", " if row else "") + _quoted(word)).encode()
                rows.append(row)
        labels = [label for words, label in self._learned for _ in words]
        counts = [count for words, _ in self._learned for count in words.values()]
        self._learned = []
        if not rows:
            return
        # The matrix has spare rows, so its shape seldom changes; for an equal shape, a checkpoint has only the changes.
        room = max(_FEWEST_ROWS, 1 << (len(self._rows) - 1).bit_length())
        classes = max(self._counts.shape[1], max(labels) + 1)
        if (room, classes) != self._counts.shape:
            old, self._counts = self._counts, np.zeros((room, classes), np.int64)
            self._counts[: old.shape[0], : old.shape[1]] = old
        np.add.at(self._counts, (rows, labels), counts)
