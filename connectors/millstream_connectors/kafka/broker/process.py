"""The broker's process: started apart from ours, known again by when it was born, and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Running", "alive", "end", "kill", "start"]

_SECONDS_TO_STOP = 10.0
_SECONDS_TO_DIE = 10.0
_STEP = 0.02

# Kept, because Python warns of one that nobody keeps and that has not ended.
_started: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class Running:
    """The process of a broker that is up; `born` tells it from a later one of the same number."""

    pid: int
    port: int
    born: str


def start(command: Sequence[str], folder: Path, output: Path, port: int) -> Running:
    """Start it in a session of its own, so that it outlives us and hears none of our terminal's signals."""
    with output.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    _started.append(process)
    return Running(process.pid, port, _born(process.pid))


def alive(running: Running) -> bool:
    """Whether it has not ended; one that has, and was not waited for, has."""
    there = running.born != "" and _born(running.pid) == running.born
    for process in _started:
        process.poll()
    return there


def _born(pid: int) -> str:
    """When the process with this number was started; empty if there is none."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    if not boot.exists():
        return _born_by_ps(pid)
    try:
        # The command's name stands in brackets and may hold anything: read behind the last one.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    state, threads, ticks = fields[0], fields[17], fields[19]
    # Its first thread may have ended while others still hold its files and its port.
    ended = state in "ZX" and int(threads) <= 1
    return "" if ended else f"{ticks} ticks after boot {boot.read_text().strip()}"


def _born_by_ps(pid: int) -> str:
    """The same where there is no /proc."""
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    listed = subprocess.run(command, capture_output=True, text=True, env=environment, check=False).stdout
    state, _, born = listed.strip().partition(" ")
    return "" if state.startswith("Z") else born.strip()


def end(running: Running) -> None:
    """SIGTERM, and SIGKILL if that is not heeded."""
    if not _gone(running, signal.SIGTERM, _SECONDS_TO_STOP):
        kill(running)


def kill(running: Running) -> None:
    """SIGKILL; returns once it is gone."""
    if not _gone(running, signal.SIGKILL, _SECONDS_TO_DIE):
        message = f"process {running.pid} is there {_SECONDS_TO_DIE:g} s after SIGKILL"
        raise TimeoutError(message)


def _gone(running: Running, number: signal.Signals, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    if alive(running):
        with suppress(ProcessLookupError):
            os.kill(running.pid, number)
    while alive(running):
        if time.monotonic() > deadline:
            return False
        time.sleep(_STEP)
    return True
