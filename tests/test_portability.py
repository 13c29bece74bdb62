"""Runs without what only Linux has: /proc, `os.fdatasync` and `os.posix_fadvise`, taken away from all its processes."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.conditions import HANG_SECONDS, wait_until

from millstream.log.journal.durability import sync_data, sync_file
from millstream.runs import termination
from millstream.runs.termination import descendants

TAKE_AWAY = """
import os, sys
del os.fdatasync, os.posix_fadvise

def refuse(event, arguments):
    path = arguments[0] if arguments else None
    if event in ("open", "os.listdir", "os.scandir") and isinstance(path, (str, bytes, os.PathLike)):
        if os.fsdecode(path) == "/proc" or os.fsdecode(path).startswith("/proc/"):
            raise FileNotFoundError(2, "No such file or directory", path)

def refusing(ask):
    def asks(path, *arguments, **options):
        refuse("open", (path,))
        return ask(path, *arguments, **options)
    return asks

sys.addaudithook(refuse)
for name in ("stat", "lstat", "readlink", "access"):  # these have no audit event
    setattr(os, name, refusing(getattr(os, name)))
"""
SMALL = """\
name: small
source: {type: files, path: news.jsonl}
pipeline: {use: text_topics, popularity: {window: {type: count, size: 20}}}
sinks: {predictions: {type: files, path: predictions}, topics: {type: journal, path: topics}}
engine: {type: local, workers: 2, epoch: {max_records: 20}}
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The variables of processes that have only what every system has; the folder has a config."""
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook/sitecustomize.py").write_text(TAKE_AWAY)
    (tmp_path / "small.yaml").write_text(SMALL)
    lines = [json.dumps({"text": f"word{n % 7} of text", "label": f"label{n % 3}"}) for n in range(200)]
    (tmp_path / "news.jsonl").write_text("\n".join(lines) + "\n")
    paths = os.pathsep.join([str(tmp_path / "hook"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    for ask in ("open('/proc/self/stat')", "os.stat('/proc/self')"):
        asked = [sys.executable, "-c", f"import os; {ask}"]
        refused = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False)
        assert "FileNotFoundError" in refused.stderr, "the processes have /proc"
    return environment


@pytest.fixture
def elsewhere(tmp_path: Path, environment: dict[str, str]) -> Run:
    """Runs a command with these variables."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "millstream", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
        )

    return run


@pytest.mark.long
def test_a_run_with_workers_crashes_recovers_and_is_audited(elsewhere: Run) -> None:
    crashed = elsewhere("run", "small.yaml", "--crash", "deliver@3")
    assert crashed.returncode == -signal.SIGKILL, crashed.stderr
    for command in ("run small.yaml --json", "status runs/small", "read runs/small topics", "audit runs/small --json"):
        done = elsewhere(*command.split())
        assert done.returncode == 0, done.stderr
    effects: dict[str, Any] = json.loads(done.stdout)
    assert effects["class"] == {"state": "precise", "output": "precise"}


@pytest.mark.long
def test_a_following_run_is_listed_and_stopped(tmp_path: Path, environment: dict[str, str], elsewhere: Run) -> None:
    command = [sys.executable, "-m", "millstream", "run", "small.yaml", "--follow", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        wait_until((tmp_path / "runs/small/live.json").exists, "the run")
        listed = elsewhere("ls")
        assert "small" in listed.stdout, listed.stderr
        stopped = elsewhere("stop", "runs/small")
        assert stopped.returncode == 0, stopped.stderr
        assert process.wait(HANG_SECONDS) == 0


def test_processes_are_found_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child = subprocess.Popen(["sh", "-c", "sleep 600 & sleep 600 & wait"])
    try:
        wait_until(lambda: len(descendants(child.pid)) == 2, "both children of the shell")
        found = descendants(child.pid)
        monkeypatch.setattr(termination, "_PROCESSES", tmp_path / "proc")
        assert sorted(descendants(child.pid)) == sorted(found)
        assert child.pid in descendants(os.getpid())
    finally:
        for process in (*descendants(child.pid), child.pid):
            os.kill(process, signal.SIGKILL)
        child.wait()


def test_a_run_kills_itself_also_where_its_processes_cannot_be_listed() -> None:
    code = (
        "import os; from pathlib import Path; from millstream.runs import termination; "
        "termination._PROCESSES = Path('/nowhere'); os.environ['PATH'] = '/nowhere'; termination.kill_family()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=HANG_SECONDS)
    assert done.returncode == -signal.SIGKILL


def test_files_are_synced_down_to_the_disk_where_that_is_a_call_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[str] = []
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(os, "fsync", lambda handle: calls.append("fsync"))
    with (tmp_path / "file").open("wb") as file:
        sync_data(file.fileno())
        monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
        monkeypatch.setattr(fcntl, "fcntl", lambda handle, command: calls.append(f"fcntl {command}"))
        sync_data(file.fileno())
        sync_file(file.fileno())
    assert calls == ["fsync", "fcntl 51", "fcntl 51"]
