"""A pipeline that tests run as a user does, with the command line."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.conditions import HANG_SECONDS
from support.forks import start_fork_server

from millstream.cli import main
from millstream.errors import ConfigError
from millstream.log.epochs import EpochReader

__all__ = ["LOCAL", "RESULTS", "Commands", "end_started", "processed", "same"]

LOCAL = ("--set", "engine.type=local")
_started: list[subprocess.Popen[str]] = []
RESULTS = ("records", "epochs", "accuracy", "baselines", "model", "state", "outputs")


@dataclass(frozen=True)
class Commands:
    """Runs the config `pipeline.yaml` of a folder, any number of times."""

    folder: Path

    def arguments(self, run: str, *options: str) -> list[str]:
        return ["run", str(self.folder / "pipeline.yaml"), "--run", str(self.folder / run), "--json", *options]

    def start(self, run: str, *options: str) -> subprocess.Popen[str]:
        """Start a run in a process of its own."""
        command = [sys.executable, "-m", "millstream", *self.arguments(run, *options)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        _started.append(process)
        return process

    def stop(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """Stop a run after its epoch, with SIGTERM; return its summary."""
        process.send_signal(signal.SIGTERM)
        return _summary(process)

    def end(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """Wait until a run ends by itself; return its summary."""
        return _summary(process)

    def complete(self, run: str, *options: str) -> dict[str, Any]:
        """Run to the end in a process of its own; return the summary."""
        return self.end(self.start(run, *options))

    def finish(self, run: str, *options: str) -> dict[str, Any]:
        """Run to the end on the local engine, in this process; return the summary."""
        start_fork_server()
        out, err, code = io.StringIO(), io.StringIO(), None
        with redirect_stdout(out), redirect_stderr(err):
            try:
                main(self.arguments(run, *LOCAL, *options))
            except SystemExit as ended:
                code = ended.code
        assert not code, err.getvalue()
        return _last_line(out.getvalue())

    def crash(self, run: str, point: str, *options: str) -> None:
        """Run until `--crash` kills the process."""
        process = self.start(run, "--crash", point, *options)
        _, err = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == -signal.SIGKILL, (process.returncode, err)


def end_started() -> None:
    """Kill the processes that a failed test has left running."""
    while _started:
        process = _started.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


def _summary(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, err
    return _last_line(out)


def _last_line(out: str) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(out.splitlines()[-1])
    return summary


def processed(run: Path) -> int:
    """The number of epochs that a run has processed, without replays; the run may still be active."""
    try:
        return EpochReader(run / "epochs").totals().epochs
    except ConfigError:  # the run directory is not complete yet
        return 0


def same(summary: dict[str, Any], golden: dict[str, Any], *, cuts: bool = True) -> None:
    """Assert that two runs have the same results, and with `cuts` as many epochs.

    A run that was stopped after the last record has one more: only a run that ends there says that nothing follows.
    """
    for key in RESULTS:
        assert summary[key] == golden[key] or (key == "epochs" and not cuts), key
