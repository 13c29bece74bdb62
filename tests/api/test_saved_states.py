"""A model or step that saves other values than arrays and bytes: the error names its class, the key and the type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import millstream as ms
from millstream.plugin import Array, Model, ModelConfig, Result, Scope, State, Step, StepConfig, Traits


def run_of(step: object) -> ms.Run:
    """Run a pipeline of one step over a few records, with a checkpoint after each epoch."""
    source = {"type": "generator", "records": 60}
    engine = {"type": "local", "epoch": {"max_records": 20}}
    return ms.run(ms.Config(name="a", source=source, pipeline={"steps": [step]}, engine=engine))


class LastLabelConfig(ModelConfig):
    """The options of a model that saves what a test gives it."""

    saved: ClassVar[Callable[[], Any]]

    def build(self, records: pa.Schema) -> LastLabel:
        return LastLabel(type(self).saved)


class LastLabel(Model):
    def __init__(self, saved: Callable[[], Any]) -> None:
        self._saved = saved

    def predict(self, inputs: Any) -> tuple[Array, Array]:
        return np.zeros(len(inputs), np.int64), np.ones(len(inputs))

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        return

    def save(self) -> State:
        state: State = self._saved()
        return state

    def restore(self, state: State) -> None:
        return


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        (lambda: {"last": [1, 2]}, "saves a value of the type list as 'last'; save arrays of numbers, or bytes"),
        (lambda: {"last": 3}, "saves a value of the type int as 'last'"),
        (lambda: {"last": "text"}, "saves a value of the type str as 'last'"),
        (lambda: {"last": np.array([{}])}, "saves an array of Python objects as 'last'"),
        (lambda: {7: b""}, "saves a value of the type bytes as 7; the names in a state are texts"),
        (lambda: None, "saves a value of the type NoneType; `save` returns a dict of arrays and bytes by name"),
    ],
)
def test_a_model_that_saves_other_values_is_named_with_the_value_and_its_type(
    folder: Any, monkeypatch: pytest.MonkeyPatch, saved: Callable[[], Any], message: str
) -> None:
    monkeypatch.setattr(LastLabelConfig, "saved", staticmethod(saved), raising=False)
    with pytest.raises(ms.StepFailed) as refused:
        run_of({"type": "classify", "model": LastLabelConfig()})
    assert f"the model LastLabel {message}" in str(refused.value)


class CountConfig(StepConfig):
    """The options of a step that saves its count as a number."""

    def build(self, records: pa.Schema) -> Count:
        return Count(records)


class Count(Step):
    traits = Traits(Scope.GLOBAL)
    count = 0

    def process(self, records: pa.Table) -> Result:
        self.count += records.num_rows
        return Result(records)

    def save(self) -> State:
        return {"count": self.count}  # type: ignore[dict-item]


def test_a_step_that_saves_other_values_is_named_too(folder: Any) -> None:
    with pytest.raises(ms.StepFailed, match=r"step '\w+' \(Count\) saves a value of the type int as 'count'"):
        run_of(CountConfig())
