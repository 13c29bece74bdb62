"""The checks of steps: a correct step passes all of them, and each check finds a broken step."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.held_records import Held
from support.steps_labelled_records import labelled_records

from millstream.steps.checks import STEP_CHECKS, check_step
from millstream.steps.checks.steps import split_into_epochs
from millstream.steps.contracts import Output, Result, Scope, State, Step, Traits
from millstream.steps.popularity import Popularity

SKIP = ["another_process_changes_nothing"]


class Counting:
    """Adds `seen`, the number of earlier records with the label; the output `firsts` has the first record of each."""

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
    """Returns the restored state from `save`, but starts to count again from 0."""

    restored_state: State | None = None

    def restore(self, state: State) -> None:
        self.counts, self.restored_state = {}, state or None

    def save(self) -> State:
        return self.restored_state or super().save()

    def process(self, records: pa.Table) -> Result:
        self.restored_state = None
        return super().process(records)


class CountsInTens(Counting):
    """Adds the number of the record among ten, which is not in the state."""

    turn = 0

    def count(self, label: str) -> int:
        self.turn = (self.turn + 1) % 10
        return super().count(label) * 10 + self.turn


class SortsWhenRestored(Counting):
    def save(self) -> State:
        return {"counts": json.dumps(self.counts).encode()}

    def restore(self, state: State) -> None:
        self.counts = dict(sorted(json.loads(bytes(state["counts"])).items())) if state else {}


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


class IgnoresAnEmptyState(Counting):
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


class SavesAllKeysUnderOneName(Counting):
    def save(self) -> State:
        return {"counts": json.dumps(self.counts).encode()}

    def restore(self, state: State) -> None:
        self.counts = json.loads(bytes(state["counts"])) if state else {}


class CountsAllKeysTogether(Counting):
    def count(self, label: str) -> int:
        self.counts[label] = sum(self.counts.values()) + 1
        return self.counts[label]


class CountsEveryKeyAsA(Counting):
    def count(self, label: str) -> int:
        return super().count("a")


class _Text(Counting):
    """Adds `seen`, a number made by `number`, and declares itself stateless."""

    traits = Traits(Scope.STATELESS, ordered=False, idempotent=True)
    outputs = ()  # type: ignore[assignment]

    def process(self, records: pa.Table) -> Result:
        seen = [self.number(text) for text in records["text"].to_pylist()]
        return Result(records.append_column("seen", pa.array(seen, pa.int64())))

    def number(self, text: str) -> int:
        return len(text)

    def save(self) -> State:
        return {}


class DrawsNumbers(_Text):
    dice = np.random.default_rng()

    def number(self, text: str) -> int:
        return int(self.dice.integers(0, 2**60))


class CountsInItself(_Text):
    counted = 0

    def number(self, text: str) -> int:
        self.counted += 1
        return self.counted


class SaysIdempotent(Counting):
    traits = Traits(Scope.KEYED, key="label", idempotent=True)


class SaysKeepsAll(Counting):
    """Leaves out every record after the first of its label, like a step that drops repeated records."""

    traits = Traits(Scope.KEYED, key="label", keeps_all=True)

    def process(self, records: pa.Table) -> Result:
        result = super().process(records)
        return Result(result.records.filter(pc.equal(result.records["seen"], 0)), result.outputs)


class HasNoTraits(Counting):
    traits = None  # type: ignore[assignment]


class ReturnsTheRecords(Counting):
    def process(self, records: pa.Table) -> Any:
        return records


class RemembersEveryRecord(Counting):
    def count(self, label: str) -> int:
        self.counts[f"record {len(self.counts)}"] = 0
        return super().count(label)


class AddsRandomNumbers(Counting):
    """Declares that it is not deterministic."""

    traits = Traits(Scope.STATELESS, deterministic=False)

    def process(self, records: pa.Table) -> Result:
        dice = np.random.default_rng().integers(0, 2**60, records.num_rows)
        return Result(records.append_column("seen", pa.array(dice, pa.int64())))

    def save(self) -> State:
        return {}


@dataclass(frozen=True)
class Config:
    """The config of a step of this class."""

    step: type[Counting]
    type: str = "counting"

    def build(self, records: pa.Schema) -> Step:
        return self.step(records)


BROKEN_STEPS = [
    (OtherOutput, "outputs_are_as_declared", r"makes an output 'lasts' that it does not declare: \['firsts'\]"),
    (OtherColumns, "outputs_are_as_declared", r"declares for 'firsts'"),
    (UntypedWhenEmpty, "an_empty_batch_is_fine", r"returns other columns for an empty batch than for a full one"),
    (RowPerBatch, "an_empty_batch_is_fine", r"makes 1 rows from an empty batch"),
    (CountsBatches, "an_empty_batch_is_fine", r"changes its state for an empty batch; 'batches' in the state"),
    (WritesInput, "input_is_not_modified", r"changed the records that it got, in batch 0"),
    (RanksInBatch, "batching_changes_nothing", r"batches of one record; the records: row 1 of 'seen': 1, then 0"),
    (ForgetsLabelC, "saving_and_restoring_changes_nothing", r"does not restore its whole state; the names"),
    (RestoresLate, "saving_and_restoring_changes_nothing", r"gives other results after `restore`.*row 10 of 'seen'"),
    (CountsInTens, "saving_and_restoring_changes_nothing", r"other results after `restore` within an epoch.*'seen'"),
    (SortsWhenRestored, "restored_steps_save_the_same_bytes", r"another state after epoch 4 if .*'counts' in the st"),
    (SharesItsState, "saving_and_restoring_changes_nothing", r"changes a state after it was saved or restored"),
    (IgnoresAnEmptyState, "an_empty_state_is_a_new_step", r"used and restored from an empty state, is not new"),
    (BeginsAtFive, "an_empty_state_is_a_new_step", r"new and restored from an empty state, is not new"),
    (SaysStateless, "traits_are_true", r"declares itself stateless, but has state under \['a', 'b', 'c'\]"),
    (CountsInItself, "traits_are_true", r"itself stateless, but its results depend on earlier records, as with a cou"),
    (
        SaysIdempotent,
        "traits_are_true",
        r"itself idempotent, but differs when it processes an epoch again; row 0 of 'se",
    ),
    (
        SaysKeepsAll,
        "traits_are_true",
        r"declares `keeps_all`, but leaves \d+ of \d+ records out",
    ),
    (ReturnsTheRecords, "outputs_are_as_declared", r"returns a value of the type Table; return a `Result`"),
    (DrawsNumbers, "results_are_repeatable", r"in a second run; .*; look for random numbers, a clock, or state that"),
    (SaysUnordered, "traits_are_true", r"not ordered, but differs when records come in reverse order; .*'seen'"),
    (
        SaysKeyedByNothing,
        "state_can_be_split_by_key",
        r"must name the column of its keys; write Traits\(Scope.KEYED, key",
    ),
    (SaysKeyedByANumber, "state_can_be_split_by_key", r"keys are text, but '_offset' is int64; name a text column"),
    (
        SavesAllKeysUnderOneName,
        "state_can_be_split_by_key",
        r"keyed by 'label', but its state has 'counts', which is not a key",
    ),
    (CountsAllKeysTogether, "state_can_be_split_by_key", r"differs when 3 instances share the keys; .* of 'seen'"),
    (CountsEveryKeyAsA, "state_can_be_split_by_key", r"has state for 'a', but got no record with this key"),
    (RemembersEveryRecord, "state_is_bounded", r"grows although the records repeat: [\d,]+ bytes after 4 passes"),
]


def test_a_correct_step_passes_all_checks() -> None:
    check_step(Config(Counting), labelled_records(), skip=SKIP)


def test_a_step_with_windows_over_time_gets_the_watermarks_that_an_engine_would_send() -> None:
    window = {"type": "tumbling", "size": "100us", "lateness": "0s"}
    check_step(Popularity.model_validate({"of": "label", "window": window}), labelled_records(), skip=SKIP)


@pytest.mark.parametrize(("step", "check", "message"), BROKEN_STEPS)
def test_the_check_finds_the_broken_step(step: type[Counting], check: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        STEP_CHECKS[check](Config(step), split_into_epochs(labelled_records()))
    names = "|".join(STEP_CHECKS)
    with pytest.raises(AssertionError, match=rf"(?s)^({names}): .*; "):
        check_step(Config(step), labelled_records(), skip=SKIP)


@pytest.mark.parametrize(
    ("step", "check"),
    [
        (DrawsNumbers, "results_are_repeatable"),
        (HasNoTraits, "traits_are_true"),
        (CountsInItself, "traits_are_true"),
        (ReturnsTheRecords, "outputs_are_as_declared"),
    ],
)
def test_the_battery_names_the_cause_and_not_a_consequence(step: type[Counting], check: str) -> None:
    with pytest.raises(AssertionError, match=f"^{check}: Config"):
        check_step(Config(step), labelled_records(), skip=SKIP)


def test_an_error_of_a_step_is_a_failure_with_the_name_of_the_check() -> None:
    class Fails(Counting):
        def process(self, records: pa.Table) -> Result:
            assert records.num_rows
            return super().process(records)

    with pytest.raises(
        AssertionError, match=r"(?s)^an_empty_batch_is_fine: Config.*: it raised AssertionError.*; mend"
    ):
        check_step(Config(Fails), labelled_records(), skip=SKIP)


def test_every_check_of_steps_fails_for_some_broken_step() -> None:
    assert {check for _, check, _ in BROKEN_STEPS} | set(SKIP) == set(STEP_CHECKS)


def test_a_step_that_is_not_deterministic_skips_the_checks_that_compare_two_runs() -> None:
    check_step(Config(AddsRandomNumbers), labelled_records())


def test_skip_leaves_a_check_out_by_name() -> None:
    check_step(Config(SaysStateless), labelled_records(), skip=["traits_are_true", *SKIP])


def test_skip_refuses_the_name_of_an_unknown_check() -> None:
    with pytest.raises(ValueError, match="no check named traits_are_tru; there are outputs_are_as_declared"):
        check_step(Config(Counting), labelled_records(), skip=["traits_are_tru"])


def test_rows_that_a_keyed_step_makes_at_an_end_may_be_in_any_order() -> None:
    check_step(Held(by="label"), labelled_records(), skip=SKIP)
