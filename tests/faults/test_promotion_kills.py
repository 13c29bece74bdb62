"""kill -9 of a pipeline with a shadow, and a registry that is down, while records flow."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow import MlflowClient
from support.commands import Commands, processed
from support.conditions import wait_until
from support.processes import command_line, is_alive
from support.versions import append, config_of, flowing, learned, run_config

from millstream.api.run import Run
from millstream.log.epochs import Decided, EpochReader, Event, NewModel, Swap
from millstream.runs.shadow.notes import read_notes
from millstream.runs.start import Options, start
from millstream.runs.termination import descendants
from millstream.state.digests import state_digest

RULE = {"better": 1, "over": 200}
CONFIG: dict[str, Any] = {
    "model": {"type": "majority"},
    "shadow": {"from": "models:/news@challenger", "promote": RULE},
}


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """A pipeline over four journals, and a challenger that has learned their first records."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    append(tmp_path, 2_000)
    start(run_config(tmp_path), Options(tmp_path / "trained", follow=False))
    Run(tmp_path / "trained").export("news")
    MlflowClient().set_registered_model_alias("news", "challenger", "1")
    append(tmp_path, 3_000)
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(config_of(tmp_path, **CONFIG)))
    return Commands(tmp_path)


@contextmanager
def down(folder: Path) -> Iterator[None]:
    """The store of the registry does not answer: another program has locked the file of its database."""
    holder = sqlite3.connect(folder / "mlflow.db", isolation_level=None, timeout=300)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        holder.close()


def has(run: Path, kind: type[Event]) -> bool:
    if not any((run / "epochs").glob("*.journal")):
        return False
    return any(isinstance(event, kind) for epoch in EpochReader(run / "epochs").epochs() for event in epoch.events)


def catching_up(process: subprocess.Popen[str]) -> bool:
    """True while a version that was fetched catches up with the run of this process."""
    return any("millstream.runs.shadow.process" in command_line(pid) for pid in descendants(process.pid))


def settled(run: Path) -> bool:
    """True if the alias needs nothing more after the swap."""
    change = read_notes(run / "shadow.json")["classify"].change
    return change is not None and change.settled


def champion() -> str | None:
    """The version that the alias names."""
    aliases = MlflowClient().get_registered_model("news").aliases
    return str(aliases["champion"]) if "champion" in aliases else None


@pytest.mark.parametrize(
    ("workers", "moved"),
    [pytest.param(1, False, marks=pytest.mark.matrix), pytest.param(2, True, marks=pytest.mark.long)],
)
def test_kills_while_a_version_catches_up_and_before_the_alias_moves_change_nothing(
    commands: Commands, workers: int, moved: bool
) -> None:
    """With `moved`, somebody else lets the alias name another version before the run can move it."""
    folder, run = commands.folder, commands.folder / "run"
    options = ("--follow", "--set", f"engine.workers={workers}")
    with flowing(folder):
        process = commands.start("run", *options)
        wait_until(lambda: catching_up(process), "a version that catches up", process)
        family = descendants(process.pid)
        process.kill()
        process.communicate()
        wait_until(lambda: not any(map(is_alive, family)), "the end of the process that catches up")
        assert not has(run, NewModel)
        process = again = commands.start("run", *options)
        wait_until(lambda: catching_up(again), "a version that catches up again", again)
        with down(folder):
            wait_until(lambda: has(run, Swap), "the swap by the rule, without the registry", process)
            process.kill()
            process.communicate()
        assert champion() is None
        if moved:
            start(run_config(folder), Options(folder / "trained", follow=False))
            Run(folder / "trained").export("news")
            MlflowClient().set_registered_model_alias("news", "champion", "2")
        process = commands.start("run", *options)
        wait_until(lambda: settled(run), "a decision about the alias", process)
        assert champion() == ("2" if moved else "1")
    commands.stop(process)
    found = [event for epoch in EpochReader(run / "epochs").epochs() for event in epoch.events]
    assert [type(e).__name__ for e in found if isinstance(e, NewModel | Decided | Swap)] == [
        "NewModel",
        "Decided",
        "Swap",
    ]
    start(run_config(folder, model={"from": "models:/news/1"}), Options(folder / "golden", follow=False))
    commands.finish("run", "--until-idle")
    learned_by = [
        state_digest(learned(Run(folder / name).model().classify.version_state())) for name in ("run", "golden")
    ]
    assert learned_by[0] == learned_by[1]


def test_the_stream_goes_on_while_the_registry_is_down(commands: Commands) -> None:
    folder, run = commands.folder, commands.folder / "run"
    with flowing(folder):
        with down(folder):
            process = commands.start("run", "--follow", "--set", "engine.workers=1")
            assert process.stderr is not None
            assert any("the run goes on, and asks again" in line for line in process.stderr)
            before = processed(run)
            wait_until(lambda: processed(run) > before, "epochs without the registry", process)
            assert not catching_up(process)
        wait_until(lambda: champion() == "1", "the swap and the alias", process)
    commands.stop(process)
    assert Run(run).status().shadows["classify"].champion == "models:/news/1"
