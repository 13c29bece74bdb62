"""Commands with sources, sinks, steps and models of a user's own module, and without this module."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_result import Millstream

CONFIG = """\
name: mine
source: {type: "my_parts:Letters", records: 60}
pipeline:
  steps:
    - {type: "my_parts:Upper"}
    - {type: classify, model: {type: "my_parts:LengthModel", batch_size: 4}}
sinks: {rejects: {type: "my_parts:RowFile", path: rows}}
engine: {type: local, epoch: {max_records: 20}}
"""
MODULE = Path(__file__).parents[1] / "support" / "plugin_classes.py"


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, with a config and the module that it names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    (tmp_path / "modules").mkdir()
    shutil.copy(MODULE, tmp_path / "modules" / "my_parts.py")
    (tmp_path / "mine.yaml").write_text(CONFIG)
    yield tmp_path
    sys.modules.pop("my_parts", None)


def forget_module(mine: Path) -> None:
    """Remove the module, as for a user whose PYTHONPATH does not have its folder."""
    (mine / "modules" / "my_parts.py").unlink()
    shutil.rmtree(mine / "modules" / "__pycache__", ignore_errors=True)
    sys.modules.pop("my_parts", None)


def test_validate_explain_and_run_know_the_classes(mine: Path, millstream: Millstream) -> None:
    summary = "mine: my_parts:Letters -> Upper -> classify -> rejects, predictions; exactly_once on local"
    assert summary in millstream("validate", "mine.yaml").out
    explained = json.loads(millstream("explain", "mine.yaml", "--json").out)
    assert [step["type"] for step in explained["steps"]] == ["my_parts:Upper", "classify"]
    assert explained["steps"][1]["options"]["model"]["type"] == "my_parts:LengthModel"
    assert explained["outputs"][0]["sink"] == "my_parts:RowFile"
    ran = millstream("run", "mine.yaml", "--json")
    assert (ran.code, json.loads(ran.out)["records"]) == (0, 60), ran.err
    assert "resumed" not in millstream("run", "mine.yaml", "--json").err
    assert millstream("audit", "runs/mine").code == 0


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (
            "source.type=my_part:Letters",
            "mine.yaml (--set) source.type: there is no module 'my_part'; install its pack",
        ),
        ("source.type=my_parts:Leters", "source.type: my_parts has no 'Leters'; did you mean `Letters`?"),
        ("source.type=my_parts:Upper", "my_parts:Upper is a step, not a source; the class of a source derives from mi"),
        ("sinks.rejects.type=my_parts:HalfSink", "sinks.rejects.type: my_parts:HalfSink does not define clear, open, "),
        (
            "pipeline.steps.0.type=my_parts:LengthModel",
            "my_parts:LengthModel is a model, not a step; the class of a st",
        ),
        (
            "pipeline.steps.1.model.powr=2",
            "mine.yaml (--set) pipeline.steps.1.model.powr: unknown key; did you mean `po",
        ),
        ("source.recods=2", "mine.yaml (--set) source.recods: unknown key; did you mean `records`?"),
    ],
)
def test_a_wrong_class_or_option_is_refused_at_its_line(
    mine: Path, millstream: Millstream, sets: str, message: str
) -> None:
    ran = millstream("validate", "mine.yaml", "--set", sets)
    assert ran.code == 2
    assert message in ran.err


def test_a_module_that_raises_is_refused_without_a_traceback(mine: Path, millstream: Millstream) -> None:
    module = mine / "modules" / "my_parts.py"
    module.write_text("LIMIT = {}\n\nLIMIT['texts']\n")
    ran = millstream("validate", "mine.yaml")
    assert ran.code == 2
    assert f"my_parts cannot be imported: KeyError: 'texts', at {module}, line 3" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("workers", [1, 2])
def test_a_mistake_in_a_source_is_no_defect_of_millstream(mine: Path, millstream: Millstream, workers: int) -> None:
    module = mine / "modules" / "my_parts.py"
    module.write_text(module.read_text().replace('"_offset": offset,', '"_offset": offset + 1,'))
    ran = millstream("run", "mine.yaml", "--set", f"engine.workers={workers}", "--json")
    assert ran.code == 1
    assert "the source my_parts:Letters: `read` yields the offsets 1 to 20 of [0, 20) in the partition '0'" in ran.err
    assert "defect" not in ran.err


@pytest.mark.parametrize(
    ("sets", "where"), [("engine.workers=2", "the worker processes"), ("engine.type=spark", "Spark's workers")]
)
def test_a_class_of_a_notebook_runs_in_one_process_only(
    mine: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch, sets: str, where: str
) -> None:
    import my_parts  # type: ignore[import-not-found]

    monkeypatch.setattr(my_parts.LengthModel, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "LengthModel", my_parts.LengthModel, raising=False)
    model = ("--set", "pipeline.steps.1.model.type=__main__:LengthModel")
    assert millstream("run", "mine.yaml", *model, "--json").code == 0
    ran = millstream("validate", "mine.yaml", *model, "--set", sets)
    assert ran.code == 2
    assert f"pipeline.steps.1.model: {where} cannot import LengthModel, which a notebook, a script or a fu" in ran.err
    assert "run in one process with `engine: {type: local, workers: 1}`" in ran.err


def test_an_editor_accepts_a_class_with_any_options(mine: Path, millstream: Millstream) -> None:
    schema = json.loads(millstream("schema").out)
    types = schema["$defs"]["TextTopics"]["properties"]["model"]["properties"]["type"]["anyOf"]
    assert "naive_bayes" in types[0]["enum"] and types[1]["type"] == "string"
    own = schema["$defs"]["TextTopics"]["properties"]["model"]["anyOf"][-2]
    assert own["properties"]["type"]["pattern"] == types[1]["pattern"] and own["additionalProperties"] is True


def test_status_and_read_need_no_module_for_plain_files(mine: Path, millstream: Millstream) -> None:
    assert millstream("run", "mine.yaml", "--json").code == 0
    with_module = millstream("read", "runs/mine", "predictions").out
    forget_module(mine)
    read = millstream("read", "runs/mine", "predictions")
    assert (read.code, read.out) == (0, with_module)
    status = json.loads(millstream("status", "runs/mine", "--json").out)
    assert (status["records"], status["state"]) == (60, "ended")
    assert {name: output["rows"] for name, output in status["outputs"].items()} == {"rejects": None, "predictions": 60}
    assert "there is no module 'my_parts'" in status["unknown"]["source"]
    assert status["partitions"][0]["position"] == 60
    printed = millstream("status", "runs/mine")
    assert printed.code == 0 and "there is no module 'my_parts'" in printed.out
    for command in (["read", "runs/mine", "rejects"], ["predict", "runs/mine", "a"], ["audit", "runs/mine"]):
        refused = millstream(*command)
        assert (refused.code, refused.out) == (2, "")
        assert "there is no module 'my_parts'; install its package, run the command in its folder" in refused.err


def test_status_and_read_need_no_module_of_a_function(folder: Path, millstream: Millstream) -> None:
    (folder / "gone_rules.py").write_text("def shout(record):\n    return {'text': record['text'].upper()}\n")
    sys.path.insert(0, str(folder))
    try:
        steps = (
            'pipeline={steps: [{type: map, function: "gone_rules:shout"}, {type: classify, model: {type: river_nb}}]}'
        )
        assert millstream("run", "news.yaml", "--set", steps, "--json").code == 0
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("gone_rules", None)
    (folder / "gone_rules.py").unlink()
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    assert len(millstream("read", "runs/news", "predictions").out.splitlines()) == 1
    status = json.loads(millstream("status", "runs/news", "--json").out)
    assert status["outputs"]["predictions"]["rows"] == 1
    assert "there is no module 'gone_rules'" in millstream("predict", "runs/news", "a goal").err
