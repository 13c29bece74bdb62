"""The battery for models: one that passes it, and ones broken in each way that it is there to find."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import BaseModel
from support.steps_labelled_records import labelled_records

from millstream.steps.checks import MODEL_CHECKS, check_model
from millstream.steps.checks.models import Trial
from millstream.steps.contracts import Array, State

HERE = ["another_process_changes_nothing"]


class Lengths:
    """A model that knows the mean length of each class's texts, and predicts the nearest."""

    reads = "text"

    def __init__(self) -> None:
        self.sums = np.zeros((0, 2))

    def prepare(self, column: pa.Array) -> Any:
        return np.array([float(len(text)) for text in column.to_pylist()])

    def predict(self, inputs: Any) -> tuple[Array, Array]:
        means = self.sums[:, 0] / np.maximum(self.sums[:, 1], 1)
        distance = np.abs(inputs[:, None] - means)
        return distance.argmin(axis=1), 1 / (1 + distance.min(axis=1))

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        grown = np.zeros((classes, 2))
        grown[: len(self.sums)] += self.sums
        np.add.at(grown, labels, np.stack([inputs, np.ones(len(inputs))], axis=1))
        self.sums = grown

    def save(self) -> State:
        return {"sums": self.sums.copy()}

    def restore(self, state: State) -> None:
        self.sums = np.array(state.get("sums", np.zeros((0, 2))))


class NarrowClasses(Lengths):
    def predict(self, inputs: Any) -> tuple[Array, Array]:
        classes, probability = super().predict(inputs)
        return classes.astype(np.int32), probability


class UnknownClass(Lengths):
    def predict(self, inputs: Any) -> tuple[Array, Array]:
        return np.full(len(inputs), len(self.sums), np.int64), np.ones(len(inputs))


class OverCertain(Lengths):
    def predict(self, inputs: Any) -> tuple[Array, Array]:
        classes, probability = super().predict(inputs)
        return classes, probability + 1


class LearnsWhilePredicting(Lengths):
    def predict(self, inputs: Any) -> tuple[Array, Array]:
        answer = super().predict(inputs)
        self.sums[0] += 1
        return answer


class AlternatesAnswers(Lengths):
    def predict(self, inputs: Any) -> tuple[Array, Array]:
        classes, probability = super().predict(inputs)
        self.turn = not getattr(self, "turn", False)
        return classes, probability / (2 if self.turn else 1)


class LooksAtNeighbours(Lengths):
    def predict(self, inputs: Any) -> tuple[Array, Array]:
        return super().predict(inputs - inputs.mean())


class PreparesTogether(Lengths):
    def prepare(self, column: pa.Array) -> Any:
        lengths = super().prepare(column)
        return lengths / lengths.max() if len(lengths) else lengths


class WritesRows(Lengths):
    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        super().learn(inputs, labels, classes)
        inputs *= 2


class Pickles(Lengths):
    def save(self) -> State:
        return {"sums": pickle.dumps(self.sums)}

    def restore(self, state: State) -> None:
        self.sums = pickle.loads(bytes(state["sums"])) if state else np.zeros((0, 2))  # noqa: S301


class SavesObjects(Lengths):
    def save(self) -> State:
        return {"sums": self.sums.astype(np.object_)}


class RestoresHalf(Lengths):
    def restore(self, state: State) -> None:
        super().restore(state)
        self.sums[:, 1:] = np.minimum(self.sums[:, 1:], 1)


class HidesARate(Lengths):
    """What it learns depends on a count that it does not save."""

    steps = 0

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        self.steps += 1
        super().learn(inputs / self.steps, labels, classes)


class SharesArrays(Lengths):
    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        if classes > len(self.sums):
            super().learn(inputs, labels, classes)
        else:
            np.add.at(self.sums, labels, np.stack([inputs, np.ones(len(inputs))], axis=1))

    def save(self) -> State:
        return {"sums": self.sums}


class NeverNew(Lengths):
    def restore(self, state: State) -> None:
        if state:
            super().restore(state)


class InTurn(Lengths):
    """The good model with `in_turn`, which is here what it has to equal."""

    def in_turn(self, inputs: Any, labels: Array, known: int) -> tuple[Array, Array]:
        classes, probability = np.full(len(labels), -1), np.zeros(len(labels))
        for row, label in enumerate(labels.tolist()):
            here = slice(row, row + 1)
            if known:
                classes[here], probability[here] = self.predict(inputs[here])
            if label >= 0:
                known = max(known, label + 1)
                self.learn(inputs[here], labels[here], known)
        return classes, probability


class PredictsBatches(InTurn):
    """It predicts the whole batch before it learns from it."""

    def in_turn(self, inputs: Any, labels: Array, known: int) -> tuple[Array, Array]:
        classes, probability = self.predict(inputs) if known else (np.full(len(labels), -1), np.zeros(len(labels)))
        super().in_turn(inputs, labels, known)
        return classes, probability


