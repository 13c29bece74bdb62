"""River's naive Bayes as a model of the platform predicts the same as River's own pipeline."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from river import compose, feature_extraction, naive_bayes

from millstream.state.digests import state_digest
from millstream.steps.classify import Classify
from millstream_models.river_nb import RiverNB


def test_predictions_are_those_of_rivers_own_loop(texts: Callable[..., pa.Table]) -> None:
    records = texts(150)
    found = Classify(model=RiverNB(alpha=0.5)).build(records.schema).process(records).records
    bayes = naive_bayes.MultinomialNB(alpha=0.5)  # type: ignore[no-untyped-call]
    river = compose.Pipeline(feature_extraction.BagOfWords(), bayes)
    for row in found.to_pylist():
        chances = river.predict_proba_one(row["text"])
        assert row["predicted"] == (max(chances, key=chances.__getitem__) if chances else None)
        assert row["probability"] == (pytest.approx(max(chances.values()), rel=1e-9) if chances else None)
        if row["label"] is not None:
            river.learn_one(row["text"], row["label"])


def test_a_restored_model_has_rivers_tables_in_the_same_order(texts: Callable[..., pa.Table]) -> None:
    records = texts(80)
    step = Classify(model=RiverNB()).build(records.schema)
    step.process(records)
    again = Classify(model=RiverNB()).build(records.schema)
    again.restore(step.save())
    tables = [step._present._model._model, again._present._model._model]  # type: ignore[attr-defined]
    for name in ("class_counts", "class_totals", "feature_counts"):
        one, other = (list(getattr(table, name).items()) for table in tables)
        assert one == other


def test_a_checkpoint_does_not_depend_on_earlier_checkpoints(texts: Callable[..., pa.Table]) -> None:
    records = texts(2500)
    steps = [Classify(model=RiverNB()).build(records.schema) for _ in range(2)]
    for row in range(0, 2500, 7):
        steps[0].process(records.slice(row, 7))
        steps[0].save()
    steps[1].process(records)
    checkpoints = [step.save() for step in steps]
    assert state_digest(checkpoints[0]) == state_digest(checkpoints[1])
    counts = checkpoints[0]["model/counts"]
    assert isinstance(counts, np.ndarray) and len(counts) >= 1024
    model = steps[0]._present._model._model  # type: ignore[attr-defined]
    for row, of_word in enumerate(model.feature_counts.values()):
        assert {label: count for label, count in enumerate(counts[row].tolist()) if count} == of_word


def test_words_may_have_any_characters() -> None:
    records = pa.table(
        {
            "_rank": [0] * 3,
            "_offset": [0, 1, 2],
            "_time": [0, 1, 2],
            "text": ["naïve \u2028 日本語 \\n", None, '"quoted" \x00 été'],
            "label": ["é", "b", "é"],
        }
    )
    step = Classify(model=RiverNB()).build(records.schema)
    step.process(records)
    again = Classify(model=RiverNB()).build(records.schema)
    again.restore(step.save())
    assert again.ask(records).equals(step.ask(records))
