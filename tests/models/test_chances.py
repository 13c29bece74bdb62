"""The probabilities of all classes: the likeliest one is the prediction, and together they are 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millstream.errors import MillstreamError
from millstream.steps.classify import Classifier, Classify
from millstream_models.baselines import NoChange
from millstream_models.naive_bayes import ComplementNB, MultinomialNB
from millstream_models.online.ftrl import FTRL
from millstream_models.online.naive_bayes import NaiveBayes
from millstream_models.online.softmax import Softmax
from millstream_models.river_nb import RiverNB
from millstream_models.sgd import SGD

MODELS = [
    ComplementNB(batch_size=8),
    MultinomialNB(batch_size=5),
    SGD(batch_size=8),
    RiverNB(batch_size=6),
    NaiveBayes(),
    NaiveBayes(complement=True, alpha=1.0),
    NaiveBayes(half_life=20.0),
    Softmax(),
    Softmax(rate="decaying", learning_rate=5.0),
    FTRL(),
    FTRL(l1=0.01, l2=0.1, beta=0),
]


def learned(model: Any, records: pa.Table) -> Classifier:
    step = Classify(model=model).build(records.schema)
    step.process(records)
    return step


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_the_likeliest_class_is_the_prediction(features: Callable[..., pa.Table], model: Any) -> None:
    step, others = learned(model, features(120)), features(40, seed=1)
    names, chances = step.ask_all(others)
    answers = step.ask(others)
    assert chances.shape == (40, len(names)) and len(names) == 4
    assert chances.sum(axis=1) == pytest.approx(np.ones(40))
    assert chances.max(axis=1) == pytest.approx(answers["probability"].to_numpy(), rel=1e-4)
    best = [names[index] for index in chances.argmax(axis=1)]
    ties = chances.max(axis=1) - np.partition(chances, -2, axis=1)[:, -2] < 1e-6
    assert all(
        own or one == other for own, one, other in zip(ties, best, answers["predicted"].to_pylist(), strict=True)
    )


def test_no_class_and_no_record_have_no_chances(features: Callable[..., pa.Table]) -> None:
    step = Classify(model=NaiveBayes()).build(features(1).schema)
    assert step.ask_all(features(3))[1].shape == (3, 0)
    assert learned(NaiveBayes(), features(30)).ask_all(features(5).slice(0, 0))[1].shape[0] == 0


def test_a_model_without_chances_says_so(features: Callable[..., pa.Table]) -> None:
    with pytest.raises(MillstreamError, match="returns only its likeliest label; leave out `top`"):
        learned(NoChange(), features(30)).ask_all(features(3))
