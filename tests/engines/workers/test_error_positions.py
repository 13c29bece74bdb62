"""Errors of steps name the record: its source, partition and offset, its path, or the window whose row it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.documents import EPOCH_RECORDS, write_documents
from support.pipelines import Pipeline

from millstream.config.pipeline import NamedStep
from millstream.engines.local.engine import LocalEngine
from millstream.engines.workers.legs import LOG, legs_of
from millstream.engines.workers.messages import Allow, EpochPart, Failed, Message, Restore
from millstream.engines.workers.places import ORDER
from millstream.engines.workers.roles import handle, role_of
from millstream.errors import StepFailed
from millstream.log.epochs import Added, Epoch, PartitionName
from millstream.log.ranges import records_schema
from millstream.state.background import ThreadedBackground
from millstream.state.layers import Layers
from millstream.state.stored_states import StoredStates
from millstream.steps.graph import build_graph
from millstream.steps.per_key import PerKey
from millstream.steps.processor import EpochProcessor
from millstream.steps.top_k import TopK

FUNCTIONS = """
def words(record):
    return [{"word": word} for word in record["text"].split()]

def fails(record, state):
    if record["label"] == "harbour":
        raise ValueError("not this one")
    return {}, None

def lately(record, state):
    if record["word"] == "harbour3" and state:
        raise ValueError("not the second")
    return {}, (state or 0) + 1

def begins(record):
    if record["label"] == "harbour":
        raise ValueError("not this one")
    return True
"""
"""Functions that fail for one key only: if several readers fail, any of their errors may be the first."""
WORDS = {"type": "flat_map", "name": "words", "function": "failing_functions:words", "adds": ["word"]}
COUNTS = {"type": "popularity", "name": "counts", "of": "label", "by": "label", "window": {"type": "count", "size": 2}}
BEGINS = {"type": "predicate", "begins": "failing_functions:begins"}


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    (tmp_path / "failing_functions.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("failing_functions", None)
    write_documents(tmp_path / "documents")
    return Pipeline(tmp_path, LocalEngine(), sinks={}, engine_name="local")


def fails(name: str, key: str, **options: str) -> dict[str, str]:
    return {"type": "per_key", "name": name, "key": key, "function": f"failing_functions:{name}", **options}


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([WORDS, fails("lately", "word")], r"not the second; .*\(epoch 0, source/part\d\.jsonl offset \d+, path \d\)"),
        (
            [COUNTS, fails("fails", "label", **{"from": "counts.topics"})],
            r"not this one; .*\(epoch 0, the row of counts for window 0, path \[\"\w+\"(,\"\w+\")?\]\)",
        ),
        (
            [{**COUNTS, "window": BEGINS}],
            r"step 'counts', window, function begins: .*not this one \(epoch 0, source/part\d\.jsonl offset \d+\)",
        ),
    ],
    ids=["a child", "a row of a window", "a record of a window by predicates"],
)
def test_an_error_names_the_record_on_any_number_of_workers(
    pipeline: Pipeline, steps: list[dict[str, Any]], found: str
) -> None:
    pipeline.steps, pipeline.sinks = steps, {steps[-1]["name"]: {"type": "files"}}
    messages = []
    for pipeline.engine_name in ("local", "local-3"):
        with pytest.raises(StepFailed, match=found) as failed:
            pipeline.run(pipeline.engine_name, records=EPOCH_RECORDS)
        messages.append(str(failed.value))
    assert messages[0] == messages[1]


def test_an_error_at_the_end_of_an_epoch_names_the_step_and_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    top = NamedStep("top", TopK(of="text", window={"type": "tumbling", "size": "1us"}))
    graph = build_graph([top], ["text"])
    monkeypatch.setattr(graph.steps[0].step, "ended", lambda watermark: {"kept": 1}["gone"])
    columns = {"_rank": [0], "_offset": [12], "_time": [1], "_reject": [None], "text": ["a"]}
    records = pa.table(columns).cast(records_schema(["text"]))
    epoch = Epoch(3, {0: (12, 13)}, (Added(PartitionName("source", "a", 0)),))
    with pytest.raises(StepFailed) as failed:
        EpochProcessor(graph).process(epoch, records)
    assert str(failed.value) == "step 'top' failed at the end of epoch 3: KeyError: 'gone'"


def restored_reader(tmp_path: Path, send: Callable[[str, Message], None]) -> Any:
    graph = build_graph([NamedStep("fails", PerKey(key="text", function="failing_functions:fails"))], ["text"])
    layers = Layers(tmp_path / "layers", background=ThreadedBackground())
    reader = role_of("reader 0", 1, graph, legs_of(graph), lambda ranges: pa.table({}), send, layers)
    partitions = [PartitionName("source", "a", 0), PartitionName("source", "b", 1)]
    handle(reader, Restore(StoredStates(tmp_path, {}), partitions), send)
    return reader


def test_a_reader_knows_the_partitions_of_records_that_were_read_before_it_started(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    sent: list[Message] = []
    send = lambda receiver, message: sent.append(message)  # noqa: E731
    reader = restored_reader(tmp_path, send)
    columns = {"_rank": [1], "_offset": [12], "_time": [1], "text": ["a"]}
    records = pa.table(columns).cast(records_schema(["text"]).remove(3)).append_column(ORDER, pa.array([0]))
    handle(reader, Allow(0, 1), send)
    handle(reader, EpochPart(0, 0, 0, 0, {1: {LOG: records}}), send)
    [failed] = sent
    assert isinstance(failed, Failed) and "(epoch 0, source/b offset 12)" in str(failed.error)
