"""Flat_map: the children of a record, their identities, and their order on workers."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.documents import write_documents
from support.pipelines import Pipeline, receipts_of
from support.record_functions import SCHEMA, Define, records

from millstream.config.pipeline import NamedStep
from millstream.engines.local.engine import LocalEngine
from millstream.errors import StepFailed
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point
from millstream.steps.checks import check_step
from millstream.steps.contracts import Step
from millstream.steps.functions import FlatMap
from millstream.steps.graph import build_graph
from millstream.steps.output_rows import identity_columns
from millstream.steps.path_text import path_text


def build(function: str, schema: pa.Schema = SCHEMA, **options: Any) -> Step:
    return FlatMap.model_validate({"function": function, **options}).build(schema)


def words(record: Any) -> list[dict[str, str]]:
    if record["text"] == "bad":
        raise ValueError("bad text")
    return [{"word": word} for word in (record["text"] or "").split()]


def test_a_child_has_the_position_and_time_of_its_record_and_a_path(define: Define) -> None:
    made = build(define(words), adds=["word"]).process(records("two words", "", "x", None)).records
    columns = made.select(["_rank", "_offset", "_time", "text", "word"]).to_pylist()
    assert [tuple(row.values()) for row in columns] == [
        (0, 10, 0, "two words", "two"),
        (0, 10, 0, "two words", "words"),
        (2, 12, 2, "x", "x"),
    ]
    assert made["_path"].to_pylist() == [bytes(4), bytes([0, 0, 0, 1]), bytes(4)]


def test_a_child_of_a_child_has_both_numbers_in_its_path(define: Define) -> None:
    first = build(define(words), adds=["word"])
    letters = define(lambda record: [{"letter": letter} for letter in record["word"]])
    second = build(letters, first.process(SCHEMA.empty_table()).records.schema, adds=["letter"])
    made = second.process(first.process(records("a bc")).records).records
    assert path_text(made["_path"]).to_pylist() == ["0.0", "1.0", "1.1"]
    assert made["letter"].to_pylist() == ["a", "b", "c"]


def test_an_empty_batch_has_the_columns_of_the_results(define: Define) -> None:
    made = build(define(words), adds=["word"]).process(SCHEMA.empty_table()).records.schema
    assert made == pa.schema([*SCHEMA, pa.field("_path", pa.binary()), pa.field("word", pa.string())])


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ({"word": "a"}, r"it returned {'word': 'a'} \(dict\), not a list with a dict for each child"),
        (None, "not a list"),
        (["a"], r"it returned 'a' \(str\), not a dict of the fields to replace or add"),
        ([{"word": 3}], r"it returned 3 \(int\) for 'word'; fields are text"),
        ([{"wrd": "a"}], "a field 'wrd', which the records do not have; declare it in `adds`"),
    ],
)
def test_a_wrong_value_stops_the_run(returned: Any, message: str, define: Define) -> None:
    with pytest.raises(StepFailed, match=message) as failed:
        build(define(lambda record: returned), adds=["word"], on_error="reject").process(records("a"))
    assert (failed.value.rank, failed.value.offset) == (0, 10)


def test_a_record_on_which_the_function_fails_is_rejected_whole(define: Define) -> None:
    result = build(define(words), adds=["word"], on_error="reject").process(records("a b", "bad", "c"))
    assert result.records["word"].to_pylist() == ["a", "b", "c"]
    assert result.outputs["rejects"].select(["_offset", "reason"]).to_pylist() == [
        {"_offset": 11, "reason": "ValueError: bad text"}
    ]


def test_outputs_behind_a_flat_map_have_the_path_in_their_identity(define: Define) -> None:
    name = define(words)
    config = FlatMap(function=name, adds=("word",))
    again = FlatMap(name="again", function=name, on_error="reject")
    graph = build_graph([NamedStep("words", config), NamedStep("again", again)], ["text"])
    assert identity_columns(graph.outputs["rejects"]) == ["_source", "_partition", "_offset", "_path"]
    before = build_graph([NamedStep("again", again)], ["text"])
    assert identity_columns(before.outputs["rejects"]) == ["_source", "_partition", "_offset"]


RULES = """
def words(record):
    if record["text"] == "bad":
        raise ValueError("bad text")
    return [{"word": word, "text": word.upper()} for word in (record["text"] or "").split()]

def before(record, state):
    if record["word"].endswith("7"):
        raise ValueError("no sevens")
    return {"seen": str(state or 0)}, (state or 0) + 1
"""


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    (tmp_path / "split_rules.py").write_text(RULES)
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda: sys.modules.pop("split_rules", None)  # type: ignore[return-value]


def test_flat_map_passes_the_battery(rules: Callable[[], None]) -> None:
    rules()
    dice = random.Random(4)
    config = FlatMap(function="split_rules:words", on_error="reject", adds=("word",))
    check_step(config, records(*(dice.choice(["a b c", "bad", "one", "", None]) for _ in range(60))))


def test_siblings_keep_their_order_on_workers(rules: Callable[[], None], tmp_path: Path) -> None:
    """The words of a text go to several workers by their keys, some are rejected, and the others come back in order.

    A model that learns from the word before it would notice one pair of siblings in the wrong order.
    """
    rules()
    write_documents(tmp_path / "documents")
    steps: list[dict[str, Any]] = [
        {"type": "flat_map", "function": "split_rules:words", "adds": ["word"]},
        {"type": "per_key", "key": "word", "function": "split_rules:before", "adds": ["seen"], "on_error": "reject"},
        {"type": "classify", "label": "word", "model": {"type": "no_change"}},
    ]
    sinks = {"predictions": {"type": "files", "format": "jsonl"}}
    pipeline = Pipeline(tmp_path, LocalEngine(), steps=steps, sinks=sinks, engine_name="local")
    golden = pipeline.run("golden")
    assert golden.delivered["rejects"] > 50
    pipeline.engine_name = "local-4"
    pipeline.crash("run", CrashPoint(Point.DELIVER, 4))
    summary = pipeline.run("run")
    assert [(each.outputs, each.streams) for each in receipts_of(summary)] == [
        (each.outputs, each.streams) for each in receipts_of(golden)
    ]
    assert (summary.model, summary.state, summary.outputs) == (golden.model, golden.state, golden.outputs)
    rows = [json.loads(line) for line in _lines(tmp_path / "runs" / "run", "predictions")]
    assert rows[0]["_path"] == "0"
    assert rows == [json.loads(line) for line in _lines(tmp_path / "runs" / "golden", "predictions")]


def _lines(run: Path, output: str) -> list[str]:
    files = sorted((run / "out" / output).glob("*.jsonl")) or sorted(run.glob(f"**/{output}/**/*.jsonl"))
    return [line for file in files for line in file.read_text().splitlines()]
