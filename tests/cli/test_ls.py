"""`millstream ls`: a table of run directories, which opens no source and imports no plug-in."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.command_result import Millstream

from millstream.runs.directory import RunDirectory


@pytest.fixture
def runs(demo: Path, millstream: Millstream) -> Path:
    """The folder of a run that has ended, one that is running, and one of another version."""
    assert millstream("run", "demo.yaml", "--json").code == 0
    assert millstream("run", "demo.yaml", "--json", "--run", "runs/other", "--set", "name=more").code == 0
    (demo / "runs/odd").mkdir()
    (demo / "runs/odd/run.json").write_text('{"format": 1}')
    (demo / "runs/no-run").mkdir()
    return demo / "runs"


def test_every_run_has_a_line_with_its_state(runs: Path, millstream: Millstream) -> None:
    held = RunDirectory(runs / "other")
    held.lock()
    ran = millstream("ls")
    held.release()
    assert (ran.code, ran.err) == (0, "")
    head, *lines = ran.out.splitlines()
    assert head.split() == ["NAME", "STATE", "ENGINE", "DELIVERY", "RECORDS", "ACCURACY", "AGE"]
    cells = [line.split() for line in lines[:3]]
    assert [row[:2] for row in cells] == [["demo", "ended"], ["odd", "unreadable"], ["other", "running"]]
    assert cells[0][2:5] == ["local", "exactly_once", "5,000"]
    assert cells[0][5] == f"{json.loads((runs / 'demo/summary.json').read_text())['accuracy']:.4f}"
    assert lines[3].startswith(f"odd: {Path('runs/odd')} is a run directory of format 1")


def test_json_has_an_object_for_each_run(runs: Path, millstream: Millstream) -> None:
    entries = {entry["name"]: entry for entry in map(json.loads, millstream("ls", "runs", "--json").out.splitlines())}
    assert list(entries) == ["demo", "odd", "other"]
    assert (entries["other"]["pipeline"], entries["other"]["records"]) == ("more", 5000)
    assert entries["demo"]["age"] >= 0 and entries["odd"]["age"] is None
    assert "format 1" in entries["odd"]["problem"]


def test_the_age_is_the_time_since_the_run_has_written(runs: Path, millstream: Millstream) -> None:
    for path in runs.rglob("*"):
        os.utime(path, (0, 0))
    ages = [line.split()[-2:] for line in millstream("ls").out.splitlines()[1:4] if "unreadable" not in line]
    assert all(unit == "d" and int(age) > 20_000 for age, unit in ages)


def test_a_failed_run_differs_from_an_interrupted_one(runs: Path, millstream: Millstream) -> None:
    (runs / "demo/error.txt").write_text("no")
    (runs / "other/summary.json").unlink()
    states = [line.split()[1] for line in millstream("ls").out.splitlines()[1:4]]
    assert states == ["failed", "unreadable", "interrupted"]


def test_a_name_with_an_escape_is_not_interpreted(runs: Path, millstream: Millstream) -> None:
    (runs / "odd").rename(runs / "\x1b[31mred")
    out = millstream("ls").out
    assert "\x1b" not in out and "\\x1b[31mred" in out


def test_a_folder_without_runs_is_no_error_and_a_missing_one_is(
    tmp_path: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (millstream("ls").code, millstream("ls").out) == (0, "no runs in runs\n")
    ran = millstream("ls", "nowhere")
    assert ran.code == 1
    assert ran.err.startswith("millstream: there is no folder nowhere; name the folder that holds run directories")


def test_a_run_directory_is_not_a_folder_of_runs(runs: Path, millstream: Millstream) -> None:
    ran = millstream("ls", "runs/demo")
    assert ran.code == 1
    assert "`millstream status runs/demo` shows it" in ran.err


@pytest.mark.parametrize(
    ("file", "text"),
    [("config.yaml", ""), ("config.yaml", "engine: 1"), ("summary.json", "{}"), ("summary.json", "[]")],
)
def test_a_damaged_run_leaves_the_others_in_the_list(runs: Path, millstream: Millstream, file: str, text: str) -> None:
    (runs / "demo" / file).write_text(text)
    ran = millstream("ls")
    assert ran.code == 0
    assert [line.split()[1] for line in ran.out.splitlines()[1:4]] == ["unreadable", "unreadable", "ended"]
