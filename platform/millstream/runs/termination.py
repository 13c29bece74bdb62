"""SIGKILL for a run: for all processes that it started, then for itself."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

__all__ = ["descendants", "kill_descendants", "kill_family"]


def descendants(root: int) -> list[int]:
    """The ids of all processes that `root` started, directly or indirectly, found in /proc."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                # the command's name is in brackets and may have any characters: read after the last bracket
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    found, frontier = [], [root]
    while frontier:
        frontier = [pid for pid, parent in parents.items() if parent in frontier]
        found += frontier
    return found


def kill_family() -> None:
    """Send SIGKILL to all descendants of this process, and then to this process; never to its parent."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # threads whose processes were killed would print errors
    kill_descendants()
    os.kill(os.getpid(), signal.SIGKILL)


def kill_descendants() -> None:
    """Send SIGKILL to all descendants of this process, until none is alive."""
    while family := descendants(os.getpid()):
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if all(_is_dead(pid) for pid in family):
            break


def _is_dead(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"
