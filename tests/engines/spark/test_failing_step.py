"""The error of a step that fails in a Spark worker names step, epoch and record, as on every engine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.documents import EPOCH_RECORDS, write_documents
from support.pipelines import Pipeline

from millstream.config import plugins
from millstream.engines.spark.engine import SparkEngine
from millstream.errors import StepFailed
from millstream.log.epochs import EpochReader

pytestmark = pytest.mark.spark

FAILING = 3
STEP = """
from typing import Literal

from pydantic import BaseModel

from millstream.errors import StepFailed
from millstream.steps.contracts import Result, Scope, Traits


class Picky(BaseModel):
    type: Literal["picky"] = "picky"
    text: str
    names: bool

    def build(self, records):
        return Step(self.text, self.names)


class Step:
    traits = Traits(Scope.STATELESS, ordered=False, only_adds=True)
    outputs = ()

    def __init__(self, text, names):
        self._text, self._names = text, names

    def process(self, records):
        texts = records["text"].to_pylist()
        if self._text in texts:
            if self._names:
                row = texts.index(self._text)
                rank, offset = records["_rank"][row].as_py(), records["_offset"][row].as_py()
                raise StepFailed("step 'picky' does not like it", rank, offset)
            raise ValueError("not this one")
        return Result(records)

    def save(self):
        return {}

    def restore(self, state):
        pass
"""


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    package = tmp_path / "package"
    (package / "picky-1.0.dist-info").mkdir(parents=True)
    (package / "picky-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: picky\nVersion: 1.0\n")
    (package / "picky-1.0.dist-info/entry_points.txt").write_text("[millstream.steps]\npicky = picky:Picky\n")
    (package / "picky.py").write_text(STEP)
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setenv("PYTHONPATH", str(package), prepend=os.pathsep)
    write_documents(tmp_path / "documents")
    plugins.registered.cache_clear()
    yield Pipeline(tmp_path, SparkEngine(), engine_name="spark", sinks={}, placement={"picky": "worker"})
    plugins.registered.cache_clear()
    plugins.load.cache_clear()


@pytest.mark.parametrize("names", [False, True], ids=["an exception", "a record that it names"])
def test_a_step_that_fails_in_a_worker_is_named_with_its_epoch_and_record(pipeline: Pipeline, names: bool) -> None:
    offset = FAILING * EPOCH_RECORDS // 2 + 1
    line = (pipeline.folder / "documents/part0.jsonl").read_text().splitlines()[offset]
    pipeline.steps = [{"type": "picky", "text": json.loads(line)["text"], "names": names}]
    message = (
        rf"^step 'picky' does not like it \(epoch {FAILING}, source/part0\.jsonl offset {offset}\)$"
        if names
        else rf"^step 'picky' failed in epoch {FAILING}, in records from source/part0\.jsonl offset \d+ on: "
        r"ValueError: not this one$"
    )
    with pytest.raises(StepFailed, match=message):
        pipeline.run("run")
    assert EpochReader(pipeline.folder / "runs/run/epochs").totals().epochs <= FAILING
