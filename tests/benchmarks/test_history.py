"""The history of full runs, and the change since the newest earlier run on the same kind of machine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.command import main
from benchmarks.kit.history import Entry, Machine, append, newest
from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_most

HERE = Machine.here()


def entry(commit: str, machine: Machine = HERE, **figures: float) -> Entry:
    return Entry(commit, False, "2026-01-01T00:00:00Z", machine, figures)


class Bench:
    """A checkout with a history, and a command that measures one figure."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.history = root / "benchmarks" / "history.jsonl"
        self.value = 2.0
        self.history.parent.mkdir()
        self.history.touch()
        (root / ".gitignore").write_text("/bench.json\n")
        self.git("init", "--quiet")
        self.git("add", "--all")
        self.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "--quiet", "--message", "all")

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", self.root, *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    def run(self, *arguments: str) -> int:
        measurement = Measurement((Figure("speed", "ms", at_most(3)),), "The speed.", self._take)
        return main(arguments, root=self.root, groups={"Speed": [measurement]})

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.history.read_text().splitlines()]

    def _take(self, setting: Setting) -> Iterator[Value]:
        yield Value("speed", self.value)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_full_run_appends_its_figures_with_commit_date_and_machine(bench: Bench) -> None:
    assert bench.run() == 0
    (line,) = bench.lines()
    assert line.keys() == {"commit", "dirty", "date", "machine", "figures"}
    assert bench.git("rev-parse", "HEAD").startswith(str(line["commit"]))
    assert (line["dirty"], line["figures"]) == (False, {"speed": 2.0})
    assert line["machine"] == {"cpu": HERE.cpu, "cores": HERE.cores, "memory": HERE.memory, "python": HERE.python}


def test_a_change_in_no_commit_makes_the_tree_dirty_but_the_history_does_not(bench: Bench) -> None:
    bench.run()
    bench.run()
    (bench.root / "new.py").write_text("")
    bench.run()
    assert [line["dirty"] for line in bench.lines()] == [False, False, True]


@pytest.mark.parametrize("arguments", [["--quick"], ["--only", "speed"], ["--documents", "texts.jsonl"], ["--list"]])
def test_only_a_full_run_is_appended(bench: Bench, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bench.root)
    Path("texts.jsonl").write_text('{"text": "a", "label": "b"}\n')
    assert bench.run(*arguments) == 0
    assert bench.lines() == []


def test_the_table_shows_the_change_since_the_newest_run(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.run()
    bench.value = 4.0
    bench.run()
    bench.value = 3.0
    capsys.readouterr()
    bench.run("--only", "speed")
    printed = capsys.readouterr().out
    assert "-25.0 %  <= 3  met" in printed
    assert f"change: since commit {bench.lines()[-1]['commit']}" in printed


def test_a_quick_run_shows_no_change(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.run()
    capsys.readouterr()
    bench.value = 1.0
    bench.run("--quick")
    assert "-50.0 %" not in capsys.readouterr().out


def test_runs_of_another_kind_of_machine_are_not_compared(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    assert newest(history, HERE) is None
    append(history, entry("a", speed=1.0))
    append(history, entry("b", replace(HERE, python="3.99.0"), speed=2.0))
    append(history, entry("c", replace(HERE, cores=HERE.cores + 1), speed=3.0))
    append(history, entry("d", replace(HERE, memory=HERE.memory + 1), speed=4.0))
    append(history, entry("e", replace(HERE, cpu="another"), speed=5.0))
    found = newest(history, HERE)
    assert found is not None
    assert found == entry("b", replace(HERE, python="3.99.0"), speed=2.0)


def test_the_tracked_history_can_be_read_and_names_no_path() -> None:
    history = Path(__file__).parents[2] / "benchmarks" / "history.jsonl"
    newest(history, HERE)
    assert "/home" not in history.read_text()
