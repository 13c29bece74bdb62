"""`millstream stop`: a run in another process ends after its epoch, and no other process gets the signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_result import Millstream
from support.conditions import HANG_SECONDS, wait_until

from millstream.runs.directory import RunDirectory
from millstream.runs.watch.run_list import run_entry

ENDLESS = ("--set", "source.rate=200", "--set", "source.records=1000000000")


@pytest.fixture
def running(demo: Path) -> Iterator[subprocess.Popen[str]]:
    """A run that follows its source, in a process of its own."""
    command = [sys.executable, "-m", "millstream", "run", "demo.yaml", *ENDLESS, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: has_records(demo / "runs/demo"), "the first epoch", process)
        yield process
    finally:
        process.kill()
        process.communicate()


def has_records(run: Path) -> bool:
    return (run / "run.json").exists() and bool(run_entry(run, 0.0).records)


def test_a_running_run_ends_cleanly(running: subprocess.Popen[str], demo: Path, millstream: Millstream) -> None:
    ran = millstream("stop", "runs/demo")
    assert ran.code == 0
    assert f"process {running.pid} stops runs/demo after the epoch in progress" in ran.err
    assert "runs/demo has stopped, with " in ran.out
    assert running.wait(HANG_SECONDS) == 0
    assert run_entry(demo / "runs/demo", 0.0).state == "ended"


def test_a_run_that_does_not_end_in_time_is_reported(
    running: subprocess.Popen[str], demo: Path, millstream: Millstream
) -> None:
    os.kill(running.pid, signal.SIGSTOP)
    ran = millstream("stop", "runs/demo", "--timeout", "0.2")
    assert ran.code == 4
    assert f"process {running.pid} has not ended runs/demo within 0.2 s" in ran.err
    os.kill(running.pid, signal.SIGCONT)
    assert millstream("stop", "runs/demo").code == 0


def test_there_is_nothing_to_do_for_a_run_that_does_not_run(demo: Path, millstream: Millstream) -> None:
    assert millstream("run", "demo.yaml", "--json").code == 0
    ran = millstream("stop", "runs/demo")
    assert (ran.code, ran.out, ran.err) == (0, "runs/demo is not running\n", "")
    assert millstream("stop", "runs/dem").code == 1


def test_a_process_that_does_not_hold_the_run_gets_no_signal(demo: Path, millstream: Millstream) -> None:
    assert millstream("run", "demo.yaml", "--json").code == 0
    with subprocess.Popen(["sleep", "600"]) as stranger:
        held = RunDirectory(demo / "runs/demo")
        held.lock()
        (demo / "runs/demo/lock").write_text(f"{stranger.pid}\n")
        ran = millstream("stop", "runs/demo")
        held.release()
        assert stranger.poll() is None
        stranger.kill()
    assert ran.code == 1
    assert f"it is not process {stranger.pid}, which the file lock names" in ran.err


def test_a_program_with_a_handler_of_its_own_gets_no_signal(demo: Path, millstream: Millstream) -> None:
    assert millstream("run", "demo.yaml", "--json").code == 0
    program = (
        "import os, signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: os._exit(5))\n"
        "from pathlib import Path\nfrom millstream.runs.directory import RunDirectory\n"
        "held = RunDirectory(Path('runs/demo'))\nheld.lock()\nprint('locked', flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "locked\n"
        ran = millstream("stop", "runs/demo")
        assert holder.poll() is None
    assert ran.code == 1
    assert f"process {holder.pid}, which holds runs/demo, is a program that does not end its run on SIGTERM" in ran.err


def test_a_run_that_was_killed_meanwhile_is_reported(
    running: subprocess.Popen[str], demo: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> bool:
        running.kill()
        running.wait()
        return True

    monkeypatch.setattr("millstream.runs.stop_request._stop", killed)
    ran = millstream("stop", "runs/demo")
    assert ran.code == 1
    assert "runs/demo is interrupted; `millstream status runs/demo` shows more" in ran.err
