"""The classes of River and scikit-learn in docs/models.md pass the battery, in this process and in another one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from support.docs_pages import section

from millstream.steps.checks import check_model
from millstream_models.libraries.library_config import LibraryConfig
from millstream_models.libraries.river_classes import River
from millstream_models.libraries.sklearn_classes import ScikitLearn

BAYES = {"class": "naive_bayes.MultinomialNB"}
BERNOULLI = {"class": "naive_bayes.BernoulliNB"}
LOGISTIC = {"class": "linear_model.LogisticRegression"}
EPSILON = {"class": "bandit.EpsilonGreedy", "options": {"epsilon": 0.1}}
FEW = {"model": BAYES, "n_models": 3}
EAGER = {"grace_period": 10}
RIVER: dict[str, dict[str, Any]] = {
    "linear_model.ALMAClassifier": {},
    "linear_model.AdPredictor": {},
    "linear_model.LogisticRegression": {},
    "linear_model.PAClassifier": {},
    "linear_model.Perceptron": {},
    "linear_model.SoftmaxRegression": {"optimizer": {"class": "optim.Adam", "options": {"lr": 0.1}}},
    "naive_bayes.BernoulliNB": {},
    "naive_bayes.ComplementNB": {},
    "naive_bayes.GaussianNB": {},
    "naive_bayes.MultinomialNB": {},
    "tree.ExtremelyFastDecisionTreeClassifier": EAGER,
    "tree.HoeffdingAdaptiveTreeClassifier": EAGER,
    "tree.HoeffdingTreeClassifier": EAGER,
    "tree.LASTClassifier": {},
    "forest.ARFClassifier": {"n_models": 3, "grace_period": 5},
    "ensemble.ADWINBaggingClassifier": FEW,
    "ensemble.ADWINBoostingClassifier": FEW,
    "ensemble.AdaBoostClassifier": FEW,
    "ensemble.BOLEClassifier": FEW,
    "ensemble.BaggingClassifier": FEW,
    "ensemble.LeveragingBaggingClassifier": FEW,
    "ensemble.SRPClassifier": {"n_models": 3},
    "ensemble.StackingClassifier": {
        "models": [BAYES, BERNOULLI],
        "meta_classifier": {"class": "linear_model.SoftmaxRegression"},
    },
    "drift.DriftRetrainingClassifier": {"model": BAYES},
    "model_selection.BanditClassifier": {
        "models": [BAYES, BERNOULLI],
        "metric": {"class": "metrics.Accuracy"},
        "policy": EPSILON,
    },
    "multiclass.OneVsRestClassifier": {"classifier": LOGISTIC},
    "neighbors.KNNClassifier": {"engine": {"class": "neighbors.LazySearch", "options": {"window_size": 20}}},
}
SCIKIT_LEARN: dict[str, dict[str, Any]] = {
    "linear_model.Perceptron": {},
    "linear_model.SGDClassifier": {"loss": "log_loss"},
    "naive_bayes.BernoulliNB": {},
    "naive_bayes.ComplementNB": {},
    "naive_bayes.MultinomialNB": {},
    "neural_network.MLPClassifier": {"hidden_layer_sizes": []},
}
QUICK = {"linear_model.SoftmaxRegression", "neighbors.KNNClassifier", "neural_network.MLPClassifier"}
"""Classes of different kinds whose checks are quick."""


def cases() -> list[Any]:
    made: list[tuple[str, LibraryConfig]] = [
        (name, River.model_validate({"class": name, "options": options})) for name, options in RIVER.items()
    ]
    made += [
        (name, ScikitLearn.model_validate({"class": name, "options": options, "batch_size": 8, "classes": 5}))
        for name, options in SCIKIT_LEARN.items()
    ]
    return [
        pytest.param(
            config, id=f"{config.library}.{name}", marks=[] if name in QUICK else [pytest.mark.soak, pytest.mark.long]
        )
        for name, config in made
    ]


@pytest.mark.parametrize("config", cases())
def test_a_class_passes_the_battery(
    features: Callable[..., pa.Table], config: Any, request: pytest.FixtureRequest
) -> None:
    quick = not request.node.get_closest_marker("soak")  # tests/models/test_battery.py has another process for these
    check_model(config, features(90), skip=["another_process_changes_nothing"] if quick else [])


def test_the_page_lists_these_classes() -> None:
    page = section("docs/models.md", "## Classes of River and scikit-learn")
    for kind, classes in (("river", RIVER), ("scikit_learn", SCIKIT_LEARN)):
        [line] = re.findall(rf"^- `type: {kind}`: (.*(?:\n  .*)*)", page, re.M)
        listed = []
        for module, names in re.findall(r"`(\w+)`:\s+([^;.]+)", line):
            listed += [f"{module}.{name}" for name in re.findall(r"`(\w+)`", names)]
        assert listed == list(classes)