class LearnsMissing(InTurn):
    """It takes a missing label for one of the first class."""

    def in_turn(self, inputs: Any, labels: Array, known: int) -> tuple[Array, Array]:
        answer = super().in_turn(inputs, labels, known)
        if known and len(labels) and labels[-1] < 0:
            self.learn(inputs[-1:], np.zeros(1, np.int64), known)
        return answer


class ForgetsKnown(InTurn):
    """It has no answer before the first label of a batch."""

    def in_turn(self, inputs: Any, labels: Array, known: int) -> tuple[Array, Array]:
        classes, probability = super().in_turn(inputs, labels, known)
        before = np.cumsum(labels >= 0) <= (labels >= 0)
        return np.where(before, -1, classes), np.where(before, 0, probability)


class ModelOf(BaseModel):
    """Registers a model of this class."""

    kind: Any
    type: str = "lengths"
    block: int = 4

    def build(self, records: pa.Schema) -> Lengths:
        return self.kind()  # type: ignore[no-any-return]


BROKEN_MODELS = [
    (NarrowClasses, "predictions_are_classes", r"predicts classes as int32\[40\]; an array int64\[40\]"),
    (UnknownClass, "predictions_are_classes", r"predicts a class of \[1\] when it knows 1"),
    (OverCertain, "predictions_are_classes", r"predicts with the probability [12]"),
    (LearnsWhilePredicting, "predictions_are_pure", r"learns while it predicts; 'sums' in the state"),
    (AlternatesAnswers, "predictions_are_pure", r"the probability .* when asked again"),
    (LooksAtNeighbours, "rows_can_be_cut", r"when rows are taken one by one"),
    (PreparesTogether, "rows_can_be_cut", r"when rows are prepared one by one"),
    (WritesRows, "prepared_rows_are_not_modified", r"changes the rows that it is given"),
    (Pickles, "state_is_plain", r"saves 'sums' as a pickle; write arrays, or JSON"),
    (SavesObjects, "state_is_plain", r"saves 'sums' as an array of Python objects; save arrays of numbers"),
    (RestoresHalf, "a_restored_model_goes_on", r"does not restore all that it saves; 'sums'"),
    (HidesARate, "a_restored_model_goes_on", r"learns differently once restored; 'sums'"),
    (SharesArrays, "a_restored_model_goes_on", r"goes on writing to what it saved"),
    (PredictsBatches, "learning_in_turn_is_row_by_row", r"predicts for row .* with in_turn, cut at \["),
    (LearnsMissing, "learning_in_turn_is_row_by_row", r"(with|learns something else with) in_turn, cut at \["),
    (ForgetsKnown, "learning_in_turn_is_row_by_row", r"with in_turn, cut at \["),
    (NeverNew, "restoring_nothing_makes_a_new_model", r"remembers something when restored from an empty state"),
]


@pytest.mark.parametrize(("model", "block"), [(Lengths, 4), (InTurn, 4), (InTurn, 1)])
def test_a_good_model_passes(model: type[Lengths], block: int) -> None:
    check_model(ModelOf(kind=model, block=block), labelled_records(), skip=HERE)


@pytest.mark.parametrize(("model", "check", "message"), BROKEN_MODELS)
def test_a_broken_model_is_found(model: type[Lengths], check: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        MODEL_CHECKS[check](Trial.of(ModelOf(kind=model), labelled_records(), "label"))
    with pytest.raises(AssertionError):
        check_model(ModelOf(kind=model), labelled_records(), skip=HERE)


def test_every_check_of_models_is_seen_to_fail() -> None:
    assert {check for _, check, _ in BROKEN_MODELS} == set(MODEL_CHECKS)


def test_a_model_is_tried_as_a_step_too() -> None:
    class Memorises(Lengths):
        def __init__(self) -> None:
            super().__init__()
            self.all = b""

        def learn(self, inputs: Any, labels: Array, classes: int) -> None:
            super().learn(inputs, labels, classes)
            self.all += bytes(100)

        def save(self) -> State:
            return {**super().save(), "all": self.all}

        def restore(self, state: State) -> None:
            super().restore(state)
            self.all = bytes(state.get("all", b""))

    check_model(ModelOf(kind=Memorises), labelled_records(), skip=[*HERE, "state_is_bounded"])
    with pytest.raises(AssertionError, match=r"Classify\(.* grows"):
        check_model(ModelOf(kind=Memorises), labelled_records(), skip=HERE)


def test_records_of_one_label_cannot_try_a_model() -> None:
    only = labelled_records().filter(pa.array([label == "a" for label in labelled_records()["label"].to_pylist()]))
    with pytest.raises(ValueError, match=r"at least two labels; 'label' has \['a'\]"):
        check_model(ModelOf(kind=Lengths), only)
