"""River's naive Bayes over the words themselves, one record at a time."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.steps.contracts import Array, State

__all__ = ["RiverNB"]


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
    type: Literal["river_nb"] = "river_nb"
    block: int = Field(default=1, ge=1, description="The model learns from this many records at a time.")
    alpha: float = Field(default=1.0, gt=0, description="What is added to every count, so that no probability is 0.")

    def build(self, records: pa.Schema) -> _RiverNB:
        return _RiverNB(self.alpha)


class _RiverNB:
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
        for place, words in enumerate(inputs):
            scores = self._model.joint_log_likelihood(words)
            best = max(scores, key=scores.__getitem__)
            classes[place] = best
            probability[place] = 1 / sum(math.exp(score - scores[best]) for score in scores.values())
        return classes, probability

    def learn(self, inputs: Array, labels: Array, classes: int) -> None:
        for words, label in zip(inputs, labels.tolist(), strict=True):
            self._model.learn_one(words, label)

    def save(self) -> State:
        model = self._model
        by_word = list(model.feature_counts.values())
        return {
            "words": json.dumps(list(model.feature_counts), ensure_ascii=False).encode(),
            "word_classes": np.fromiter(map(len, by_word), np.int64, len(by_word)),
            "classes": np.fromiter(chain.from_iterable(by_word), np.int64),
            "counts": np.fromiter(chain.from_iterable(counts.values() for counts in by_word), np.int64),
            "records": np.array(list(model.class_counts.items()), np.int64).reshape(-1, 2),
            "totals": np.array(list(model.class_totals.items()), np.int64).reshape(-1, 2),
        }

    def restore(self, state: State) -> None:
        from river.naive_bayes import MultinomialNB

        self._model: Any = MultinomialNB(alpha=self._alpha)  # type: ignore[no-untyped-call]
        if not state:
            return
        arrays = {name: value.tolist() for name, value in state.items() if isinstance(value, np.ndarray)}
        pairs = iter(zip(arrays["classes"], arrays["counts"], strict=True))
        for word, size in zip(json.loads(bytes(state["words"])), arrays["word_classes"], strict=True):
            self._model.feature_counts[word] = Counter(dict(next(pairs) for _ in range(size)))
        self._model.class_counts.update(dict(arrays["records"]))
        self._model.class_totals.update(dict(arrays["totals"]))
