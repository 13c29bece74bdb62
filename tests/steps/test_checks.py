"""The battery: a step and a model that pass it, and ones broken in each way that it is there to find."""

from __future__ import annotations

import ctypes
import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import BaseModel

from millstream.steps.checks import MODEL_CHECKS, STEP_CHECKS, check_model, check_step
from millstream.steps.checks.models import Trial
from millstream.steps.checks.steps import epochs_of
from millstream.steps.contracts import Array, Output, Result, Scope, State, Step, Traits
from millstream.steps.popularity import Popularity

HERE = ["another_process_changes_nothing"]


def records(size: int = 40) -> pa.Table:
    dice = np.random.default_rng(0)
    labels = dice.choice(["a", "b", "c"], size).tolist()
    return pa.table(
        {
            "_rank": pa.array(dice.integers(0, 2, size), pa.int32()),
            "_offset": pa.array(range(size), pa.int64()),
            "_time": pa.array(dice.integers(0, 1000, size), pa.int64()),
            "text": [label * int(length) for label, length in zip(labels, dice.integers(1, 9, size), strict=True)],
            "label": labels,
        }
    )


class Counting:
    """Adds `seen`: how many records with the same label came before; in the output `firsts`, the first of each."""

    firsts = pa.schema([("_rank", pa.int32()), ("_offset", pa.int64()), ("_time", pa.int64()), ("label", pa.string())])
    traits = Traits(Scope.KEYED)
    outputs = (Output("firsts", firsts),)

    def __init__(self, schema: pa.Schema) -> None:
        self.none = schema.append(pa.field("seen", pa.int64())).empty_table()
        self.counts: dict[str, int] = {}

    def process(self, records: pa.Table) -> Result:
        seen = [self.count(label) for label in records["label"].to_pylist()]
        made = records.append_column("seen", pa.array(seen, pa.int64()))
        firsts = records.select(self.firsts.names).filter(pa.array([n == 0 for n in seen], pa.bool_()))
        return Result(made, {"firsts": firsts.cast(self.firsts)})

    def count(self, label: str) -> int:
        self.counts[label] = self.counts.get(label, -1) + 1
        return self.counts[label]

    def ended(self, substream: Any) -> Result:
        return Result(self.none)

    def save(self) -> State:
        return {"counts": json.dumps(self.counts).encode()}

    def restore(self, state: State) -> None:
        self.counts = json.loads(bytes(state["counts"])) if state else {}


class OtherOutput(Counting):
    def process(self, records: pa.Table) -> Result:
        return Result(records, {"lasts": records})


class OtherColumns(Counting):
    def process(self, records: pa.Table) -> Result:
        return Result(records, {"firsts": records})


class UntypedWhenEmpty(Counting):
    def process(self, records: pa.Table) -> Result:
        return Result(records.append_column("seen", pa.array([1 for _ in range(records.num_rows)])))


class RowPerBatch(Counting):
    def process(self, records: pa.Table) -> Result:
        row = pa.table({"_rank": [0], "_offset": [0], "_time": [0], "label": ["a"]}).cast(self.firsts)
        return Result(records, {"firsts": row})


class CountsBatches(Counting):
    def process(self, records: pa.Table) -> Result:
        self.counts["batches"] = self.counts.get("batches", 0) + 1
        return Result(records)


class WritesInput(Counting):
    def process(self, records: pa.Table) -> Result:
        for chunk in records["_offset"].chunks:
            if len(chunk):
                ctypes.memset(chunk.buffers()[1].address + 8 * chunk.offset, 255, 8)
        return super().process(records)


class RanksInBatch(Counting):
    def process(self, records: pa.Table) -> Result:
        return Result(records.append_column("seen", pa.array(range(records.num_rows), pa.int64())))


class ForgetsLabelC(Counting):
    def restore(self, state: State) -> None:
        super().restore(state)
        self.counts.pop("c", None)


