"""The battery for steps: one that passes it, and ones broken in each way that it is there to find."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.steps_labelled_records import labelled_records

from millstream.steps.checks import STEP_CHECKS, check_step
from millstream.steps.checks.steps import epochs_of
from millstream.steps.contracts import Output, Result, Scope, State, Step, Traits
from millstream.steps.popularity import Popularity

HERE = ["another_process_changes_nothing"]


class Counting:
    """Adds `seen`: how many records with the same label came before; in the output `firsts`, the first of each."""

    firsts = pa.schema([("_rank", pa.int32()), ("_offset", pa.int64()), ("_time", pa.int64()), ("label", pa.string())])
    traits = Traits(Scope.KEYED, key="label")
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
        return {label: str(count).encode() for label, count in self.counts.items()}

    def restore(self, state: State) -> None:
        self.counts = {label: int(bytes(count)) for label, count in state.items()}


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
    traits = Traits(Scope.KEYED, ordered=False, key="label")


class SaysKeyedByNothing(Counting):
    traits = Traits(Scope.KEYED)


class SaysKeyedByANumber(Counting):
    traits = Traits(Scope.KEYED, key="_offset")


class NamesItsStateOtherwise(Counting):
    """Saves all of its state under one name."""

    def save(self) -> State:
        return {"counts": json.dumps(self.counts).encode()}

    def restore(self, state: State) -> None:
        self.counts = json.loads(bytes(state["counts"])) if state else {}


class LooksAtOtherKeys(Counting):
    """Counts the records of all labels for each."""

    def count(self, label: str) -> int:
        self.counts[label] = sum(self.counts.values()) + 1
        return self.counts[label]


class RemembersAnotherKey(Counting):
    """Keeps for `a` what is of all labels."""

    def count(self, label: str) -> int:
        return super().count("a")


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
    (CountsBatches, "an_empty_batch_is_fine", r"remembers an empty batch; 'batches' in the state"),
    (WritesInput, "input_is_not_modified", r"changed the records it was given, in batch 0"),
    (RanksInBatch, "batching_changes_nothing", r"batches of one record; the records: row 1 of 'seen': 1, then 0"),
    (
        ForgetsLabelC,
        "saving_and_restoring_changes_nothing",
        r"does not restore all that it saves; the names",
    ),
    (RestoresLate, "saving_and_restoring_changes_nothing", r"goes on differently once saved .*row 10 of 'seen'"),
    (SharesItsState, "saving_and_restoring_changes_nothing", r"goes on writing to what it saved"),
    (KeepsWhatItHas, "restoring_nothing_makes_it_new", r"used and restored from an empty state, is not new"),
    (BeginsAtFive, "restoring_nothing_makes_it_new", r"new and restored from an empty state, is not new"),
    (SaysStateless, "traits_are_true", r"declares itself stateless, and remembers \['a', 'b', 'c'\]"),
    (SaysUnordered, "traits_are_true", r"not ordered, but differs when records come in reverse; .*'seen'"),
    (SaysKeyedByNothing, "keys_can_be_dealt_out", r"must name the column of its keys; say Traits\(Scope.KEYED, key"),
    (SaysKeyedByANumber, "keys_can_be_dealt_out", r"keys are text, but '_offset' is int64; name a text column"),
    (NamesItsStateOtherwise, "keys_can_be_dealt_out", r"keyed by 'label', but its state has 'counts', which no record"),
    (LooksAtOtherKeys, "keys_can_be_dealt_out", r"differs when each key's records go to one of 3; .* of 'seen'"),
    (RemembersAnotherKey, "keys_can_be_dealt_out", r"remembers 'a', of which it has not seen a record"),
    (RemembersAll, "state_is_bounded", r"grows on records that repeat: [\d,]+ bytes after 4 times"),
]


def test_a_good_step_passes() -> None:
    check_step(Config(Counting), labelled_records(), skip=HERE)


def test_a_step_over_event_time_gets_the_ends_that_an_engine_would_give() -> None:
    window = {"type": "tumbling", "size": "100us", "lateness": "0s"}
    check_step(Popularity.model_validate({"of": "label", "window": window}), labelled_records(), skip=HERE)


@pytest.mark.parametrize(("step", "check", "message"), BROKEN_STEPS)
def test_a_broken_step_is_found(step: type[Counting], check: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        STEP_CHECKS[check](Config(step), epochs_of(labelled_records()))
    with pytest.raises(AssertionError):
        check_step(Config(step), labelled_records(), skip=HERE)


def test_every_check_of_steps_is_seen_to_fail() -> None:
    assert {check for _, check, _ in BROKEN_STEPS} | set(HERE) == set(STEP_CHECKS)


def test_a_step_that_says_it_is_not_deterministic_is_not_compared_with_itself() -> None:
    check_step(Config(Rolls), labelled_records())


def test_checks_are_left_out_by_name() -> None:
    check_step(Config(SaysStateless), labelled_records(), skip=["traits_are_true", *HERE])


def test_a_check_that_does_not_exist_cannot_be_left_out() -> None:
    with pytest.raises(ValueError, match="no check named traits_are_tru; there are outputs_are_as_declared"):
        check_step(Config(Counting), labelled_records(), skip=["traits_are_tru"])


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
    check_step(steady, labelled_records())
    hashing = written(tmp_path, "hashing_step", "hash(text)", monkeypatch)
    check_step(hashing, labelled_records(), skip=HERE)
    with pytest.raises(AssertionError, match="something else of the same records in another process; look for `hash"):
        check_step(hashing, labelled_records())


def test_a_step_that_cannot_run_in_another_process_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = written(tmp_path, "failing_step", "len(text) if __import__('sys').stdin.isatty() else 1 / 0", monkeypatch)
    with pytest.raises(AssertionError, match=r"another process cannot run(.|\n)*ZeroDivisionError"):
        STEP_CHECKS["another_process_changes_nothing"](failing, epochs_of(labelled_records()))
