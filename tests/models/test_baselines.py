"""The models that do not read the text are as accurate as the baselines that are reported with every accuracy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millstream.steps.classify import Classify
from millstream_models.baselines import Majority, NoChange


@pytest.mark.parametrize("model", [NoChange(), Majority()], ids=repr)
def test_a_baseline_as_a_model_has_the_accuracy_of_the_baseline(texts: Callable[..., pa.Table], model: Any) -> None:
    records = texts(300)
    step = Classify(model=model).build(records.schema)
    results = [step.process(records.slice(start, 50)) for start in range(0, 300, 50)]
    for result in results:
        assert result.correct == result.baselines.counts()[model.type] < result.labelled
    assert sum(result.correct for result in results) > 0


def answers(config: Any, labels: list[int]) -> tuple[list[int], list[float]]:
    model = config.build(pa.schema([("text", pa.string())]))
    classes, probability = model.predict_then_learn(
        model.prepare(pa.nulls(len(labels), pa.string())), np.array(labels), 0
    )
    return classes.tolist(), probability.tolist()


def test_no_change_predicts_the_label_before_and_is_as_sure_as_labels_have_stayed() -> None:
    assert answers(NoChange(), [-1, 0, 0, -1, 1, 1, 0]) == (
        [-1, -1, 0, 0, 0, 1, 1],
        [0, 0, 1, 1, 1, 2 / 3, 3 / 4],
    )


def test_majority_predicts_the_most_common_label_and_is_as_sure_as_it_is_common() -> None:
    assert answers(Majority(), [-1, 0, 1, 1, -1, 1, 0]) == (
        [-1, -1, 0, 0, 1, 1, 1],
        [0, 0, 1, 1 / 2, 2 / 3, 2 / 3, 3 / 4],
    )