class RestoresLate(Counting):
    """Shows its saved state, but starts counting anew."""

    kept: State | None = None

    def restore(self, state: State) -> None:
        self.counts, self.kept = {}, state or None

    def save(self) -> State:
        return self.kept or super().save()

    def process(self, records: pa.Table) -> Result:
        self.kept = None
        return super().process(records)


class SharesItsState(Counting):
    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema)
        self.total = np.zeros(1, np.int64)

    def process(self, records: pa.Table) -> Result:
        self.total += records.num_rows
        return Result(records)

    def save(self) -> State:
        return {"total": self.total}

    def restore(self, state: State) -> None:
        self.total = np.array(state.get("total", np.zeros(1, np.int64)))


class KeepsWhatItHas(Counting):
    def restore(self, state: State) -> None:
        if state:
            super().restore(state)


class BeginsAtFive(Counting):
    def restore(self, state: State) -> None:
        super().restore(state)
        if not state:
            self.counts = {"a": 5}


class SaysStateless(Counting):
    traits = Traits(Scope.STATELESS)


class SaysUnordered(Counting):
    traits = Traits(Scope.KEYED, ordered=False)


class RemembersAll(Counting):
    def count(self, label: str) -> int:
        self.counts[f"record {len(self.counts)}"] = 0
        return super().count(label)


class Rolls(Counting):
    """Rolls dice, and says so."""

    traits = Traits(Scope.STATELESS, deterministic=False)

    def process(self, records: pa.Table) -> Result:
        dice = np.random.default_rng().integers(0, 2**60, records.num_rows)
        return Result(records.append_column("seen", pa.array(dice, pa.int64())))

    def save(self) -> State:
        return {}


@dataclass(frozen=True)
class Config:
    """Registers a step of this class."""

    step: type[Counting]
    type: str = "counting"

    def build(self, records: pa.Schema) -> Step:
        return self.step(records)


BROKEN_STEPS = [
    (OtherOutput, "outputs_are_as_declared", r"makes an output 'lasts' that it does not declare: \['firsts'\]"),
    (OtherColumns, "outputs_are_as_declared", r"declares for 'firsts'"),
    (UntypedWhenEmpty, "an_empty_batch_is_fine", r"gives an empty batch other columns than a full one"),
    (RowPerBatch, "an_empty_batch_is_fine", r"makes 1 rows of an empty batch"),
    (CountsBatches, "an_empty_batch_is_fine", r"remembers an empty batch; 'counts' in the state"),
    (WritesInput, "input_is_not_modified", r"changed the records it was given, in batch 0"),
    (RanksInBatch, "batching_changes_nothing", r"batches of one record; the records: row 1 of 'seen': 1, then 0"),
    (ForgetsLabelC, "saving_and_restoring_changes_nothing", r"does not restore all that it saves; 'counts'"),
    (RestoresLate, "saving_and_restoring_changes_nothing", r"goes on differently once saved .*row 10 of 'seen'"),
    (SharesItsState, "saving_and_restoring_changes_nothing", r"goes on writing to what it saved"),
    (KeepsWhatItHas, "restoring_nothing_makes_it_new", r"used and restored from an empty state, is not new"),
    (BeginsAtFive, "restoring_nothing_makes_it_new", r"new and restored from an empty state, is not new"),
    (SaysStateless, "traits_are_true", r"declares itself stateless, and remembers \['counts'\]"),
    (SaysUnordered, "traits_are_true", r"not ordered, but differs when records come in reverse; .*'seen'"),
    (RemembersAll, "state_is_bounded", r"grows on records that repeat: [\d,]+ bytes after 4 times"),
]


def test_a_good_step_passes() -> None:
    check_step(Config(Counting), records(), skip=HERE)


def test_a_step_over_event_time_gets_the_ends_that_an_engine_would_give() -> None:
    window = {"type": "tumbling", "size": "100us", "lateness": "0s"}
    check_step(Popularity.model_validate({"of": "label", "window": window}), records(), skip=HERE)


