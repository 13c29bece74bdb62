"""Naive Bayes from counts alone gives the same scores as scikit-learn, to the bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn import naive_bayes as reference

from millstream.steps.contracts import Array
from millstream_models.features import to_csr
from millstream_models.naive_bayes import ComplementNB, MultinomialNB

PAIRS = [
    pytest.param(ComplementNB, reference.ComplementNB, id="complement"),
    pytest.param(MultinomialNB, reference.MultinomialNB, id="multinomial"),
]


def mini_batches(records: pa.Table) -> Iterator[tuple[Any, Array]]:
    """Rows and class numbers by first appearance, in mini-batches of 1, 2, 4, ..."""
    records = records.filter(records["label"].is_valid()).combine_chunks()
    rows = to_csr(records["features"].combine_chunks(), 512)
    labels = records["label"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    start, size = 0, 1
    while start < len(labels):
        yield rows[start : start + size], labels[start : start + size]
        start, size = start + size, size * 2


@pytest.mark.parametrize(("config", "sklearn"), PAIRS)
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_scores_are_those_of_scikit_learn_to_the_bit(
    features: Callable[..., pa.Table], config: Any, sklearn: Any, alpha: float
) -> None:
    records = features(300)
    model = config(alpha=alpha).build(records.schema)
    seen_rows, seen_labels = [], []
    everything = to_csr(records["features"].combine_chunks(), 512)
    for rows, labels in mini_batches(records):
        seen_rows.append(rows)
        seen_labels.append(labels)
        classes = int(max(part.max() for part in seen_labels)) + 1
        model.learn(rows, labels, classes)
        expected = sklearn(alpha=alpha)
        for known_rows, known_labels in zip(seen_rows, seen_labels, strict=True):
            expected.partial_fit(known_rows, known_labels, classes=np.arange(classes))
        if classes > 1:  # with a single class, scikit-learn's complement model divides nothing by nothing
            np.testing.assert_array_equal(model.scores(everything), expected.predict_joint_log_proba(everything))
        best, probability = model.predict(everything)
        np.testing.assert_array_equal(best, expected.predict(everything))
        np.testing.assert_allclose(probability, expected.predict_proba(everything).max(axis=1), rtol=1e-12)


@pytest.mark.parametrize(("config", "sklearn"), PAIRS)
def test_any_alpha_comes_within_rounding_of_scikit_learn(
    features: Callable[..., pa.Table], config: Any, sklearn: Any
) -> None:
    records = features(200)
    model, expected = config(alpha=0.037).build(records.schema), sklearn(alpha=0.037)
    for rows, labels in mini_batches(records):
        model.learn(rows, labels, 4)
        expected.partial_fit(rows, labels, classes=np.arange(4))
    rows = to_csr(records["features"].combine_chunks(), 512)
    np.testing.assert_allclose(model.scores(rows), expected.predict_joint_log_proba(rows), rtol=1e-12)


@pytest.mark.parametrize("config", [ComplementNB, MultinomialNB])
def test_the_order_of_records_in_a_mini_batch_does_not_matter(features: Callable[..., pa.Table], config: Any) -> None:
    records = features(100)
    states = []
    for turned in (False, True):
        model = config().build(records.schema)
        for rows, labels in mini_batches(records):
            order = np.arange(len(labels))[::-1] if turned else np.arange(len(labels))
            model.learn(rows[order], labels[order], 4)
        states.append(model.save())
    for name in states[0]:
        np.testing.assert_array_equal(states[0][name], states[1][name])


@pytest.mark.parametrize("config", [ComplementNB, MultinomialNB])
def test_a_row_without_features_gets_a_class(features: Callable[..., pa.Table], config: Any) -> None:
    records = features(60)
    model = config().build(records.schema)
    for rows, labels in mini_batches(records):
        model.learn(rows, labels, 4)
    best, probability = model.predict(model.prepare(pa.array([[]], records.schema.field("features").type)))
    assert 0 <= best[0] < 4
    assert 0.25 - 1e-12 <= probability[0] <= 1
