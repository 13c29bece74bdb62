"""The checks of models: a correct model passes all of them, and each check finds a broken model."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import BaseModel
from support.steps_labelled_records import labelled_records

from millstream.steps.checks import MODEL_CHECKS, STEP_CHECKS, check_model
from millstream.steps.checks.model_trial import Trial
from millstream.steps.contracts import Array, Delta, State

SKIP = ["another_process_changes_nothing"]


class Lengths:
    """A model that learns the mean length of the texts of each class, and predicts the class with the nearest mean."""

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


class AddsUp(Lengths):
    adds_up = True

    def delta(self, inputs: Any, labels: Array, classes: int) -> Delta:
        alone = type(self)()
        alone.learn(inputs, labels, classes)
        return {"sums": alone.sums}

    def merge(self, deltas: Sequence[Delta], classes: int) -> None:
        self.sums = np.sum([np.zeros((classes, 2)), *(delta["sums"] for delta in deltas)], axis=0)


class AddsOnce(AddsUp):
    def merge(self, deltas: Sequence[Delta], classes: int) -> None:
        super().merge(deltas[:1], classes)


class LearnsInDelta(AddsUp):
    def delta(self, inputs: Any, labels: Array, classes: int) -> Delta:
        self.learn(inputs, labels, classes)
        return {"sums": self.sums}


class AddsFractions(AddsUp):
    def delta(self, inputs: Any, labels: Array, classes: int) -> Delta:
        return {"sums": super().delta(inputs, labels, classes)["sums"] / 3}


class Averages(Lengths):
    """A model of sums: what replicas have added to the start is added."""

    def average(self, replicas: Iterable[tuple[State, int]], classes: int) -> None:
        start = self._wide(self.sums, classes)
        self.sums = start + sum(self._wide(np.asarray(state["sums"]), classes) - start for state, _ in replicas)

    def _wide(self, sums: Array, classes: int) -> Array:
        return np.pad(sums, ((0, classes - len(sums)), (0, 0)))


class KeepsTheStart(Averages):
    def average(self, replicas: Iterable[tuple[State, int]], classes: int) -> None:
        pass


class CountsIdleReplicas(Averages):
    def average(self, replicas: Iterable[tuple[State, int]], classes: int) -> None:
        self.sums = np.mean([self._wide(np.asarray(state["sums"]), classes) for state, _ in replicas], axis=0)


class ChangesReplicas(Averages):
    def average(self, replicas: Iterable[tuple[State, int]], classes: int) -> None:
        kept = list(replicas)
        super().average(kept, classes)
        for state, _ in kept:
            np.asarray(state["sums"])[:] = 0


class PredictsNothing(Lengths):
    def predict(self, inputs: Any) -> Any:
        return None


class SavesNothing(Lengths):
    def save(self) -> Any:
        return None


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
    """Learns differently after each step, and does not save the number of steps."""

    steps = 0

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        self.steps += 1
        super().learn(inputs / self.steps, labels, classes)


class HidesABuffer(Lengths):
    """Learns ten records at a time, and does not save those that wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[float, int]] = []

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        super().learn(inputs[:0], labels[:0], classes)
        self.waiting += zip(inputs.tolist(), labels.tolist(), strict=True)
        while len(self.waiting) >= 10:
            lengths, known = zip(*self.waiting[:10], strict=True)
            super().learn(np.array(lengths), np.array(known), classes)
            del self.waiting[:10]

    def restore(self, state: State) -> None:
        super().restore(state)
        self.waiting = []


class PicklesIntoAnArray(Pickles):
    def save(self) -> State:
        content = bytes(super().save()["sums"])
        return {"sums": np.frombuffer(content + bytes(-len(content) % 8), np.int64)}

    def restore(self, state: State) -> None:
        super().restore({"sums": np.asarray(state["sums"]).tobytes()} if state else {})


class SavesItsAddress(Lengths):
    """Saves more than it has learned, as a pickle does whose bytes depend on memory addresses."""

    made = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.address = str(next(self.made)).encode()

    def save(self) -> State:
        return {**super().save(), "address": self.address}

    def restore(self, state: State) -> None:
        super().restore(state)
        self.address = bytes(state.get("address", b""))


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