@pytest.mark.parametrize(("step", "check", "message"), BROKEN_STEPS)
def test_a_broken_step_is_found(step: type[Counting], check: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        STEP_CHECKS[check](Config(step), epochs_of(records()))
    with pytest.raises(AssertionError):
        check_step(Config(step), records(), skip=HERE)


def test_every_check_of_steps_is_seen_to_fail() -> None:
    assert {check for _, check, _ in BROKEN_STEPS} | set(HERE) == set(STEP_CHECKS)


def test_a_step_that_says_it_is_not_deterministic_is_not_compared_with_itself() -> None:
    check_step(Config(Rolls), records())


def test_checks_are_left_out_by_name() -> None:
    check_step(Config(SaysStateless), records(), skip=["traits_are_true", *HERE])


def test_a_check_that_does_not_exist_cannot_be_left_out() -> None:
    with pytest.raises(ValueError, match="no check named traits_are_tru; there are outputs_are_as_declared"):
        check_step(Config(Counting), records(), skip=["traits_are_tru"])


HASHING = """
from dataclasses import dataclass

import pyarrow as pa
from millstream.steps.contracts import Result, Scope, Traits

class Hashing:
    traits, outputs = Traits(Scope.STATELESS), ()
    def process(self, records):
        numbers = [function(text) for text in records["text"].to_pylist()]
        return Result(records.append_column("n", pa.array(numbers, pa.int64())))
    def ended(self, substream):
        return Result(pa.table({}))
    def save(self):
        return {}
    def restore(self, state):
        pass

def function(text):
    return FUNCTION

@dataclass(frozen=True)
class Config:
    type: str = "hashing"
    def build(self, records):
        return Hashing()
"""


def written(path: Path, name: str, function: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The config of a step in a module of its own, which another process can import."""
    (path / f"{name}.py").write_text(HASHING.replace("FUNCTION", function))
    monkeypatch.syspath_prepend(str(path))
    return __import__(name).Config()


def test_what_depends_on_the_process_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steady = written(tmp_path, "steady_step", "len(text)", monkeypatch)
    check_step(steady, records())
    hashing = written(tmp_path, "hashing_step", "hash(text)", monkeypatch)
    check_step(hashing, records(), skip=HERE)
    with pytest.raises(AssertionError, match="something else of the same records in another process; look for `hash"):
        check_step(hashing, records())


def test_a_step_that_cannot_run_in_another_process_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = written(tmp_path, "failing_step", "len(text) if __import__('sys').stdin.isatty() else 1 / 0", monkeypatch)
    with pytest.raises(AssertionError, match=r"another process cannot run(.|\n)*ZeroDivisionError"):
        STEP_CHECKS["another_process_changes_nothing"](failing, epochs_of(records()))


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
    (NeverNew, "restoring_nothing_makes_a_new_model", r"remembers something when restored from an empty state"),
]


def test_a_good_model_passes() -> None:
    check_model(ModelOf(kind=Lengths), records(), skip=HERE)


@pytest.mark.parametrize(("model", "check", "message"), BROKEN_MODELS)
def test_a_broken_model_is_found(model: type[Lengths], check: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        MODEL_CHECKS[check](Trial.of(ModelOf(kind=model), records(), "label"))
    with pytest.raises(AssertionError):
        check_model(ModelOf(kind=model), records(), skip=HERE)


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

    check_model(ModelOf(kind=Memorises), records(), skip=[*HERE, "state_is_bounded"])
    with pytest.raises(AssertionError, match=r"Classify\(.* grows"):
        check_model(ModelOf(kind=Memorises), records(), skip=HERE)


def test_records_of_one_label_cannot_try_a_model() -> None:
    only = records().filter(pa.array([label == "a" for label in records()["label"].to_pylist()]))
    with pytest.raises(ValueError, match=r"at least two labels; 'label' has \['a'\]"):
        check_model(ModelOf(kind=Lengths), only)
