"""A plug-in's step that makes something else than it has declared ends the run, which names it and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.documents import write_documents
from support.pipelines import Pipeline

from millstream.config import plugins
from millstream.engines.local.engine import LocalEngine
from millstream.engines.spark.source import _run_worker_steps
from millstream.engines.spark.worker_setup import WorkerSetup
from millstream.errors import StepFailed
from millstream.log.epochs import PartitionName
from millstream.log.ranges import Range
from millstream.steps.graph import build_graph

STEP = """
from typing import Literal

import pyarrow as pa
from pydantic import BaseModel

from millstream.steps.contracts import Output, Result, Scope, Traits

WORDS = pa.schema([("_rank", pa.int64()), ("_offset", pa.int64()), ("_time", pa.int64()), ("word", pa.string())])


class Careless(BaseModel):
    type: Literal["careless"] = "careless"
    does: str

    def build(self, records):
        return Step(self.does)


class Step:
    traits = Traits(Scope.STATELESS)
    outputs = (Output("words", WORDS),)

    def __init__(self, does):
        self._does = does

    def process(self, records):
        if not records.num_rows:
            return Result(records)
        rows = records.select(["_rank", "_offset", "_time", "text"]).rename_columns(WORDS.names).cast(WORDS)
        if self._does == "another output":
            return Result(records, {"wrods": rows})
        if self._does == "a row's column too few":
            return Result(records, {"words": rows.drop_columns(["word"])})
        if self._does == "a row's column of another type":
            return Result(records, {"words": rows.set_column(3, "word", pa.array([1] * rows.num_rows))})
        if self._does == "a column too many":
            return Result(records.append_column("length", pa.array([1] * records.num_rows)))
        if self._does == "a column too few":
            return Result(records.drop_columns(["label"]))
        if self._does == "a column of another type":
            texts = records["text"].combine_chunks()
            return Result(records.set_column(records.schema.get_field_index("text"), "text", texts.cast(pa.binary())))
        return Result(records, {"words": rows})

    def ended(self, substream):
        raise AssertionError

    def save(self):
        return {}

    def restore(self, state):
        pass
"""
SAID = {
    "another output": "made rows for the output 'wrods', which it has not declared in `outputs`",
    "a row's column too few": "made rows for the output 'words' without the column 'word', which it has declared",
    "a row's column of another type": "rows for the output 'words' whose column 'word' is int64, and it has declared",
    "a column too many": "made records with the column 'length', which it has not declared",
    "a column too few": "made records without the column 'label', which it has declared",
    "a column of another type": "made records whose column 'text' is binary, and it has declared string",
}


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    package = tmp_path / "package"
    (package / "careless-1.0.dist-info").mkdir(parents=True)
    (package / "careless-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: careless\nVersion: 1.0\n")
    (package / "careless-1.0.dist-info/entry_points.txt").write_text(
        "[millstream.steps]\ncareless = careless:Careless\n"
    )
    (package / "careless.py").write_text(STEP)
    monkeypatch.syspath_prepend(str(package))
    write_documents(tmp_path / "documents")
    plugins.registered.cache_clear()
    yield Pipeline(tmp_path, LocalEngine(), sinks={})
    plugins.registered.cache_clear()
    plugins.load.cache_clear()


@pytest.mark.parametrize("engine_name", ["local", "local-3"])
@pytest.mark.parametrize("does", SAID)
def test_what_it_has_not_declared_is_refused_by_name(pipeline: Pipeline, does: str, engine_name: str) -> None:
    pipeline.engine_name, pipeline.steps = engine_name, [{"type": "careless", "name": "hasty", "does": does}]
    with pytest.raises(StepFailed, match=f"step 'hasty' .*{SAID[does]}"):
        pipeline.run("run")


def test_what_it_has_declared_is_delivered(pipeline: Pipeline) -> None:
    pipeline.steps = [{"type": "careless", "does": "what it says"}]
    summary = pipeline.run("run")
    assert summary.delivered["words"] == summary.records - 1  # one cannot be read


def test_sparks_workers_refuse_it_too(pipeline: Pipeline) -> None:
    pipeline.steps = [{"type": "careless", "does": "a column too few"}]
    loaded = pipeline.loaded("run")
    graph = build_graph(loaded.config.steps, ["text", "label"])
    columns = [pa.array([0] if pa.types.is_integer(field.type) else ["a"], field.type) for field in graph.records]
    with pytest.raises(StepFailed, match="step 'careless' made records without the column 'label'"):
        _run_worker_steps(
            pa.record_batch(columns, schema=graph.records),
            graph.steps,
            0,
            Range(0, PartitionName("news", "0", 0), 0, 1),
        )


def test_sparks_workers_call_a_step_by_its_name(tmp_path: Path, pipeline: Pipeline) -> None:
    careless = ("hasty", {"type": "careless", "does": "a column too few"})
    WorkerSetup("", 0, {}, {}, [careless], ["text", "label"], 1).write(tmp_path / "worker_setup.json")
    assert [node.name for node in WorkerSetup.read(tmp_path / "worker_setup.json").steps()] == ["hasty"]
