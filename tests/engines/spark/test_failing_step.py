"""The error of a step that fails in a Spark worker names step, epoch and record, as on every engine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.documents import EPOCH_RECORDS, write_documents

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
def package(tmp_path: Path) -> Path:
    """A package of its own: workers of a new session find it, those of the test run's session would not."""
    package = tmp_path / "package"
    (package / "picky-1.0.dist-info").mkdir(parents=True)
    (package / "picky-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: picky\nVersion: 1.0\n")
    (package / "picky-1.0.dist-info/entry_points.txt").write_text("[millstream.steps]\npicky = picky:Picky\n")
    (package / "picky.py").write_text(STEP)
    return package


@pytest.mark.long
@pytest.mark.parametrize(
    "names",
    [pytest.param(False, id="an exception", marks=pytest.mark.matrix), pytest.param(True, id="a record that it names")],
)
def test_a_step_that_fails_in_a_worker_is_named_with_its_epoch_and_record(
    tmp_path: Path, package: Path, names: bool
) -> None:
    write_documents(tmp_path / "documents")
    offset = FAILING * EPOCH_RECORDS // 2 + 1
    line = (tmp_path / "documents/part0.jsonl").read_text().splitlines()[offset]
    config = {
        "name": "failing",
        "source": {"type": "files", "path": "documents"},
        "pipeline": {"steps": [{"type": "picky", "text": json.loads(line)["text"], "names": names}]},
        "engine": {"type": "spark", "epoch": {"max_records": EPOCH_RECORDS}, "placement": {"picky": "worker"}},
    }
    (tmp_path / "failing.yaml").write_text(yaml.safe_dump(config))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "millstream", "run", "failing.yaml", "--run", "run"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    expected = (
        rf"step 'picky' does not like it \(epoch {FAILING}, source/part0\.jsonl offset {offset}\)$"
        if names
        else rf"step 'picky' failed in epoch {FAILING}, in records from source/part0\.jsonl offset \d+ on: "
        r"ValueError: not this one$"
    )
    assert ran.returncode == 1
    assert re.search(expected, ran.stderr, re.MULTILINE), ran.stderr
    assert EpochReader(tmp_path / "run/epochs").totals().epochs <= FAILING
