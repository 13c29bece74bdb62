"""Logistic regression online: classes may appear late, and logs may have runs of records with one label."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import normalize

from millstream.steps.classify import Classify
from millstream_models.features import to_csr
from millstream_models.sgd import SGD


def test_a_class_that_appears_late_has_the_weights_of_one_known_from_the_start(
    features: Callable[..., pa.Table],
) -> None:
    records = features(200, topics=5)
    records = records.filter(records["label"].is_valid()).combine_chunks()
    labels = records["label"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    model = SGD(learning_rate=2.0, decay=0.3).build(records.schema)
    expected = SGDClassifier(
        loss="log_loss", shuffle=False, random_state=0, alpha=0.0, learning_rate="invscaling", eta0=2.0, power_t=0.3
    )
    column = records["features"].combine_chunks()
    rows = normalize(to_csr(column, 512))
    edges = [0, 1, 3, 7, 15, 31, 63, 127, len(labels)]
    for start, stop in itertools.pairwise(edges):
        model.learn(model.prepare(column[start:stop]), labels[start:stop], int(labels[:stop].max()) + 1)
        order = start + np.random.RandomState(stop - start).permutation(stop - start)
        expected.partial_fit(rows[order], labels[order], classes=np.arange(5))
    state = model.save()
    np.testing.assert_array_equal(np.asarray(state["weights"])[:5], expected.coef_)
    np.testing.assert_array_equal(np.asarray(state["intercepts"])[:5], expected.intercept_)
    best, probability = model.predict(model.prepare(column))
    np.testing.assert_array_equal(best, expected.predict(rows))
    np.testing.assert_allclose(probability, expected.predict_proba(rows).max(axis=1), rtol=1e-12)


def test_one_class_is_certain_and_two_are_distinguished(features: Callable[..., pa.Table]) -> None:
    records = features(60, topics=2)
    labels = (np.arange(60) % 2).astype(np.int64)
    model = SGD().build(records.schema)
    rows = model.prepare(records["features"].combine_chunks())
    model.learn(rows[:1], labels[:1], 1)
    assert model.predict(rows)[0].tolist() == [0] * 60
    assert model.predict(rows)[1].tolist() == [1.0] * 60
    for _ in range(20):
        model.learn(rows, labels, 2)
    assert (model.predict(rows)[0] == labels).mean() > 0.9


def test_it_learns_online_also_from_a_log_with_runs_of_one_label(features: Callable[..., pa.Table]) -> None:
    mixed = features(1200)
    in_runs = pa.concat_tables([mixed.slice(start, 100).sort_by("label") for start in range(0, 1200, 100)])
    for records in (mixed, in_runs):
        result = Classify(model=SGD(batch_size=64)).build(records.schema).process(records)
        assert result.correct / result.labelled > 0.7
