"""A run whose model begins with old labels from files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.commands import Commands
from support.killed_at import killed_after, line

from millstream.api.run import Run
from millstream.config.load import Loaded, load_config
from millstream.errors import ConfigError, Contradiction, MillstreamError
from millstream.guarantees.validation import checked_graph
from millstream.history.search.search import search
from millstream.history.train import train
from millstream.log.epochs import EpochReader, NewModel
from millstream.runs import warm_start
from millstream.runs.directory import RunDirectory
from millstream.runs.fork.fork import fork_run
from millstream.runs.start import Options, start

OLD, RECORDS = 700, 1500
ENGINES = [
    pytest.param({"type": "local"}, id="one process"),
    pytest.param({"type": "local", "workers": 2}, id="workers"),
    pytest.param({"type": "spark"}, id="spark", marks=[pytest.mark.spark, pytest.mark.xdist_group("spark")]),
]


def write_config(folder: Path, name: str, source: str, warm: dict[str, Any] | None, **changes: Any) -> Loaded:
    steps: list[dict[str, Any]] = [
        {"type": "hashed_text", "dimensions": 256},
        {"type": "classify", "model": {"type": "naive_bayes", "batch_size": 32}, "warm_start": warm},
    ]
    config = {
        "name": "small",
        "source": {"type": "files", "path": source},
        "pipeline": {"steps": steps},
        "engine": {"type": "local", "epoch": {"max_records": 300}},
    }
    (folder / name).write_text(yaml.safe_dump({**config, **changes}))
    return load_config(folder / name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with old records, new records and all records, and the model of a run over all of them."""
    for name, begin, stop in (("old", 0, OLD), ("new", OLD, RECORDS), ("all", 0, RECORDS)):
        lines = b"".join(line(number) + b"\n" for number in range(begin, stop))
        (tmp_path / f"{name}.jsonl").write_bytes(lines)
    return tmp_path


def pipeline(folder: Path, **changes: Any) -> Loaded:
    return write_config(folder, "pipeline.yaml", "new.jsonl", {"type": "files", "path": "old.jsonl"}, **changes)


def fingerprint(run: Path) -> str:
    return str(Run(run).model().classify.fingerprint())


def of_all(folder: Path) -> str:
    """The model of a run over all records, old and new."""
    start(write_config(folder, "all.yaml", "all.jsonl", None), Options(folder / "all"))
    return fingerprint(folder / "all")


@pytest.mark.parametrize("engine", ENGINES)
def test_the_model_is_that_of_a_run_over_the_old_and_the_new_records(engine: dict[str, Any], folder: Path) -> None:
    summary = start(pipeline(folder, engine={**engine, "epoch": {"max_records": 300}}), Options(folder / "run"))
    assert summary.records == RECORDS - OLD
    assert fingerprint(folder / "run") == of_all(folder)
    events = [event for epoch in EpochReader(folder / "run/epochs").epochs(0) for event in epoch.events]
    [event] = [event for event in events if isinstance(event, NewModel)]
    assert event.version == "warm start: 700 records of old.jsonl"
    assert Run(folder / "run").output("predictions")["predicted"].null_count == 0


def test_a_restart_a_replay_a_fork_and_an_audit_do_not_need_the_file(folder: Path) -> None:
    loaded = pipeline(folder)
    start(loaded, Options(folder / "run", records=300))
    (folder / "old.jsonl").unlink()
    start(loaded, Options(folder / "run"))
    start(loaded, Options(folder / "again", replay=folder / "run"))
    fork_run(RunDirectory(folder / "run"), loaded, folder / "forked", from_start=True)
    start(loaded, Options(folder / "forked"))
    audit = Run(folder / "run").audit()
    assert str(audit.state) == "precise" and {str(each.kind) for each in audit.outputs.values()} == {"precise"}
    expected = of_all(folder)
    assert [fingerprint(folder / run) for run in ("run", "again", "forked")] == [expected] * 3


@pytest.mark.long
def test_a_warm_start_that_is_killed_begins_again(folder: Path) -> None:
    pipeline(folder)
    commands = Commands(folder)
    killed_after("millstream.runs.warm_start:_Learner:_learn", *commands.arguments("run"))
    assert commands.finish("run")["records"] == RECORDS - OLD
    assert fingerprint(folder / "run") == of_all(folder)


def test_another_file_is_refused_afterwards(folder: Path) -> None:
    start(pipeline(folder), Options(folder / "run", records=300))
    other = write_config(folder, "other.yaml", "new.jsonl", {"type": "files", "path": "all.jsonl"})
    with pytest.raises(Contradiction, match=r"classify\.warm_start\.path was \"old.jsonl\", is \"all.jsonl\""):
        start(other, Options(folder / "run"))


def test_a_wrong_line_is_named_with_its_file(folder: Path) -> None:
    lines = (folder / "old.jsonl").read_text().splitlines(keepends=True)
    (folder / "old.jsonl").write_text("".join([*lines[:16], "goal, sport\n", *lines[17:]]))
    with pytest.raises(MillstreamError, match=r"warm start of 'classify', old.jsonl line 17: not JSON"):
        start(pipeline(folder), Options(folder / "run"))


def test_long_files_show_progress(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_start, "_SECONDS", 0)
    lines: list[str] = []
    start(pipeline(folder), Options(folder / "run"), say=lines.append)
    assert lines[-1] == "warm start of 'classify': 700 of 700 records learned"


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "no such file": ({"type": "files", "path": "none.jsonl"}, "there is no .*none.jsonl"),
    "a source without an end": ({"type": "journal", "path": "journal"}, "this source never ends"),
    "no labels": ({"type": "files", "path": "texts.jsonl"}, "no record of texts.jsonl has a label"),
    "other fields": (
        {"type": "files", "path": "old.jsonl", "fields": {"text": "text"}},
        "its records have no field 'label', which those of the stream have",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_old_labels_that_cannot_be_learned_are_refused(folder: Path, case: str) -> None:
    warm, message = REFUSALS[case]
    (folder / "texts.jsonl").write_text(json.dumps({"text": "a late goal"}) + "\n")
    with pytest.raises(ConfigError, match=message):
        start(write_config(folder, "wrong.yaml", "new.jsonl", warm), Options(folder / "run"))
    start(pipeline(folder), Options(folder / "run"))


def test_a_step_with_state_before_the_model_is_refused(folder: Path) -> None:
    path = folder / "pipeline.yaml"
    pipeline(folder)
    config = yaml.safe_load(path.read_text())
    config["pipeline"]["steps"].insert(0, {"type": "dedupe", "by": "text", "within": "1h"})
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(ConfigError, match=r"the step 'dedupe' before the model has state"):
        start(load_config(path), Options(folder / "run"))


def test_validate_finds_a_missing_file_and_training_refuses_a_warm_start(folder: Path) -> None:
    loaded = pipeline(folder)
    with pytest.raises(ConfigError, match="`warm_start` has no meaning"):
        train(loaded, folder / "model")
    with pytest.raises(ConfigError, match="`warm_start` has no meaning"):
        search(loaded.changed([("search", {"over": {"model.alpha": [0.1, 1.0]}})]), folder / "model")
    (folder / "old.jsonl").unlink()
    with pytest.raises(ConfigError, match=re.escape("pipeline.steps.1.warm_start.path: there is no")):
        checked_graph(loaded)
