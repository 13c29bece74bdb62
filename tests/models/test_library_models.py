"""Classes of River and scikit-learn as models: they predict as in their library, and wrong ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import BaseModel, ValidationError
from river import compose, feature_extraction, linear_model, multiclass, optim
from sklearn.linear_model import SGDClassifier

import millstream as ms
from millstream.errors import ConfigError, StepFailed
from millstream.state.digests import state_digest
from millstream.steps.classify import Classify
from millstream_models.features import features_field, to_csr
from millstream_models.libraries.river_classes import River
from millstream_models.libraries.sklearn_classes import ScikitLearn

TEXT = pa.schema([("text", pa.string())])
FEATURES = pa.schema([features_field(512)])


def river(name: str, **options: Any) -> River:
    return River.model_validate({"class": name, "options": options})


def scikit_learn(name: str, options: dict[str, Any] | None = None, **others: Any) -> ScikitLearn:
    return ScikitLearn.model_validate({"class": name, "options": options or {}, **others})


def problems(config: type[BaseModel], **values: Any) -> dict[str, str]:
    with pytest.raises(ValidationError) as refused:
        config.model_validate(values)
    return {".".join(map(str, error["loc"])): error["msg"] for error in refused.value.errors()}


# ---------------------------------------------------------------- predictions


@pytest.mark.parametrize(
    ("config", "own"),
    [
        (
            river("linear_model.SoftmaxRegression", optimizer={"class": "optim.SGD", "options": {"lr": 0.5}}),
            linear_model.SoftmaxRegression(optim.SGD(0.5)),
        ),
        (river("linear_model.LogisticRegression"), multiclass.OneVsRestClassifier(linear_model.LogisticRegression())),
    ],
    ids=["several classes", "two classes"],
)
def test_predictions_are_those_of_rivers_own_loop(texts: Callable[..., pa.Table], config: River, own: Any) -> None:
    records = texts(150)
    found = Classify(model=config).build(records.schema).process(records).records
    pipeline = compose.Pipeline(feature_extraction.BagOfWords(), own)
    for row in found.to_pylist():
        chances = pipeline.predict_proba_one(row["text"])
        assert (row["predicted"] is None) == (not chances)
        if chances:
            assert chances[row["predicted"]] == row["probability"] == max(chances.values())
        if row["label"] is not None:
            pipeline.learn_one(row["text"], row["label"])


def test_predictions_are_those_of_scikit_learns_own_loop(features: Callable[..., pa.Table]) -> None:
    records = features(120)
    records = records.filter(records["label"].is_valid())
    config = scikit_learn("linear_model.SGDClassifier", {"loss": "log_loss"}, batch_size=1, classes=4)
    found = Classify(model=config).build(records.schema).process(records).records
    own = SGDClassifier(loss="log_loss", random_state=0)
    names: dict[str, int] = {}
    rows = to_csr(records["features"].combine_chunks(), 512)
    for index, row in enumerate(found.to_pylist()):
        if names:
            chances = own.predict_proba(rows[index])[0][: len(names)]
            assert row["predicted"] == list(names)[chances.argmax()]
            assert row["probability"] == pytest.approx(chances.max() / chances.sum(), rel=1e-12)
        label = names.setdefault(row["label"], len(names))
        own.partial_fit(rows[index], [label], classes=np.arange(4))


@pytest.mark.parametrize("classes", [2, 16])
def test_margins_without_probabilities_give_the_class_of_scikit_learn(
    features: Callable[..., pa.Table], classes: int
) -> None:
    records = features(100, topics=2)
    model = scikit_learn("linear_model.SGDClassifier", classes=classes).build(records.schema)
    rows = model.prepare(records["features"].combine_chunks())
    labels = np.arange(100) % 2
    model.learn(rows, labels, 2)
    own = SGDClassifier(random_state=0).partial_fit(rows, labels, classes=np.arange(classes))
    found, probability = model.predict(rows)
    margins = own.decision_function(rows)
    assert found.tolist() == (margins > 0 if classes == 2 else margins[:, 1] > margins[:, 0]).astype(int).tolist()
    assert ((probability >= 0.5) & (probability <= 1)).all()


def test_labels_that_have_not_appeared_are_never_predicted(features: Callable[..., pa.Table]) -> None:
    records = features(30)
    model = scikit_learn("naive_bayes.BernoulliNB", {"fit_prior": False}).build(records.schema)
    rows = model.prepare(records["features"].combine_chunks())
    model.learn(rows[:10], np.arange(10) % 2, 2)
    classes, probability = model.predict(rows)
    assert set(classes.tolist()) <= {0, 1}
    chances = model.chances(rows)
    assert chances.shape == (30, 2) and np.allclose(chances.sum(axis=1), 1) and (probability >= 0.5).all()


def test_more_labels_than_classes_stop_the_run(features: Callable[..., pa.Table]) -> None:
    records = features(90)
    step = Classify(model=scikit_learn("naive_bayes.MultinomialNB", classes=2)).build(records.schema)
    with pytest.raises(StepFailed, match=r"more than 2 labels.*set `classes` of the model.*--fresh"):
        step.process(records)


def test_models_with_random_numbers_learn_the_same_without_a_seed_in_the_config() -> None:
    config = river("ensemble.BaggingClassifier", model={"class": "naive_bayes.MultinomialNB"}, n_models=3)
    rows = config.build(TEXT).prepare(pa.array(["a late goal", "the night train"] * 10))
    digests = set()
    for _ in range(2):
        model = config.build(TEXT)
        model.learn(rows, np.arange(20) % 2, 2)
        digests.add(state_digest(model.save()))
    other = river("ensemble.BaggingClassifier", model={"class": "naive_bayes.MultinomialNB"}, n_models=3, seed=1)
    model = other.build(TEXT)
    model.learn(rows, np.arange(20) % 2, 2)
    assert len(digests) == 1 and state_digest(model.save()) not in digests


def test_a_config_is_written_as_it_is_read() -> None:
    config = river("linear_model.SoftmaxRegression", l2=0.1)
    assert config.model_dump(mode="json")["class"] == "linear_model.SoftmaxRegression"
    assert River.model_validate(config.model_dump(mode="json")) == config


# ---------------------------------------------------------------- what is refused


def test_a_wrong_class_is_refused_with_the_nearest_one() -> None:
    assert "did you mean `SoftmaxRegression`?" in problems(River, **{"class": "linear_model.SoftmaxRegresion"})["class"]
    assert "river has no module 'linear_models'" in problems(River, **{"class": "linear_models.Perceptron"})["class"]
    assert "river has no module 'Perceptron'" in problems(River, **{"class": "Perceptron"})["class"]
    assert "sklearn has no module 'os'" in problems(ScikitLearn, **{"class": "os.system"})["class"]
    assert "is not a classifier of River" in problems(River, **{"class": "linear_model.LinearRegression"})["class"]
    assert "does not learn online" in problems(ScikitLearn, **{"class": "svm.SVC"})["class"]


def test_a_class_of_another_package_is_refused() -> None:
    assert "has no class 'OrderedDict'" in problems(River, **{"class": "compose.pipeline.OrderedDict"})["class"]


def test_wrong_options_are_refused_each_at_its_place() -> None:
    optimizer = {"class": "optim.SGD", "options": {"learning": 1}, "more": 1}
    found = problems(
        River, **{"class": "linear_model.SoftmaxRegression", "options": {"l3": 1, "optimizer": optimizer, "loss": None}}
    )
    assert found == {
        "options.l3": "linear_model.SoftmaxRegression has no such option; it has optimizer, loss, l2",
        "options.optimizer.more": "unknown key; an object has `class` and `options`",
        "options.optimizer.options.learning": "optim.SGD has no such option; it has lr",
    }
    nothing = problems(River, **{"class": "multiclass.OneVsRestClassifier"})
    assert nothing == {"options.classifier": "multiclass.OneVsRestClassifier needs this option"}
    models = {"models": [{"class": "naive_bayes.MultinomialNB"}, {"class": "naive_bayes.Multinomial"}]}
    voting = problems(River, **{"class": "ensemble.VotingClassifier", "options": models})
    assert "did you mean `MultinomialNB`?" in voting["options.models.1.class"]


def test_options_that_the_class_refuses_are_reported() -> None:
    found = problems(River, **{"class": "linear_model.PAClassifier", "options": {"mode": 7}})
    assert found == {"options": "linear_model.PAClassifier refuses its options: KeyError: 7"}


def test_no_seed_is_refused() -> None:
    bagging = {"model": {"class": "naive_bayes.MultinomialNB"}, "seed": None}
    found = problems(River, **{"class": "ensemble.BaggingClassifier", "options": bagging})
    assert "give a number, or leave it out for 0" in found["options.seed"]
    found = problems(ScikitLearn, **{"class": "linear_model.Perceptron", "options": {"random_state": None}})
    assert "give a number, or leave it out for 0" in found["options.random_state"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (river("neighbors.KNNClassifier"), "its attribute _nn._rng differs between two trainings"),
        (river("facto.FMClassifier"), "changes its attribute .* when it predicts"),
        (river("multiclass.OneVsOneClassifier", classifier={"class": "linear_model.Perceptron"}), "no probabilities"),
        (
            river("active.EntropySampler", classifier={"class": "linear_model.LogisticRegression"}),
            r"changes its attribute .*_rng when it predicts",
        ),
    ],
)
def test_a_class_that_fails_the_trial_of_river_is_refused(config: River, message: str) -> None:
    with pytest.raises(
        ConfigError, match=f"river.{config.class_}: .*{message}.*; choose other options or another class"
    ):
        config.build(TEXT)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (scikit_learn("naive_bayes.GaussianNB"), "a trial with 256 records failed: TypeError: Sparse data"),
        (scikit_learn("neural_network.MLPClassifier"), "its prediction for a record depends on the other records"),
        (scikit_learn("linear_model.SGDClassifier", {"loss": "l"}), "InvalidParameterError: The 'loss' parameter"),
        (
            scikit_learn("linear_model.SGDClassifier", {"average": True}, classes=2),
            "the attribute .* is a view of another array of the model",
        ),
    ],
)
def test_a_class_that_fails_the_trial_of_scikit_learn_is_refused(config: ScikitLearn, message: str) -> None:
    with pytest.raises(
        ConfigError, match=f"sklearn.{config.class_}: .*{message}.*; choose other options or another class"
    ):
        config.build(FEATURES)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["class: linear_model.Perceptrn"], [("6", "class", "did you mean `Perceptron`?")]),
        (["class: linear_model.Perceptron", "options:", "  l3: 1"], [("8", "options.l3", "has no such option")]),
        (["options: {}"], [("4", "class", "required")]),
        (["class: neighbors.KNNClassifier"], [("4", "", "its attribute _nn._rng differs")]),
    ],
)
def test_validate_names_the_line_and_the_key(
    tmp_path: Path, lines: list[str], found: list[tuple[str, str, str]]
) -> None:
    head = ["name: news", "source: {type: generator}", "pipeline:", "  model:", "    type: river"]
    (tmp_path / "news.yaml").write_text("\n".join([*head, *(f"    {line}" for line in lines), "  use: text_topics"]))
    problems = ms.validate(tmp_path / "news.yaml")
    assert len(problems) == len(found)
    for problem, (line, key, message) in zip(problems, found, strict=True):
        assert problem.where.endswith(f"news.yaml:{line}")
        assert problem.key == ".".join(filter(None, ["pipeline.model", key])) and message in problem.message
