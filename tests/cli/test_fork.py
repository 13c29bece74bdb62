"""`millstream fork` and `savepoint`: what they print, and the command with which a fork goes on."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from support.command_result import Millstream

CONFIG = """\
name: small
source: {type: generator, records: 1000}
pipeline: {steps: [{type: classify, model: {type: naive_bayes, features: {dimensions: 256}}}]}
engine: {type: local, epoch: {max_records: 100}}
"""


@pytest.fixture
def config(tmp_path: Path, millstream: Millstream) -> Path:
    """A config with an overlay, of which 500 records are run."""
    path = tmp_path / "small config.yaml"
    path.write_text(CONFIG)
    (tmp_path / "small config.smooth.yaml").write_text("pipeline: {steps: [{type: classify, model: {type: majority}}]}")
    assert millstream("run", path, "--run", tmp_path / "old", "--records", "500").code == 0
    return path


def test_the_last_line_is_a_command_that_goes_on(millstream: Millstream, config: Path, tmp_path: Path) -> None:
    alpha = ("--set", "pipeline.steps.0.model.alpha=0.5")
    made = millstream("fork", tmp_path / "old", config, *alpha, "--run", tmp_path / "new")
    assert made.code == 0
    first, replayed, step, source, last = made.out.splitlines()
    assert first.startswith(f"{tmp_path / 'new'} begins after epoch 4 of {tmp_path / 'old'}, with its checkpoint ")
    assert replayed == "  to replay  0 epochs with 0 records, in the same cuts"
    assert (step.split(maxsplit=2), source.split(maxsplit=2)) == (
        ["step", "classify", "keeps its state"],
        ["source", "source", "continues at its positions"],
    )
    assert last.startswith("go on with: millstream run ")
    words = shlex.split(last.partition(": ")[2])[1:]
    assert json.loads(millstream(*words, "--json").out)["records"] == 500


def test_an_overlay_may_change_what_starts_over(millstream: Millstream, config: Path, tmp_path: Path) -> None:
    made = millstream("fork", tmp_path / "old", config, "--env", "smooth", "--at", "4", "--run", tmp_path / "new")
    assert 'classify  starts over: model.type was "naive_bayes", is "majority"' in made.out
    refused = millstream("run", config, "--run", tmp_path / "new")
    assert (refused.code, "the steps changed since the first start" in refused.err) == (3, True)
    assert millstream(*shlex.split(made.out.splitlines()[-1].partition(": ")[2])[1:]).code == 0


def test_savepoints_are_made_listed_and_deleted(millstream: Millstream, config: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    made = millstream("savepoint", old, "noon")
    assert made.out.splitlines()[1] == f"begin there with: millstream fork {old} CONFIG --at noon --run DIR"
    assert "  savepoints  noon (checkpoint " in millstream("status", old).out
    assert millstream("fork", old, config, "--at", "noon", "--run", tmp_path / "new").code == 0
    assert millstream("savepoint", old, "noon").code == 3
    assert millstream("savepoint", old, "noon", "--delete").code == 0
    assert "  savepoints" not in millstream("status", old).out
    gone = millstream("fork", old, config, "--at", "noon", "--run", tmp_path / "other")
    assert (gone.code, "has no savepoint 'noon'; it has none" in gone.err) == (1, True)


def test_a_fork_that_was_not_started_says_so(millstream: Millstream, config: Path, tmp_path: Path) -> None:
    assert millstream("fork", tmp_path / "old", config, "--run", tmp_path / "new").code == 0
    assert f"{tmp_path / 'new'}: a fork that was not started yet" in millstream("status", tmp_path / "new").out
    assert [line.split()[1] for line in millstream("ls", tmp_path).out.splitlines()[1:]] == ["forked", "ended"]
    millstream("run", config, "--run", tmp_path / "new", "--records", "100")
    assert "ended cleanly" in millstream("status", tmp_path / "new").out
