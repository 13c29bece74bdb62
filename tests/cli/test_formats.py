"""A run directory of another version's format: every command refuses it, and `run --fresh` starts over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_result import Millstream

REFUSAL = "is a run directory of format 2, and this version of Millstream reads format 4: use the version that made it"


@pytest.fixture
def old(demo: Path, millstream: Millstream) -> Path:
    """The directory of a run whose run.json names the format before."""
    assert millstream("run", "demo.yaml", "--records", 20).code == 0
    written = demo / "runs/demo/run.json"
    written.write_text(json.dumps({**json.loads(written.read_text()), "format": 2}))
    return demo / "runs/demo"


@pytest.mark.parametrize("command", ["status", "audit", "predict", "read"])
def test_a_command_that_reads_refuses_it(old: Path, millstream: Millstream, command: str) -> None:
    ran = millstream(command, "runs/demo", *["predictions"] * (command == "read"))
    assert ran.code == 3 and REFUSAL in ran.err, ran.err


@pytest.mark.parametrize("processed", [True, False])
def test_a_start_refuses_it_even_if_no_epoch_was_cut(old: Path, millstream: Millstream, processed: bool) -> None:
    if not processed:
        for segment in (old / "epochs").iterdir():
            segment.unlink()
    ran = millstream("run", "demo.yaml")
    assert ran.code == 3 and REFUSAL in ran.err and "start over with --fresh" in ran.err


def test_a_replay_of_it_is_refused(old: Path, millstream: Millstream) -> None:
    ran = millstream("run", "demo.yaml", "--run", "again", "--replay", "runs/demo")
    assert ran.code == 3 and REFUSAL in ran.err


def test_fresh_moves_it_aside(old: Path, millstream: Millstream) -> None:
    ran = millstream("run", "demo.yaml", "--records", 20, "--fresh")
    assert ran.code == 0, ran.err
    assert json.loads((old / "run.json").read_text())["format"] == 4
    assert (old.parent / "demo.1/run.json").is_file()
