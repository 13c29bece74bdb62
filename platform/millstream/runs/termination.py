"""SIGKILL for a run: for all processes that it started, then for itself."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["descendants", "kill_descendants", "kill_family"]

_PROCESSES = Path("/proc")


@dataclass(frozen=True)
class _Process:
    number: int
    parent: int
    dead: bool


def descendants(root: int) -> list[int]:
    """The ids of all processes that `root` started, directly or indirectly."""
    return [process.number for process in _family(root)]


def _family(root: int) -> list[_Process]:
    everything = list(_processes())
    found: list[_Process] = []
    frontier = {root}
    while frontier:
        children = [process for process in everything if process.parent in frontier]
        found += children
        frontier = {process.number for process in children}
    return found


def _processes() -> Iterator[_Process]:
    """All processes of this machine: from /proc, or from `ps` on systems without /proc."""
    try:
        entries = [entry for entry in _PROCESSES.iterdir() if entry.name.isdecimal()]
    except OSError:
        entries = []
    if not entries:
        yield from _listed_processes()
    for entry in entries:
        with suppress(OSError):
            # the command's name is in brackets and may have any characters: read after the last bracket
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            yield _Process(int(entry.name), int(fields[1]), fields[0] in "ZX")


def _listed_processes() -> Iterator[_Process]:
    command = ["ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "stat="]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listing:
        text = listing.communicate()[0]
    for line in text.splitlines():
        number, parent, state = line.split()[:3]
        if int(number) != listing.pid:
            yield _Process(int(number), int(parent), state[0] in "ZX")


def kill_family() -> None:
    """Send SIGKILL to all descendants of this process, and then to this process; never to its parent."""
    try:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # threads whose processes were killed would print errors
        kill_descendants()
    finally:  # without /proc and `ps`, no descendant is found
        os.kill(os.getpid(), signal.SIGKILL)


def kill_descendants() -> None:
    """Send SIGKILL to all descendants of this process, until none is alive."""
    while family := [process.number for process in _family(os.getpid()) if not process.dead]:
        for number in family:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
