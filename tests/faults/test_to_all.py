"""Kills of a run whose join gets one stream in every reader: in an epoch, and between starts with other workers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from support.documents import EPOCHS, write_documents
from support.pipelines import Pipeline, results

from millstream.engines.local.engine import LocalEngine
from millstream.engines.script_import import process_name
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point

FUNCTIONS = """
import multiprocessing, os, pathlib, signal

def group(record):
    word = record["text"].split()[0]
    return {"group": "all" if sum(word.encode()) % 10 < 6 else word}

def few(record):
    return record["text"].startswith("word") and len(record["text"]) % 7 == 0

calls = 0

def kill(record):
    global calls
    calls += 1
    killed = pathlib.Path("KILLED")
    if calls == 40 and not killed.exists():
        killed.write_text(multiprocessing.current_process().name)
        os.kill(os.getpid(), signal.SIGKILL)
    return {}
"""
STEPS: list[dict[str, Any]] = [
    {"type": "map", "name": "group", "function": "to_all_functions:group", "adds": ["group"]},
    {"type": "filter", "name": "few", "function": "to_all_functions:few"},
    {"type": "join", "name": "pairs", "from": ["group", {"stream": "few", "to": "all"}], "by": "group",
     "within": "15m", "how": "left"},
    {"type": "map", "name": "passed", "function": "to_all_functions:kill"},
    {"type": "dedupe", "by": ["group", "label"], "within": "1m"},
]  # fmt: skip


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A pipeline that kills no process as long as the file `killed` is there."""
    (tmp_path / "to_all_functions.py").write_text(FUNCTIONS.replace("KILLED", str(tmp_path / "killed")))
    (tmp_path / "killed").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("to_all_functions", None)
    write_documents(tmp_path / "documents")
    sinks = {name: {"type": "files", "format": "jsonl"} for name in ("pairs", "unmatched", "dedupe")}
    return Pipeline(tmp_path, LocalEngine(), steps=STEPS, sinks=sinks)


def test_a_reader_that_is_killed_within_an_epoch_leaves_no_trace(pipeline: Pipeline) -> None:
    golden = pipeline.run("golden")
    assert golden.delivered["pairs"] > 200 and golden.delivered["unmatched"] > 10
    killed = pipeline.folder / "killed"
    killed.unlink()
    pipeline.engine_name = "local-3"
    assert results(pipeline.run("run")) == results(golden)
    assert killed.read_text() in (process_name("reader 0"), process_name("reader 1"))


def test_every_start_may_have_other_workers(pipeline: Pipeline) -> None:
    """Each reader begins with the right records of all shards, which other readers have written."""
    golden = pipeline.run("golden")
    for workers, point in ((3, CrashPoint(Point.CHECKPOINT, 2)), (4, CrashPoint(Point.DELIVER, EPOCHS // 2))):
        pipeline.engine_name = f"local-{workers}"
        pipeline.crash("run", point)
    pipeline.engine_name = "local-2"
    pipeline.crash("run", CrashPoint(Point.COMMIT, EPOCHS // 2 + 1))
    pipeline.engine_name = "local"
    assert results(pipeline.run("run")) == results(golden)


def test_a_join_that_reads_its_sources_itself_has_the_results_of_one_process(pipeline: Pipeline) -> None:
    """Readers send the records of both sources in one table: of the second one to all."""
    names = ("first", "second")
    pipeline.sources = {
        name: {"type": "files", "path": f"documents/part{index}.jsonl"} for index, name in enumerate(names)
    }
    reads = ["first", {"stream": "second", "to": "all"}]
    pipeline.steps = [{"type": "join", "name": "pairs", "from": reads, "by": "label", "within": "5m", "how": "left"}]
    pipeline.sinks = {name: {"type": "files", "format": "jsonl"} for name in ("pairs", "unmatched")}
    golden = pipeline.run("golden")
    assert golden.delivered["pairs"] > 200 and golden.delivered["rejects"] > 10
    pipeline.engine_name = "local-3"
    pipeline.crash("run", CrashPoint(Point.DELIVER, EPOCHS // 2))
    assert results(pipeline.run("run")) == results(golden)
