"""A model that returns wrong predictions: the run stops, with the class of the model and the mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import millstream as ms
from millstream.plugin import Array, Model, ModelConfig, State
from millstream.steps.classify import Classify


class FirstClassConfig(ModelConfig):
    """The options of a model that changes its predictions as a test says."""

    change: ClassVar[Callable[[Array, Array], Any]]

    def build(self, records: pa.Schema) -> FirstClass:
        return FirstClass(type(self).change)


class AtOnceConfig(FirstClassConfig):
    """The same model with `predict_then_learn`."""

    batch_size: int = 1

    def build(self, records: pa.Schema) -> FirstClass:
        return AtOnce(type(self).change)


class FirstClass(Model):
    """Predicts the class 0 with the probability 0.5."""

    def __init__(self, change: Callable[[Array, Array], Any]) -> None:
        self._change = change

    def predict(self, inputs: Any) -> tuple[Array, Array]:
        answer: tuple[Array, Array] = self._change(np.zeros(len(inputs), np.int64), np.full(len(inputs), 0.5))
        return answer

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        return

    def save(self) -> State:
        return {}

    def restore(self, state: State) -> None:
        return


class AtOnce(FirstClass):
    def predict_then_learn(self, inputs: Any, labels: Array, known: int) -> tuple[Array, Array]:
        return self.predict(inputs)


WRONG: list[tuple[Callable[[Array, Array], Any], str]] = [
    (lambda classes, chances: (classes[:1], chances[:1]), r"returns 1 class for \d+ rows; return one class for each"),
    (lambda classes, chances: (classes, chances[:0]), r"returns 0 probabilities for \d+ rows; return one probability"),
    (lambda classes, chances: (classes, chances * np.nan), "returns the probability nan; return numbers from 0 to 1"),
    (lambda classes, chances: (classes, chances + 1), "returns the probability 1.5; return numbers from 0 to 1"),
    (lambda classes, chances: (classes, chances - 1), "returns the probability -0.5"),
    (
        lambda classes, chances: (classes.astype(str), chances),
        "returns an array <U21 as classes; return an array of",
    ),
    (
        lambda classes, chances: (classes * 1.0, chances),
        "returns an array float64 as classes; return an array of",
    ),
    (lambda classes, chances: (classes + 99, chances), "returns the class 99, and has learned the classes 0 to "),
    (lambda classes, chances: (classes, chances.tolist()), "returns list as probabilities; return an array of probab"),
    (lambda classes, chances: None, "returns NoneType; return a tuple of two arrays: classes and probabilities"),
]


def run_of(model: ModelConfig) -> ms.Run:
    """Run a model over a few records."""
    pipeline = {"steps": [{"type": "classify", "model": model}]}
    engine = {"type": "local", "epoch": {"max_records": 20}}
    return ms.run(ms.Config(name="a", source={"type": "generator", "records": 60}, pipeline=pipeline, engine=engine))


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_a_run_with_wrong_predictions_stops_with_the_class_of_the_model(
    folder: Any, monkeypatch: pytest.MonkeyPatch, change: Callable[[Array, Array], Any], message: str
) -> None:
    monkeypatch.setattr(FirstClassConfig, "change", staticmethod(change), raising=False)
    with pytest.raises(ms.StepFailed, match=f"the model FirstClass: `predict` {message}"):
        run_of(FirstClassConfig(batch_size=4))


def test_predictions_that_a_model_makes_while_it_learns_are_checked_too(
    folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = staticmethod(lambda classes, chances: (classes[:1], chances[:1]))
    monkeypatch.setattr(FirstClassConfig, "change", change, raising=False)
    with pytest.raises(ms.StepFailed, match=r"the model AtOnce: `predict_then_learn` returns 1 class for 20 rows"):
        run_of(AtOnceConfig())


def test_predictions_outside_a_run_are_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    change = staticmethod(lambda classes, chances: (classes, chances))
    monkeypatch.setattr(FirstClassConfig, "change", change, raising=False)
    records = pa.table({"_rank": [0, 0], "_offset": [0, 1], "_time": [0, 1], "text": ["a", "b"], "label": ["a", "b"]})
    step = Classify(model=FirstClassConfig()).build(records.schema)
    step.process(records)
    step._present._model._change = lambda classes, chances: (classes.astype(str), chances)  # type: ignore[attr-defined]
    with pytest.raises(ms.StepFailed, match="the model FirstClass: `predict` returns an array <U21 as classes"):
        step.ask(records)
