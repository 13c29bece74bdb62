"""The whole job of a text learner, with no platform around it: for each text in turn, predict, then learn its label."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from millstream.config.plugins import MODELS, load
from millstream.steps.contracts import Array
from millstream_models.hashed_text import HashedText

__all__ = ["DIMENSIONS", "OneByOne", "alpha_of", "answered", "first", "learn", "learn_with_river"]

DIMENSIONS = 2**18
_BATCH = 10_000
_WARM = 2_000


class OneByOne:
    """A model that predicts and learns record by record within a batch, over batches of texts."""

    def __init__(self, model: str) -> None:
        plugin: Any = load(MODELS, model)
        reads_words = "features" in plugin.model_fields
        self.config: Any = plugin(features=HashedText(dimensions=DIMENSIONS)) if reads_words else plugin()
        self._model = self.config.build(pa.schema([("text", pa.string())]))
        self._codes: dict[str, int] = {}
        self.names = pa.array([], pa.string())
        self.correct = 0

    def take(self, texts: pa.Array, labels: pa.Array) -> tuple[Array, Array]:
        """The class and probability of each text, -1 where no class was known; it is learned from at once."""
        coded = labels.dictionary_encode()
        known = len(self._codes)
        own = [self._codes.setdefault(label, len(self._codes)) for label in coded.dictionary.to_pylist()]
        codes = np.array(own, np.int64)[coded.indices.to_numpy()]
        if len(self._codes) > known:
            self.names = pa.array(list(self._codes), pa.string())
        classes, probability = self._model.in_turn(self._model.prepare(texts), codes, known)
        self.correct += int(np.count_nonzero(classes == codes))
        return classes, probability


def first(model: str) -> dict[str, Any]:
    """How long a process that has Arrow waits for a model's first prediction, numba's import included."""
    text, label = pa.array(["a text"]), pa.array(["a label"])
    began = time.perf_counter()
    OneByOne(model).take(text, label)
    return {"seconds": time.perf_counter() - began}


def learn(model: str, file: str) -> dict[str, Any]:
    """Predict and learn all texts of a Parquet file, in Arrow's memory before the clock starts."""
    table = pq.read_table(file, columns=["text", "label"])
    batches = table.combine_chunks().to_batches(_BATCH)
    OneByOne(model).take(batches[0]["text"][:_WARM], batches[0]["label"][:_WARM])  # loads or compiles the kernel
    learner = OneByOne(model)
    began = time.perf_counter()
    for batch in batches:
        learner.take(batch["text"], batch["label"])
    return answered(began, table.num_rows, learner.correct)


def learn_with_river(model: str, file: str, alpha: float) -> dict[str, Any]:
    """The same with River, called without a pipeline's cost; the texts are Python's before the clock starts."""
    table = pq.read_table(file, columns=["text", "label"])
    texts, labels = table["text"].to_pylist(), table["label"].to_pylist()
    classify = _river_naive_bayes(alpha) if model == "naive_bayes" else _river_softmax()
    correct = 0
    began = time.perf_counter()
    for text, label in zip(texts, labels, strict=True):
        correct += classify(text, label) == label
    return answered(began, len(texts), correct)


def _river_naive_bayes(alpha: float) -> Callable[[str, str], str | None]:
    from river.feature_extraction import BagOfWords
    from river.naive_bayes import MultinomialNB

    words: Any = BagOfWords()
    model: Any = MultinomialNB(alpha=alpha)  # type: ignore[no-untyped-call]

    def classify(text: str, label: str) -> str | None:
        counts = words.transform_one(text)
        predicted: str | None = model.predict_one(counts)
        model.learn_one(counts, label)
        return predicted

    return classify


def _river_softmax() -> Callable[[str, str], str | None]:
    """With the words themselves, which is quicker than hashing them first; its learning rate found on news."""
    from river.feature_extraction import BagOfWords
    from river.linear_model import SoftmaxRegression
    from river.optim import SGD
    from river.preprocessing import Normalizer

    words: Any = BagOfWords()
    norm: Any = Normalizer(order=2)  # type: ignore[no-untyped-call]
    model: Any = SoftmaxRegression(optimizer=SGD(1.0))

    def classify(text: str, label: str) -> str | None:
        counts = norm.transform_one(words.transform_one(text))
        predicted: str | None = model.predict_one(counts)
        model.learn_one(counts, label)
        return predicted

    return classify


def answered(began: float, records: int, correct: int) -> dict[str, Any]:
    """What a contender tells: its rate, and how often it was right."""
    seconds = time.perf_counter() - began
    return {"per_second": records / seconds, "seconds": seconds, "records": records, "correct": correct}


def alpha_of(model: str) -> float:
    """The smoothing that our model has by default."""
    return float(OneByOne(model).config.alpha)
