"""The candidates of a search are built before any work begins; those that the model refuses are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millstream.api.validation import validate
from millstream.config.load import read_config
from millstream.errors import ConfigError
from millstream.history.search.candidates import Candidate, candidates_of

NAMED = {"use": "text_topics", "model": {"alpha": 0.5, "complement": True}}
WRITTEN_OUT: dict[str, Any] = {
    "steps": [{"type": "hashed_text"}, {"type": "classify", "model": {"type": "softmax", "rate": "constant"}}]
}


def config(search: dict[str, Any], pipeline: dict[str, Any]) -> dict[str, Any]:
    engine = {"type": "local"}
    return {"name": "a", "source": {"type": "generator"}, "pipeline": pipeline, "engine": engine, "search": search}


def candidates(search: dict[str, Any], pipeline: dict[str, Any] = WRITTEN_OUT) -> list[Candidate]:
    return candidates_of(read_config(config(search, pipeline), Path(), "news.yaml"))


def test_a_candidate_is_the_config_with_its_options_and_no_search() -> None:
    found = candidates({"over": {"model.learning_rate": [0.1, 2]}})
    assert [each.model["learning_rate"] for each in found] == [0.1, 2.0]
    assert all(each.model["rate"] == "constant" for each in found)
    assert [each.loaded.config.search for each in found] == [None, None]
    by_hand = {"type": "softmax", "rate": "constant", "learning_rate": 2}
    steps = [{"type": "hashed_text"}, {"type": "classify", "model": by_hand}]
    written = read_config({**config({}, {"steps": steps}), "search": None}, Path(), "news.yaml")
    assert found[1].loaded.resolved() == written.resolved()


def test_options_of_the_default_model_of_a_named_pipeline_are_searched() -> None:
    found = candidates({"over": {"model.alpha": [0.1, 2]}}, NAMED)
    assert [(each.model["alpha"], each.model["complement"]) for each in found] == [(0.1, True), (2.0, True)]


def test_another_type_begins_with_its_own_defaults() -> None:
    over = [{"model.type": ["naive_bayes"], "model.alpha": [2]}, {"model": [{"type": "sgd"}, {"type": "softmax"}]}]
    found = candidates({"over": over})
    assert [(each.model["type"], each.model.get("alpha")) for each in found] == [
        ("naive_bayes", 2.0),
        ("sgd", 0.0),
        ("softmax", None),
    ]
    assert found[2].model["rate"] == "adaptive"


def test_options_of_library_classes_are_searched() -> None:
    classes = {"model.type": ["river"], "model.class": ["linear_model.SoftmaxRegression"], "model.options.l2": [0, 0.1]}
    assert [each.model["options"] for each in candidates({"over": classes})] == [{"l2": 0}, {"l2": 0.1}]


@pytest.mark.parametrize(
    ("over", "key", "message"),
    [
        (
            {"model.learning_rat": [1, 2]},
            "search.over.model.learning_rat",
            "candidate 1 (model.learning_rat=1) and 1 more: unknown key; did you mean `learning_rate`?",
        ),
        (
            {"model.momentum": [1]},
            "search.over.model.momentum",
            "candidate 1 (model.momentum=1): unknown key; one of batch_size, features, learning_rate, rate, type",
        ),
        (
            {"model.learning_rate": [1, -1]},
            "search.over.model.learning_rate",
            "candidate 2 (model.learning_rate=-1): -1 is not allowed; more than 0",
        ),
        (
            {"model.type": ["softmax", "naive_bayes"], "model.rate": ["adaptive"]},
            "search.over.model.rate",
            "candidate 2 (model.type=naive_bayes, model.rate=adaptive): unknown key; one of alpha, batch_size, "
            "complement, features, half_life, type; models with other options need a space of their own: `over` is "
            "then a list of mappings",
        ),
        (
            [{"model.type": ["bayes"]}],
            "search.over.0.model.type",
            'candidate 1 (model.type=bayes): "bayes": no such model is installed; one of complement_nb',
        ),
        (
            {"model.options.l2": [1]},
            "search.over.model.options.l2",
            "candidate 1 (model.options.l2=1): unknown key; one of batch_size",
        ),
    ],
)
def test_a_candidate_that_the_model_refuses_is_named_with_its_values(over: Any, key: str, message: str) -> None:
    [problem] = validate(config({"over": over}, WRITTEN_OUT))
    assert problem.key == key
    assert problem.message.startswith(message)


def test_a_config_without_a_search_is_refused_with_an_example() -> None:
    loaded = read_config({**config({}, NAMED), "search": None}, Path(), "news.yaml")
    with pytest.raises(ConfigError, match=r"news.yaml has no `search`, which names the values to try; for example"):
        candidates_of(loaded)


def test_the_step_of_the_search_is_one_that_classifies() -> None:
    with pytest.raises(ConfigError, match=r"search.step: no step 'bayes' classifies; one of classify"):
        candidates({"step": "bayes", "over": {"model.alpha": [1]}})


def test_one_of_several_steps_that_classify_is_searched() -> None:
    steps = [*WRITTEN_OUT["steps"], {**WRITTEN_OUT["steps"][1], "name": "second", "from": "hashed_text"}]
    search = {"step": "second", "over": {"model.learning_rate": [0.1, 2]}}
    for candidate, rate in zip(candidates(search, {"steps": steps}), (0.1, 2.0), strict=True):
        assert (candidate.way.model.name, candidate.model["learning_rate"]) == ("second", rate)
        assert candidate.loaded.config.steps[1].config.model.learning_rate == 0.5
    with pytest.raises(ConfigError, match=r"several steps classify: classify, second; name one of them"):
        candidates({"over": {"model.learning_rate": [0.1]}}, {"steps": steps})


def test_a_registered_model_is_refused_without_a_question_to_the_registry() -> None:
    steps = [{"type": "hashed_text"}, {"type": "classify", "model": {"from": "models:/news/1"}}]
    with pytest.raises(ConfigError, match=r"a search on a history begins without a model, so `from` has no meaning"):
        candidates({"over": {"model.alpha": [1]}}, {"steps": steps})


def test_values_from_the_environment_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATE", "0.5")
    with pytest.raises(ConfigError, match=r"a value from the environment is no candidate; write it into the config"):
        candidates({"over": {"model.learning_rate": ["${RATE}"]}})
