"""The process of a broker: it runs in a session of its own, and is identified by its number and start time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BrokerProcess", "alive", "end", "kill", "start"]

_TERM_SECONDS = 10.0
_KILL_SECONDS = 10.0
_POLL_SECONDS = 0.02

# Referenced here, because Python warns when it collects the object of a process that has not ended.
_started: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class BrokerProcess:
    """The process of a broker that is up; `born`, its start time, distinguishes it from later ones of its number."""

    pid: int
    port: int
    born: str


def start(command: Sequence[str], folder: Path, output: Path, port: int) -> BrokerProcess:
    """Start a broker in a session of its own, so that it outlives this process and gets no signals of its terminal."""
    with output.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    _started.append(process)
    return BrokerProcess(process.pid, port, _born(process.pid))


def alive(running: BrokerProcess) -> bool:
    """True until the process has ended; a zombie has ended."""
    same = running.born != "" and _born(running.pid) == running.born
    for process in _started:
        process.poll()
    return same


def _born(pid: int) -> str:
    """The start time of the process with this number; empty if there is none."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    if not boot.exists():
        return _born_by_ps(pid)
    try:
        # The command's name is in brackets and may contain any character: the other fields follow the last bracket.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    state, threads, ticks = fields[0], fields[17], fields[19]
    # The first thread may have ended while others still hold the process's files and port.
    ended = state in "ZX" and int(threads) <= 1
    return "" if ended else f"{ticks} ticks after boot {boot.read_text().strip()}"


def _born_by_ps(pid: int) -> str:
    """The start time on systems without /proc."""
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    listed = subprocess.run(command, capture_output=True, text=True, env=environment, check=False).stdout
    state, _, born = listed.strip().partition(" ")
    return "" if state.startswith("Z") else born.strip()


def end(running: BrokerProcess) -> None:
    """End the process by SIGTERM, and by SIGKILL if it does not end."""
    if not _ends(running, signal.SIGTERM, _TERM_SECONDS):
        kill(running)


def kill(running: BrokerProcess) -> None:
    """End the process by SIGKILL; returns after it has ended."""
    if not _ends(running, signal.SIGKILL, _KILL_SECONDS):
        message = f"process {running.pid} still exists {_KILL_SECONDS:g} s after SIGKILL"
        raise TimeoutError(message)


def _ends(running: BrokerProcess, number: signal.Signals, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    if alive(running):
        with suppress(ProcessLookupError):
            os.kill(running.pid, number)
    while alive(running):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
