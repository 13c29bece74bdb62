"""Filter and map: the arguments and return values of a user's function, and the handling of its errors."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.record_functions import SCHEMA, Define, build_filter, build_map, not_bad, records, shout

from millstream.errors import StepFailed
from millstream.steps.checks import check_step
from millstream.steps.contracts import Scope, Step, rejects_schema
from millstream.steps.functions import Filter, Map


def not_bad_batch(batch: pa.Table) -> pa.ChunkedArray:
    if "bad" in batch["text"].to_pylist():
        raise ValueError("bad text")
    return pc.fill_null(pc.greater(pc.binary_length(batch["text"]), 0), False)


def shout_batch(batch: pa.Table) -> pa.Table:
    if "bad" in batch["text"].to_pylist():
        raise ValueError("bad text")
    text = batch["text"]
    first = [value[:1] if value else None for value in text.to_pylist()]
    return pa.table({"text": pc.utf8_upper(text), "first": pa.array(first, pa.string())})


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


# Records that pass

FILTERS = [("record", not_bad), ("batch", not_bad_batch)]
MAPS = [("record", shout), ("batch", shout_batch)]


@pytest.mark.parametrize(("per", "function"), FILTERS)
def test_a_filter_keeps_the_records_for_which_its_function_returns_true(
    per: str, function: Any, define: Define
) -> None:
    step = build_filter(function=define(function), per=per)
    result = step.process(records("a", "", None, "b"))
    assert rows(result.records) == [(0, 10, 0, "a", "x", 0.5), (0, 13, None, "b", "x", 0.5)]
    assert result.outputs == {}


@pytest.mark.parametrize(("per", "function"), MAPS)
def test_a_map_replaces_fields_in_place_and_adds_declared_ones_at_the_end(
    per: str, function: Any, define: Define
) -> None:
    given = records("ab", "", None)
    copy = pa.table(given.to_pydict(), schema=SCHEMA)
    result = build_map(function=define(function), per=per, adds=["first", "never"]).process(given)
    assert rows(result.records.drop_columns(["_rank", "_offset", "_time"])) == [
        ("AB", "x", 0.5, "a", None),
        ("", "x", 0.5, None, None),
        (None, "x", 0.5, None, None),
    ]
    assert given.equals(copy)


@pytest.mark.parametrize("per", ["record", "batch"])
def test_an_empty_batch_has_the_schema_of_the_results_without_a_call_of_the_function(per: str, define: Define) -> None:
    def never(given: Any) -> Any:
        raise AssertionError

    name = define(never)
    assert build_filter(function=name, per=per).process(SCHEMA.empty_table()).records.schema == SCHEMA
    step = build_map(function=name, per=per, adds=["b", "a"])
    added = [pa.field("b", pa.string()), pa.field("a", pa.string())]
    assert step.process(SCHEMA.empty_table()).records.schema == pa.schema([*SCHEMA, *added])
    assert step.ended(None).records.schema == pa.schema([*SCHEMA, *added])
    assert step.save() == {}


def test_a_function_gets_only_the_fields(define: Define) -> None:
    seen: list[list[str]] = []
    for per in ("record", "batch"):

        def look(given: Any) -> Any:
            names = given.column_names if isinstance(given, pa.Table) else list(given)
            seen.append(names)
            return {} if isinstance(given, dict) else given

        build_map(function=define(look), per=per).process(records("a"))
    assert seen == [["text", "label", "score"]] * 2


def test_a_function_may_change_its_dict_and_return_it(define: Define) -> None:
    def trimmed(record: dict[str, Any]) -> dict[str, Any]:
        record["text"] = record["text"].strip()
        return record

    assert rows(build_map(function=define(trimmed)).process(records(" a ")).records) == [(0, 10, 0, "a", "x", 0.5)]


def test_a_batch_function_may_return_all_columns_that_it_got(define: Define) -> None:
    step = build_map(function=define(lambda batch: batch.set_column(0, "text", [["A"]])), per="batch")
    assert rows(step.process(records("a")).records) == [(0, 10, 0, "A", "x", 0.5)]


def test_large_text_stays_large(define: Define) -> None:
    schema = pa.schema([field if field.name != "text" else pa.field("text", pa.large_string()) for field in SCHEMA])
    for per, function in MAPS:
        step = Map.model_validate({"function": define(function), "per": per, "adds": ["first"]}).build(schema)
        assert step.process(records("a").cast(schema)).records.schema.field("text").type == pa.large_string()


def test_a_mask_may_be_a_numpy_array(define: Define) -> None:
    step = build_filter(function=define(lambda batch: np.arange(batch.num_rows) > 0), per="batch")
    assert step.process(records("a", "b")).records["text"].to_pylist() == ["b"]


@pytest.mark.parametrize("kind", ["filter", "map"])
@pytest.mark.parametrize("seed", range(15))
def test_single_records_and_batches_of_any_size_give_the_same_results(kind: str, seed: int, define: Define) -> None:
    dice = random.Random(seed)
    given = records(*(dice.choice(["a", "bad", "", None, "wörd"]) for _ in range(40)))
    kept, rejected = [], []
    for per, function in FILTERS if kind == "filter" else MAPS:
        options: dict[str, Any] = {"function": define(function), "per": per, "on_error": "reject"}
        step = build_filter(**options) if kind == "filter" else build_map(**options, adds=["first"])
        for _ in range(3):
            cuts = [0, *sorted(dice.randrange(41) for _ in range(dice.randrange(8))), 40]
            results = [step.process(given.slice(a, b - a)) for a, b in itertools.pairwise(cuts)]
            kept.append(rows(pa.concat_tables(result.records for result in results)))
            rejected.append([row for result in results if result.outputs for row in rows(result.outputs["rejects"])])
    assert all(one == kept[0] for one in kept)
    assert all(one == rejected[0] for one in rejected)
    assert len(rejected[0]) == given["text"].to_pylist().count("bad") > 0


# Errors of single records


@pytest.mark.parametrize(
    ("build", "per", "function"), [(build_filter, *f) for f in FILTERS] + [(build_map, *f) for f in MAPS]
)
def test_an_error_stops_the_run_and_names_the_step_the_function_the_position_and_the_reason(
    build: Callable[..., Step], per: str, function: Any, define: Define
) -> None:
    step = build(
        function=define(function), per=per, name="clean", **({"adds": ["first"]} if build is build_map else {})
    )
    with pytest.raises(StepFailed) as failed:
        step.process(records("a", "b", "bad", "c", "bad"))
    message = str(failed.value)
    assert message.startswith("step 'clean', function rules:chosen: it raised ValueError: bad text;")
    assert "on_error: reject" in message
    assert (failed.value.rank, failed.value.offset) == (2, 12)
    assert isinstance(failed.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("build", "per", "function"), [(build_filter, *f) for f in FILTERS] + [(build_map, *f) for f in MAPS]
)
def test_a_rejected_record_leaves_the_stream_and_is_in_rejects_with_the_reason(
    build: Callable[..., Step], per: str, function: Any, define: Define
) -> None:
    adds = {"adds": ["first"]} if build is build_map else {}
    step = build(function=define(function), per=per, on_error="reject", **adds)
    result = step.process(records("a", "b", "c", "bad", "bad"))
    assert result.records["_offset"].to_pylist() == [10, 11, 12]
    name = "map" if build is build_map else "filter"
    rejects = result.outputs["rejects"]
    assert rejects.schema == rejects_schema()
    assert rows(rejects) == [(0, 13, None, name, "ValueError: bad text"), (1, 14, 4, name, "ValueError: bad text")]
    everything = step.process(records("bad"))
    assert everything.records.schema == result.records.schema
    assert (everything.records.num_rows, everything.outputs["rejects"].num_rows) == (0, 1)


def test_the_output_rejects_is_declared_only_with_on_error_reject(define: Define) -> None:
    name = define(not_bad)
    assert build_filter(function=name).outputs == []
    assert [output.name for output in build_filter(function=name, on_error="reject").outputs] == ["rejects"]
    assert [output.name for output in build_map(function=name, on_error="reject").outputs] == ["rejects"]


def test_text_that_is_not_unicode_rejects_its_record(define: Define) -> None:
    step = build_map(function=define(lambda record: {"text": record["text"] + "\ud800"}), on_error="reject")
    result = step.process(records("a"))
    assert result.outputs["rejects"]["reason"][0].as_py().startswith("UnicodeEncodeError: ")


def test_a_reason_that_is_not_unicode_is_written_with_question_marks(define: Define) -> None:
    def fails(record: Any) -> bool:
        raise ValueError("\ud800")

    result = build_filter(function=define(fails), on_error="reject").process(records("a"))
    assert result.outputs["rejects"]["reason"].to_pylist() == ["ValueError: ?"]


def test_an_error_on_a_batch_but_on_none_of_its_records_stops_the_run(define: Define) -> None:
    def lonely(batch: pa.Table) -> Any:
        if batch.num_rows > 1:
            raise ValueError("too many")
        return np.array([True])

    step = build_filter(function=define(lonely), per="batch", on_error="reject")
    with pytest.raises(StepFailed, match="ValueError: too many on 2 records together, though on none of them alone"):
        step.process(records("a", "b"))


# Mistakes of the function's author never reject a record


@pytest.mark.parametrize(
    ("per", "returned", "message"),
    [
        ("record", None, r"it returned None \(NoneType\), not True or False"),
        ("record", 1, r"it returned 1 \(int\), not True or False"),
        ("batch", None, r"it returned None \(NoneType\), not a mask: a boolean array of 1"),
        ("batch", np.array([True, False]), "2 values of bool, not a mask: a boolean array of 1"),
        ("batch", np.array([1]), "not a mask"),
        ("batch", pa.array([None], pa.bool_()), "its mask has a null for row 0"),
    ],
)
def test_a_filter_function_that_does_not_return_booleans_stops_the_run(
    per: str, returned: Any, message: str, define: Define
) -> None:
    step = build_filter(function=define(lambda given: returned), per=per, on_error="reject")
    with pytest.raises(StepFailed, match=message):
        step.process(records("a"))


@pytest.mark.parametrize(
    ("per", "returned", "message"),
    [
        ("record", None, "it returned None .NoneType., not a dict"),
        ("record", {"length": "3"}, "a field 'length', which the records do not have; declare it in `adds`"),
        ("record", {"_offset": "3"}, "a field '_offset'"),
        ("record", {"new": 3}, r"it returned 3 \(int\) for 'new'; fields are text"),
        ("record", {"score": 0.7}, "it changed 'score', which is double; it may replace text fields only"),
        ("batch", {"new": ["a"]}, "not a pyarrow.Table of 1 rows"),
        ("batch", pa.table({"new": ["a", "b"]}), "it returned 2 rows, not a pyarrow.Table of 1 rows"),
        ("batch", pa.table({"length": ["a"]}), "a field 'length', which the records do not have"),
        ("batch", pa.table({"_offset": [3]}), "a field '_offset'"),
        ("batch", pa.table({"new": [3]}), "it returned int64 for 'new'; fields are text"),
        ("batch", pa.table({"score": [0.7]}), "it changed 'score', which is double"),
    ],
)
def test_a_map_function_that_returns_undeclared_fields_or_other_types_stops_the_run(
    per: str, returned: Any, message: str, define: Define
) -> None:
    step = build_map(function=define(lambda given: returned), per=per, on_error="reject", adds=["new"])
    with pytest.raises(StepFailed, match=message) as failed:
        step.process(records("a"))
    assert (failed.value.rank, failed.value.offset) == (0, 10)


def test_the_rest_of_a_filter_has_the_refused_records_and_not_the_rejects(define: Define) -> None:
    for per, function in FILTERS:
        step = build_filter(function=define(function), per=per, rest=True, on_error="reject")
        result = step.process(records("a", "", "bad", None))
        assert rows(result.outputs["rest"]) == [(1, 11, 1, "", "x", 0.5), (0, 13, None, None, "x", 0.5)]
        assert result.outputs["rest"].schema == SCHEMA == next(o.schema for o in step.outputs if o.name == "rest")
        assert result.outputs["rejects"]["_offset"].to_pylist() == [12]
        assert "rest" not in step.process(records("a")).outputs


# Traits and the battery


def test_the_traits_say_stateless_and_unordered(define: Define) -> None:
    traits = build_filter(function=define(not_bad)).traits
    assert (traits.scope, traits.ordered, traits.deterministic, traits.ends) == (
        Scope.STATELESS,
        False,
        True,
        frozenset(),
    )
    assert not build_map(function=define(shout), deterministic=False).traits.deterministic


RULES = """
def keep(record): return {"good": True, "poor": False}[record["text"]]
def upper(record): return {"text": {"good": "GOOD", "poor": None}[record["text"]], "old": record["text"]}
def keep_batch(batch): return keep({"text": "good"}) and batch["text"].combine_chunks().is_valid()
def upper_batch(batch): return batch.append_column("old", batch["text"])
"""


@pytest.mark.parametrize(
    "config",
    [
        Filter(function="filed_rules:keep", on_error="reject"),
        Filter(function="filed_rules:keep_batch", per="batch"),
        Filter(function="filed_rules:keep_batch", per="batch", rest=True),
        Map(function="filed_rules:upper", on_error="reject", adds=("old",)),
        Map(function="filed_rules:upper_batch", per="batch", adds=("old",)),
    ],
    ids=lambda config: f"{config.function}-{getattr(config, 'rest', False)}",
)
def test_filter_and_map_pass_the_battery(config: Filter | Map, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "filed_rules.py").write_text(RULES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "filed_rules", raising=False)
    dice = random.Random(4)
    check_step(config, records(*(dice.choice(["good", "poor", "neither", None]) for _ in range(60))))


def test_an_exit_in_a_function_is_an_error_like_any_other(define: Define) -> None:
    def call_exit(record: Any) -> Any:
        raise SystemExit(5)

    step = Map(function=define(call_exit)).build(SCHEMA)
    with pytest.raises(StepFailed, match="it raised RuntimeError: it asked for an exit with 5"):
        step.process(records("a"))