class ThenLearns(Lengths):
    """The correct model with `predict_then_learn`, which calls `predict` and `learn` row by row."""

    def predict_then_learn(self, inputs: Any, labels: Array, known: int) -> tuple[Array, Array]:
        classes, probability = np.full(len(labels), -1), np.zeros(len(labels))
        for row, label in enumerate(labels.tolist()):
            here = slice(row, row + 1)
            if known:
                classes[here], probability[here] = self.predict(inputs[here])
            if label >= 0:
                known = max(known, label + 1)
                self.learn(inputs[here], labels[here], known)
        return classes, probability


class PredictsBatches(ThenLearns):
    """Predicts the whole batch before it learns from the batch."""

    def predict_then_learn(self, inputs: Any, labels: Array, known: int) -> tuple[Array, Array]:
        classes, probability = self.predict(inputs) if known else (np.full(len(labels), -1), np.zeros(len(labels)))
        super().predict_then_learn(inputs, labels, known)
        return classes, probability


class LearnsMissing(ThenLearns):
    """Learns a missing label as the first class."""

    def predict_then_learn(self, inputs: Any, labels: Array, known: int) -> tuple[Array, Array]:
        answer = super().predict_then_learn(inputs, labels, known)
        if known and len(labels) and labels[-1] < 0:
            self.learn(inputs[-1:], np.zeros(1, np.int64), known)
        return answer


class ForgetsKnown(ThenLearns):
    """Predicts nothing before the first label of a batch."""

    def predict_then_learn(self, inputs: Any, labels: Array, known: int) -> tuple[Array, Array]:
        classes, probability = super().predict_then_learn(inputs, labels, known)
        before = np.cumsum(labels >= 0) <= (labels >= 0)
        return np.where(before, -1, classes), np.where(before, 0, probability)


class ModelOf(BaseModel):
    """The config of a model of this class."""

    kind: Any
    type: str = "lengths"
    batch_size: int = 4

    def build(self, records: pa.Schema) -> Lengths:
        return self.kind()  # type: ignore[no-any-return]


BROKEN_MODELS = [
    (PredictsNothing, "predictions_are_classes", r"`predict` returns a value of the type NoneType; return a tuple of"),
    (SavesNothing, "state_is_plain", r"has a state of the type NoneType; let `save` return a dict of arrays and bytes"),
    (NarrowClasses, "predictions_are_classes", r"predicts classes as int32\[40\]; return an array int64\[40\]"),
    (UnknownClass, "predictions_are_classes", r"predicts the classes \[1\], but has learned only the classes 0 to 0"),
    (OverCertain, "predictions_are_classes", r"predicts the probability [12]"),
    (LearnsWhilePredicting, "predictions_are_pure", r"changes its state while it predicts; 'sums' in the state"),
    (AlternatesAnswers, "predictions_are_pure", r"the probability .* when it predicts again"),
    (LooksAtNeighbours, "rows_can_be_cut", r"when rows are taken one by one"),
    (PreparesTogether, "rows_can_be_cut", r"when rows are prepared one by one"),
    (WritesRows, "prepared_rows_are_not_modified", r"changes the rows that it gets"),
    (Pickles, "state_is_plain", r"'sums' in its state as a pickle; use arrays, or JSON"),
    (
        PicklesIntoAnArray,
        "state_is_plain",
        r"'sums' in its state as a pickle in an array; use arrays of numbers, or JSON",
    ),
    (SavesObjects, "state_is_plain", r"'sums' in its state as an array of Python objects; use arrays of numbers"),
    (RestoresHalf, "a_restored_model_goes_on", r"does not restore its whole state; 'sums'"),
    (HidesARate, "a_restored_model_goes_on", r"learns differently after its state was restored; 'sums'"),
    (
        HidesABuffer,
        "a_restored_model_goes_on",
        r"learns differently after its state was saved and restored at the rows",
    ),
    (SavesItsAddress, "learning_is_repeatable", r"different states of two new models that learned the same rows; 'add"),
    (SharesArrays, "a_restored_model_goes_on", r"changes a state after it was saved or restored"),
    (PredictsBatches, "predict_then_learn_is_row_by_row", r"for row .* with `predict_then_learn` of rows split at \["),
    (
        LearnsMissing,
        "predict_then_learn_is_row_by_row",
        r"(with|learns differently with) `predict_then_learn` of rows split at \[",
    ),
    (ForgetsKnown, "predict_then_learn_is_row_by_row", r"with `predict_then_learn` of rows split at \["),
    (AddsOnce, "deltas_add_up", r"has another state after a merge of 2 deltas than after `learn`"),
    (LearnsInDelta, "deltas_add_up", r"changes in `delta`"),
    (AddsFractions, "deltas_add_up", r"has a delta with other numbers than whole ones below 2\^53"),
    (KeepsTheStart, "replicas_average", r"has another state after the average of one replica than this replica"),
    (CountsIdleReplicas, "replicas_average", r"has another average of 1 replicas with one that learned nothing"),
    (ChangesReplicas, "replicas_average", r"changes the states of replicas in `average`"),
    (
        NeverNew,
        "an_empty_state_is_a_new_model",
        r"is not like a new model after an empty state was restored",
    ),
]


