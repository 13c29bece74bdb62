"""The compiled text models beside scikit-learn, which learns in blocks; and what our models in blocks cost a text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.against_river import rate_of, text_cost, texts_file
from benchmarks.figures import Figure, Measurement, Setting, interleaved, ratio
from benchmarks.text_learners import DIMENSIONS, alpha_of, answered, learn

from millstream.config.plugins import MODELS, load
from millstream.steps.classify import Classify
from millstream_models.hashed_text import HashedText

__all__ = ["MEASUREMENTS", "learn_with_scikit_learn"]

_BLOCK = 256
_BATCH = 10_000
_TEXTS = 20_000
"""Of the slower ones; their cost is the same for each text."""
_QUICK = 1_000
_IN_BLOCKS = ("complement_nb", "sgd", "river_nb")


def learn_with_scikit_learn(file: str, alpha: float) -> dict[str, Any]:
    """HashingVectorizer and MultinomialNB, blocks of 256: predicted, then learned."""
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.naive_bayes import MultinomialNB

    table = pq.read_table(file, columns=["text", "label"])
    texts, labels = table["text"].to_pylist(), np.array(table["label"].to_pylist())
    words: Any = HashingVectorizer(n_features=DIMENSIONS, alternate_sign=False, norm=None)
    model: Any = MultinomialNB(alpha=alpha)
    topics, correct = np.unique(labels), 0
    began = time.perf_counter()
    for start in range(0, len(texts), _BLOCK):
        rows, right = words.transform(texts[start : start + _BLOCK]), labels[start : start + _BLOCK]
        if start:
            correct += int((model.predict(rows) == right).sum())
        model.partial_fit(rows, right, classes=topics)
    return answered(began, len(texts), correct)


def learn_as_steps(model: str, file: str) -> dict[str, Any]:
    """One of our models in its steps, `hashed_text` if it reads features and `classify`, with no platform around."""
    table = pq.read_table(file, columns=["text", "label"])
    missing = pa.nulls(table.num_rows, pa.int64())
    offsets = pa.array(np.arange(table.num_rows))
    for name, column in (
        ("_time", missing),
        ("_offset", offsets),
        ("_rank", pa.array(np.zeros(len(offsets), np.int64))),
    ):
        table = table.add_column(0, name, column)
    plugin: Any = load(MODELS, model)
    steps: list[Any] = [] if getattr(plugin, "reads", "") == "text" else [HashedText(dimensions=DIMENSIONS)]
    steps.append(Classify(model=plugin()))
    schema, built = table.schema, []
    for config in steps:
        built.append(config.build(schema))
        schema = built[-1].process(schema.empty_table()).records.schema
    correct, began = 0, time.perf_counter()
    for batch in table.combine_chunks().to_batches(_BATCH):
        records = pa.Table.from_batches([batch])
        for step in built:
            result = step.process(records)
            records = result.records
        correct += result.correct
    return answered(began, table.num_rows, correct)


def _measure(setting: Setting) -> Iterator[Figure]:
    some = setting.folder / "some-more-texts.parquet"
    setting.corpus.texts.first(_QUICK if setting.quick else _TEXTS).write_parquet(some)
    contenders: dict[str, Callable[[], float]] = {
        "naive_bayes": rate_of(learn, model="naive_bayes", file=str(texts_file(setting))),
        "scikit-learn": rate_of(learn_with_scikit_learn, file=str(some), alpha=alpha_of("naive_bayes")),
        **{name: rate_of(learn_as_steps, model=name, file=str(some)) for name in _IN_BLOCKS},
    }
    taken = interleaved(setting, contenders)
    yield ratio("naive_bayes_vs_scikit_learn", taken, "naive_bayes", "scikit-learn", None)
    for name in _IN_BLOCKS:
        yield text_cost(name, taken[name])


MEASUREMENTS = (
    Measurement(
        "texts_vs_scikit_learn",
        ("naive_bayes_vs_scikit_learn", *(f"{name}_text" for name in _IN_BLOCKS)),
        "the same as texts_vs_river over scikit-learn's HashingVectorizer (2^18) and MultinomialNB in blocks of "
        f"{_BLOCK} (the same alpha), over the first {_TEXTS:,}; *_text is one text of ours that learn in blocks, and "
        "of river_nb, with the steps that they need",
        _measure,
        any_texts=True,
    ),
)
