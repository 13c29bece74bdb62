"""Classes that a notebook defines: they run in one process; workers and Spark refuse them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.conditions import HANG_SECONDS

NOTEBOOK = """
import json, sys
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel

import millstream as ms
from millstream_connectors.files.source import FilesSource
from millstream_pipelines.text_topics import TextTopics

class LastLabel(BaseModel):
    "Predicts the last label that it has learned."
    reads: ClassVar[str] = "text"
    type: Literal["last_label"] = "last_label"
    batch_size: int = 1

    def build(self, records):
        return Last()

class Last:
    reads = "text"

    def __init__(self):
        self.restore({})

    def prepare(self, column):
        return np.zeros(len(column))

    def predict(self, inputs):
        return np.full(len(inputs), self.last), np.ones(len(inputs))

    def learn(self, inputs, labels, classes):
        self.last = int(labels[-1])

    def save(self):
        return {"last": np.array([self.last])}

    def restore(self, state):
        self.last = int(np.array(state.get("last", [0]))[0])

def shout(record):
    return {"text": record["text"].upper()}

def config(model=None, **engine):
    return ms.Config(
        name="notebook",
        source=FilesSource(path="documents"),
        pipeline=TextTopics(model=model or LastLabel(), popularity=None),
        engine={"type": "local", "epoch": {"max_records": 24}, **engine},
    )
"""


def notebook(folder: Path, cell: str, before: str = NOTEBOOK) -> Any:
    """Run a cell in a process whose `__main__` has no file, as that of a notebook; return what it prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", f"{before}\n{cell}"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_class_of_a_notebook_runs_in_one_process(folder: Path) -> None:
    cell = """
half = ms.run(config(), records=96)
run = ms.run(config())
with ms.start(config(), run="runs/again") as running:
    state, again = running.status().pipeline, running.wait()
audit = run.audit()
print(json.dumps({
    "records": run.summary.records,
    "same": again.summary.model == run.summary.model,
    "status": [state, run.status().state],
    "rows": run.output("predictions").num_rows,
    "predicted": len(run.predict(["a text", "another"])),
    "audit": [audit.records, audit.state],
    "of_no_change": ms.run(config(model={"type": "no_change"}), run="runs/no_change").summary.accuracy,
    "accuracy": run.summary.accuracy,
}))
"""
    found = notebook(folder, cell)
    assert found["records"] == 192 and found["same"] and found["status"] == ["notebook", "ended"]
    assert found["predicted"] == 2 and found["rows"] > 180 and found["audit"] == [192, "precise"]
    assert found["accuracy"] == pytest.approx(found["of_no_change"], abs=0.02)


@pytest.mark.parametrize(
    ("engine", "where"), [({"workers": 2}, "the worker processes"), ({"type": "spark"}, "Spark's workers")]
)
def test_other_processes_refuse_it_before_anything_is_written(folder: Path, engine: dict[str, Any], where: str) -> None:
    cell = f"""
engine = {engine!r}
found = ms.validate(config(**engine))
try:
    ms.run(config(**engine))
except ms.ConfigError as error:
    print(json.dumps([[each.key, each.message] for each in found] + [str(error)]))
"""
    [key, message], refused = notebook(folder, cell)
    assert key == "pipeline.model" and message in refused
    assert message.startswith(f"{where} cannot import LastLabel, which a notebook, a script or a function defines; ")
    assert not (folder / "runs").exists()


def test_its_model_cannot_be_exported(folder: Path) -> None:
    cell = """
try:
    ms.run(config()).export("own")
except ms.MillstreamError as error:
    print(json.dumps(str(error)))
"""
    assert "the step 'classify' has LastLabel, which a notebook, a script or a function defines" in notebook(
        folder, cell
    )


def test_a_function_of_a_notebook_is_refused_alike(folder: Path) -> None:
    cell = """
steps = {"steps": [{"type": "map", "function": "__main__:shout"}]}
def functions(**engine):
    return {"name": "a", "source": {"type": "files", "path": "documents"}, "pipeline": steps,
            "engine": {"type": "local", **engine}}
[problem] = ms.validate(functions(workers=2))
print(json.dumps([ms.validate(functions()), problem.key, problem.message]))
"""
    alone, key, message = notebook(folder, cell)
    assert alone == [] and key == "pipeline.steps.0.function" and "cannot import shout" in message


NAMED = """
from millstream.plugin import ModelConfig

class Named(ModelConfig):
    def build(self, records):
        return Last()
"""
READ = """
opened = ms.open_run("runs/notebook")
audit, golden = opened.audit(), ms.run(config(MODEL), run="runs/golden", replay=opened)
print(json.dumps({
    "outputs": opened.outputs,
    "status": opened.status().state,
    "rows": opened.output("predictions").num_rows,
    "predicted": len(opened.predict(["a text", "another"])),
    "audits": [audit.state, opened.audit(against=golden).state, opened.audit(against="runs/golden").state],
    "metrics": opened.metrics().num_rows,
    "config": opened.config.resolved() == config(MODEL).resolved(),
}))
"""


@pytest.mark.parametrize("model", ["LastLabel", "Named"])
def test_a_process_with_the_class_opens_the_run(folder: Path, model: str) -> None:
    read = READ.replace("MODEL", f"{model}()")
    same = notebook(folder, f"{NAMED}\nms.run(config({model}()))\n{read}")
    assert same["status"] == "ended" and same["rows"] > 180 and same["predicted"] == 2 and same["config"]
    assert same["audits"] == ["precise"] * 3
    assert notebook(folder, f"{NAMED}\n{read}") == same


@pytest.mark.parametrize(
    ("model", "call", "reason"),
    [
        ("LastLabel", 'ms.open_run("runs/notebook").predict(["a"])', "known only to a process that defines it"),
        ("Named", 'ms.open_run("runs/notebook").predict(["a"])', "__main__:Named: this process does not define Named"),
        ("Named", 'ms.open_run("runs/notebook").audit()', "__main__:Named: this process does not define Named"),
    ],
)
def test_a_process_without_the_class_refuses_with_the_reason(folder: Path, model: str, call: str, reason: str) -> None:
    notebook(folder, f"{NAMED}\nms.run(config({model}()))\nprint(0)")
    cell = f"""
try:
    {call}
except ms.MillstreamError as error:
    print(json.dumps(str(error)))
"""
    assert reason in notebook(folder, cell, "import json\nimport millstream as ms")
