"""Keyed steps among several readers: the same to the bit as in one process, rejects included."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.documents import EPOCH_RECORDS, EPOCHS, write_documents
from support.pipelines import Pipeline, results
from support.user_functions import __name__ as functions

from millstream.engines.local.engine import LocalEngine
from millstream.engines.script_import import process_name
from millstream.errors import StepFailed
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point
from millstream.state.shards import SHARDS, shard_of

FUNCTIONS = """
import multiprocessing, os, pathlib

def labels(record, state):
    return {"after": (state or {}).get("last")}, {"last": record["seen"]}

def pairs(record, state):
    return {"pair": str(state)}, None if state else 1

def close(key, state):
    if not pathlib.Path("KILLED").exists():
        pathlib.Path("KILLED").write_text(multiprocessing.current_process().name)
        os.kill(os.getpid(), 9)
    return {"seen": str(state)}

def three(record, state):
    texts = [*(state or []), record["text"].split()[0]]
    return ([], texts) if len(texts) < 3 else ([{"text": text} for text in texts[1:]], None)

def process(record, state):
    return {"process": multiprocessing.current_process().name}, None

def picky(record, state):
    assert record["word"] != "WORD", "not this one"
    return {}, None
"""
STEPS: list[dict[str, Any]] = [
    {"type": "map", "name": "word", "function": f"{functions}:first_word", "adds": ["word"]},
    {"type": "per_key", "name": "seen", "key": "word", "function": f"{functions}:seen", "adds": ["seen"],
     "on_error": "reject"},
    {"type": "per_key", "name": "labels", "key": "label", "function": "keyed_functions:labels", "adds": ["after"]},
    {"type": "per_key", "name": "pairs", "key": "word", "function": "keyed_functions:pairs", "adds": ["pair"]},
    {"type": "classify", "model": {"type": "river_nb"}},
]  # fmt: skip


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    (tmp_path / "keyed_functions.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("keyed_functions", None)
    write_documents(tmp_path / "documents")
    return Pipeline(tmp_path, LocalEngine(), steps=STEPS, sinks={}, engine_name="local")


@pytest.mark.parametrize("workers", [2, 4])
def test_any_number_of_workers_gives_the_same_through_crashes(pipeline: Pipeline, workers: int) -> None:
    golden = pipeline.run("golden")
    assert golden.delivered["rejects"] > 10  # without a label, or a seventh
    pipeline.engine_name = f"local-{workers}"
    pipeline.crash("run", CrashPoint(Point.CHECKPOINT, 2))
    pipeline.crash("run", CrashPoint(Point.DELIVER, EPOCHS // 2))
    summary = pipeline.run("run")
    assert (summary.model, summary.state, summary.outputs) == (golden.model, golden.state, golden.outputs)


def test_children_of_keyed_steps_come_in_the_order_of_one_process(pipeline: Pipeline) -> None:
    """A key's texts are children of its third record: words are keys, so children of a text have several owners."""
    pipeline.steps = [
        {"type": "flat_map", "function": f"{functions}:words", "adds": ["word"]},
        {"type": "per_key", "name": "three", "key": "word", "function": "keyed_functions:three", "children": True},
        {"type": "classify", "label": "word", "model": {"type": "no_change"}},
    ]
    pipeline.sinks = {name: {"type": "files", "format": "jsonl"} for name in ("three", "predictions")}
    golden = pipeline.run("golden")
    assert golden.delivered["three"] > 200
    pipeline.engine_name = "local-3"
    pipeline.crash("run", CrashPoint(Point.DELIVER, EPOCHS // 2))
    summary = pipeline.run("run")
    assert [receipt.line() for receipt in receipts(pipeline, "run")][-1] == [
        receipt.line() for receipt in receipts(pipeline, "golden")
    ][-1]
    assert (summary.model, summary.state, summary.outputs) == (golden.model, golden.state, golden.outputs)
    written = {run: sorted((pipeline.folder / "runs" / run).glob("**/three/*.jsonl")) for run in ("golden", "run")}
    rows = {run: [line for path in paths for line in path.read_text().splitlines()] for run, paths in written.items()}
    assert rows["run"] == rows["golden"] and json.loads(rows["run"][1])["_path"].endswith(".1")


def test_the_receipts_are_those_of_one_process(pipeline: Pipeline) -> None:
    """A run may change its number of workers, because replayed epochs have equal receipts."""
    pipeline.run("golden")
    pipeline.engine_name = "local-3"
    pipeline.run("shared")
    assert [receipt.line() for receipt in receipts(pipeline, "shared")] == [
        receipt.line() for receipt in receipts(pipeline, "golden")
    ]


def receipts(pipeline: Pipeline, run: str) -> Any:
    from millstream.log.epochs import EpochReader

    return EpochReader(pipeline.folder / "runs" / run / "epochs").receipts()


def test_an_error_names_its_record_also_when_another_reader_has_read_it(pipeline: Pipeline, tmp_path: Path) -> None:
    texts = [json.loads(line)["text"] for line in (tmp_path / "documents/part0.jsonl").read_text().splitlines()[:9]]
    word = next(text.split()[0] for text in texts if shard_of(text.split()[0], SHARDS) % 3 == 1)
    (tmp_path / "keyed_functions.py").write_text(FUNCTIONS.replace("WORD", word))
    pipeline.steps = [STEPS[0], {"type": "per_key", "key": "word", "function": "keyed_functions:picky"}]
    messages = []
    for pipeline.engine_name in ("local", "local-4"):
        with pytest.raises(StepFailed, match="not this one") as failed:
            pipeline.run(pipeline.engine_name, records=EPOCH_RECORDS)
        messages.append(str(failed.value))
    assert messages[0] == messages[1]


def test_a_worker_killed_at_the_boundary_of_an_epoch_costs_nothing(pipeline: Pipeline, tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    (tmp_path / "keyed_functions.py").write_text(FUNCTIONS.replace("KILLED", str(killed)))
    killed.touch()
    ends = {"ended": "keyed_functions:close", "idle": "4m", "makes": ["seen"]}
    pipeline.steps = [STEPS[0], {**STEPS[1], **ends}, *STEPS[2:]]
    golden = pipeline.run("golden")
    assert golden.delivered["ended"] > 10
    killed.unlink()
    pipeline.engine_name = "local-3"
    assert results(pipeline.run("run")) == results(golden)
    assert killed.read_text() in (process_name("reader 0"), process_name("reader 1"))


def test_more_readers_than_keys_give_the_same_results(pipeline: Pipeline) -> None:
    """With three labels as keys, three of the six readers own no key."""
    words, seen, *rest = STEPS
    pipeline.steps = [words, {**seen, "key": "label"}, *rest]
    golden = pipeline.run("golden")
    pipeline.engine_name = "local-7"
    pipeline.crash("run", CrashPoint(Point.CHECKPOINT, 2))
    summary = pipeline.run("run")
    assert (summary.model, summary.state, summary.outputs) == (golden.model, golden.state, golden.outputs)


def test_two_processes_of_three_workers_share_keys_and_records_and_of_two_workers_one_has_all(
    pipeline: Pipeline,
) -> None:
    pipeline.steps = [
        {"type": "flat_map", "name": "words", "function": f"{functions}:words", "adds": ["word"]},
        {"type": "per_key", "name": "seen", "key": "word", "function": "keyed_functions:process", "adds": ["process"]},
    ]
    pipeline.sinks = {"seen": {"type": "files", "format": "jsonl", "path": "{run}"}}
    for workers in (2, 3):
        pipeline.engine_name = f"local-{workers}"
        delivered = pipeline.run(f"run-{workers}").delivered["seen"]
        files = (pipeline.folder / f"run-{workers}").rglob("*.jsonl")
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        readers = [process_name(f"reader {number}") for number in range(workers - 1)]
        records = [sum(row["process"] == reader for row in rows) for reader in readers]
        keys = [{row["word"] for row in rows if row["process"] == reader} for reader in readers]
        assert sum(records) == len(rows) == delivered > 1000 and sum(map(len, keys)) == len(set.union(*keys)) > 30
        assert min(records) >= 0.3 * sum(records) and min(map(len, keys)) >= 0.3 * sum(map(len, keys))