@pytest.mark.parametrize(
    ("model", "size"), [(Lengths, 4), (AddsUp, 4), (Averages, 4), (ThenLearns, 4), (ThenLearns, 1)]
)
def test_a_correct_model_passes_all_checks(model: type[Lengths], size: int) -> None:
    check_model(ModelOf(kind=model, batch_size=size), labelled_records(), skip=SKIP)


@pytest.mark.parametrize(("model", "check", "message"), BROKEN_MODELS)
def test_the_check_finds_the_broken_model(model: type[Lengths], check: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        MODEL_CHECKS[check](Trial.of(ModelOf(kind=model), labelled_records(), "label"))
    names = "|".join([*MODEL_CHECKS, *STEP_CHECKS])
    with pytest.raises(AssertionError, match=rf"(?s)^({names}): .*; "):
        check_model(ModelOf(kind=model), labelled_records(), skip=SKIP)


@pytest.mark.parametrize(
    ("model", "name", "message"),
    [
        (SavesItsAddress, "learning_is_repeatable", "memory addresses in a pickle"),
        (WritesRows, "prepared_rows_are_not_modified", "changes the rows that it gets"),
    ],
)
def test_the_battery_names_the_cause(model: type[Lengths], name: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_model(ModelOf(kind=model), labelled_records(), skip=SKIP)
    if name == "learning_is_repeatable":  # nothing is known about the rows
        MODEL_CHECKS["prepared_rows_are_not_modified"](Trial.of(ModelOf(kind=model), labelled_records(), "label"))


def test_a_buffer_is_found_whose_size_divides_the_epochs_of_the_battery() -> None:
    lengths = ["long" * (1 + "abc".index(label)) for label in "abbbcabbcb" * 4]
    position = {"_rank": [0] * 40, "_offset": range(40), "_time": range(40)}
    records = pa.table({**position, "text": lengths, "label": [*"abbbcabbcb" * 4]})
    for skip in (SKIP, [*SKIP, "a_restored_model_goes_on"]):
        with pytest.raises(AssertionError, match=r"learns differently|other results after `restore` within an epoch"):
            check_model(ModelOf(kind=HidesABuffer, batch_size=1), records, skip=skip)


def test_every_check_of_models_fails_for_some_broken_model() -> None:
    assert {check for _, check, _ in BROKEN_MODELS} == set(MODEL_CHECKS)


def test_a_model_is_also_checked_inside_the_step_classify() -> None:
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

    check_model(ModelOf(kind=Memorises), labelled_records(), skip=[*SKIP, "state_is_bounded"])
    with pytest.raises(AssertionError, match=r"Classify\(.* grows"):
        check_model(ModelOf(kind=Memorises), labelled_records(), skip=SKIP)


def test_records_with_only_one_label_are_refused() -> None:
    only = labelled_records().filter(pa.array([label == "a" for label in labelled_records()["label"].to_pylist()]))
    with pytest.raises(
        ValueError, match=r"need at least two different labels; the column 'label' has the labels \['a'\]"
    ):
        check_model(ModelOf(kind=Lengths), only)
