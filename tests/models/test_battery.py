"""Every model that comes with the platform passes the battery, and costs nothing before it is used."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

import pyarrow as pa
import pytest

from millstream.steps.checks import check_model, same_in_another_process
from millstream.steps.checks.steps import split_into_epochs
from millstream.steps.classify import Classify
from millstream_models.baselines import Majority, NoChange
from millstream_models.hashed_text import HashedText
from millstream_models.libraries.river_classes import River
from millstream_models.libraries.sklearn_classes import ScikitLearn
from millstream_models.naive_bayes import ComplementNB, MultinomialNB
from millstream_models.online.ftrl import FTRL
from millstream_models.online.naive_bayes import NaiveBayes
from millstream_models.online.softmax import Softmax
from millstream_models.river_nb import RiverNB
from millstream_models.sgd import SGD

MODELS = [
    ComplementNB(batch_size=8),
    ComplementNB(batch_size=1, alpha=0.1),
    MultinomialNB(batch_size=5),
    SGD(batch_size=8),
    SGD(batch_size=3, decay=0, alpha=1e-4),
    RiverNB(),
    RiverNB(batch_size=6, alpha=0.3),
    River.model_validate({"class": "linear_model.LogisticRegression", "options": {"l2": 0.1}, "batch_size": 3}),
    ScikitLearn.model_validate({"class": "naive_bayes.BernoulliNB", "batch_size": 8}),
    NoChange(),
    NoChange(batch_size=5),
    Majority(),
    Majority(batch_size=7),
    NaiveBayes(),
    NaiveBayes(complement=True, alpha=1.0, batch_size=4),
    NaiveBayes(half_life=20.0),
    NaiveBayes(half_life=1.0, features=HashedText(dimensions=512, ngrams=(1, 2))),
    Softmax(),
    Softmax(rate="decaying", learning_rate=5.0, batch_size=3),
    Softmax(rate="constant", features=HashedText(dimensions=256, hash="murmur3")),
    FTRL(),
    FTRL(l1=0.01, l2=0.1, features=HashedText(dimensions=256)),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_model_passes_the_battery(features: Callable[..., pa.Table], model: Any) -> None:
    check_model(model, features(90), skip=["another_process_changes_nothing"])


def test_every_model_of_the_platform_is_in_the_battery() -> None:
    ours = {
        point.load()
        for point in entry_points(group="millstream.models")
        if point.module.startswith("millstream_models")
    }
    assert {type(model) for model in MODELS} == ours


def test_another_process_learns_the_same(features: Callable[..., pa.Table]) -> None:
    records = features(90)
    texts = records.drop_columns(["features"])
    cases = [(Classify(model=model), split_into_epochs(records)) for model in MODELS]
    same_in_another_process(*cases, (HashedText(dimensions=512), split_into_epochs(texts)))


def test_naming_a_model_imports_no_library_of_machine_learning() -> None:
    program = (
        "import sys, millstream_models.naive_bayes, millstream_models.sgd, millstream_models.river_nb;"
        "import millstream_models.hashed_text, millstream_models.baselines;"
        "import millstream_models.libraries.river_classes, millstream_models.libraries.sklearn_classes;"
        "print([name for name in ('sklearn', 'river', 'scipy', 'pandas', 'numba') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
