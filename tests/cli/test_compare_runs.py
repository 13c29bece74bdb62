"""`millstream compare RUN RUN`: the table, the JSON object and the plot; texts of the data are not interpreted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_result import Millstream

DOCUMENTS = [{"text": f"tide{number % 3}", "label": f"\x1b[31m<b>{number % 3}"} for number in range(400)]


@pytest.fixture
def runs(millstream: Millstream, tmp_path: Path) -> list[Path]:
    """A run, and a fork of it with another model."""
    lines = "".join(json.dumps(document) + "\n" for document in DOCUMENTS)
    (tmp_path / "documents.jsonl").write_text(lines)
    config = tmp_path / "small.yaml"
    config.write_text(
        "name: small\nsource: {type: files, path: documents.jsonl}\nengine: {type: local, epoch: {max_records: 50}}\n"
        "pipeline: {steps: [{type: classify, model: {type: naive_bayes, features: {dimensions: 256}}}]}\n"
    )
    made = [tmp_path / "one", tmp_path / "two"]
    assert millstream("run", config, "--run", made[0]).code == 0
    config.write_text(
        config.read_text().replace("{type: naive_bayes, features: {dimensions: 256}}", "{type: majority}")
    )
    forked = millstream("fork", made[0], config, "--run", made[1], "--from-start")
    assert forked.code == 0, forked.err
    assert forked.out.splitlines()[-1] == f"go on with: millstream run {config} --run {made[1]}"
    assert millstream("run", config, "--run", made[1]).code == 0
    return made


def test_the_table_escapes_what_a_terminal_would_interpret(millstream: Millstream, runs: list[Path]) -> None:
    found = millstream("compare", *runs)
    assert found.code == 0
    assert "\x1b" not in found.out
    assert "share of \\x1b[31m<b>1" in found.out
    assert f"{runs[0]} and {runs[1]}" in found.out
    assert "epoch 0 differs first in the records of step classify" in found.out
    assert "source 0 " in found.out  # an example with its position


def test_json_has_everything_and_out_a_plot(millstream: Millstream, runs: list[Path], tmp_path: Path) -> None:
    found = millstream("compare", *runs, "--json", "--out", tmp_path / "plots")
    compared = json.loads(found.out)
    each = compared["predictions"]["predictions"]
    assert (each["common"], len(each["examples"]), len(each["labels"])) == (400, 5, 3)
    assert each["share"] == each["different"] / 400
    assert compared["plot"] == str(tmp_path / "plots/accuracy.png")
    assert (tmp_path / "plots/accuracy.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["{0}"], "is a run directory; name the run to compare it with"),
        (["{0}", "{1}", "--quick"], "--quick, --set and --tasks are for a study, and two runs are given"),
        (["study.yaml", "--json"], "--json is for two runs"),
        (["{0}", "nothing"], "nothing is not a run directory"),
        (["{0}", "{1}", "--out", "{0}/run.json"], "run.json is a file; give a folder with --out"),
    ],
)
def test_wrong_arguments(millstream: Millstream, runs: list[Path], options: list[str], message: str) -> None:
    found = millstream("compare", *(option.format(*runs) for option in options))
    assert found.code in (1, 2)
    assert message in found.err
