"""Text learners without a platform, ours, River's and scikit-learn's: predict each text, then learn its label."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.kit.rates import Rate, since
from millstream.config.plugins import MODELS, load
from millstream.steps.classify import Classify
from millstream.steps.contracts import Array
from millstream_models.hashed_text import HashedText

__all__ = ["BATCH_SIZE", "DIMENSIONS", "OneByOne", "alpha_of", "first", "learn", "learn_as_steps"]
__all__ += ["learn_with_river", "learn_with_scikit_learn", "river_naive_bayes"]

DIMENSIONS = 2**18
BATCH_SIZE = 256
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
        """The class and probability of each text, -1 if no class was known; each label is learned at once."""
        coded = labels.dictionary_encode()
        known = len(self._codes)
        own = [self._codes.setdefault(label, len(self._codes)) for label in coded.dictionary.to_pylist()]
        codes = np.array(own, np.int64)[coded.indices.to_numpy()]
        if len(self._codes) > known:
            self.names = pa.array(list(self._codes), pa.string())
        classes, probability = self._model.predict_then_learn(self._model.prepare(texts), codes, known)
        self.correct += int(np.count_nonzero(classes == codes))
        return classes, probability


def alpha_of(model: str) -> float:
    """The default smoothing of our model."""
    return float(OneByOne(model).config.alpha)


def first(model: str) -> float:
    """Seconds until a model's first prediction in a process that has Arrow; numba's import included."""
    text, label = pa.array(["a text"]), pa.array(["a label"])
    began = time.perf_counter()
    OneByOne(model).take(text, label)
    return time.perf_counter() - began


def learn(model: str, file: str) -> Rate:
    """Predict and learn all texts of a Parquet file, which are in Arrow's memory before the clock starts."""
    table = _texts(file)
    batches = table.to_batches(_BATCH)
    OneByOne(model).take(batches[0]["text"][:_WARM], batches[0]["label"][:_WARM])  # loads or compiles the model
    learner = OneByOne(model)
    began = time.perf_counter()
    for batch in batches:
        learner.take(batch["text"], batch["label"])
    return since(began, table.num_rows, learner.correct)


def learn_as_steps(model: str, file: str) -> Rate:
    """Learn with one of our models in its steps: `hashed_text` if it reads features, then `classify`."""
    table = _texts(file)
    offsets = np.arange(table.num_rows)
    position = {"_time": pa.nulls(len(offsets), pa.int64()), "_offset": offsets, "_rank": np.zeros_like(offsets)}
    for name, column in position.items():
        table = table.add_column(0, name, pa.array(column))
    plugin: Any = load(MODELS, model)
    steps: list[Any] = [] if getattr(plugin, "reads", "") == "text" else [HashedText(dimensions=DIMENSIONS)]
    schema, built = table.schema, []
    for config in (*steps, Classify(model=plugin())):
        built.append(config.build(schema))
        schema = built[-1].process(schema.empty_table()).records.schema
    correct, began = 0, time.perf_counter()
    for batch in table.combine_chunks().to_batches(_BATCH):
        records = pa.Table.from_batches([batch])
        for step in built:
            result = step.process(records)
            records = result.records
        correct += result.correct
    return since(began, table.num_rows, correct)


def learn_with_river(model: str, file: str, alpha: float) -> Rate:
    """Learn with River, called without a pipeline's cost; the texts are Python's before the clock starts."""
    table = _texts(file)
    texts, labels = table["text"].to_pylist(), table["label"].to_pylist()
    classify, correct = river_naive_bayes(alpha) if model == "naive_bayes" else _river_softmax(), 0
    began = time.perf_counter()
    for text, label in zip(texts, labels, strict=True):
        correct += classify(text, label) == label
    return since(began, len(texts), correct)


def learn_with_scikit_learn(file: str, alpha: float) -> Rate:
    """Learn with HashingVectorizer and MultinomialNB in mini-batches of 256, each predicted before it is learned."""
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.naive_bayes import MultinomialNB

    table = _texts(file)
    texts, labels = table["text"].to_pylist(), np.array(table["label"].to_pylist())
    words: Any = HashingVectorizer(n_features=DIMENSIONS, alternate_sign=False, norm=None)
    model: Any = MultinomialNB(alpha=alpha)
    topics, correct = np.unique(labels), 0
    began = time.perf_counter()
    for start in range(0, len(texts), BATCH_SIZE):
        rows, right = words.transform(texts[start : start + BATCH_SIZE]), labels[start : start + BATCH_SIZE]
        if start:
            correct += int((model.predict(rows) == right).sum())
        model.partial_fit(rows, right, classes=topics)
    return since(began, len(texts), correct)


def _texts(file: str) -> pa.Table:
    return pq.read_table(file, columns=["text", "label"]).combine_chunks()


def river_naive_bayes(alpha: float) -> Callable[[str, str], str | None]:
    """River's naive Bayes: predict the label of a text, then learn the right one."""
    from river.feature_extraction import BagOfWords
    from river.naive_bayes import MultinomialNB

    return _river(BagOfWords().transform_one, MultinomialNB(alpha=alpha))  # type: ignore[no-untyped-call]


def _river_softmax() -> Callable[[str, str], str | None]:
    """Softmax over the words themselves, which is quicker than hashing them; the learning rate was found on news."""
    from river.feature_extraction import BagOfWords
    from river.linear_model import SoftmaxRegression
    from river.optim import SGD
    from river.preprocessing import Normalizer

    words: Any = BagOfWords()
    norm: Any = Normalizer(order=2)  # type: ignore[no-untyped-call]
    return _river(lambda text: norm.transform_one(words.transform_one(text)), SoftmaxRegression(optimizer=SGD(1.0)))


def _river(features: Callable[[str], Any], model: Any) -> Callable[[str, str], str | None]:
    def classify(text: str, label: str) -> str | None:
        counts = features(text)
        predicted: str | None = model.predict_one(counts)
        model.learn_one(counts, label)
        return predicted

    return classify
