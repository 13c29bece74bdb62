"""The death of a run: every process that it started, then itself."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

__all__ = ["descendants", "kill_descendants", "kill_family"]


def descendants(root: int) -> list[int]:
    """The processes that `root` started, and those that they started, found through /proc."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                # the command's name stands in brackets and may hold anything: read behind the last one
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    found, frontier = [], [root]
    while frontier:
        frontier = [pid for pid, parent in parents.items() if parent in frontier]
        found += frontier
    return found


def kill_family() -> None:
    """SIGKILL for all that this process started, found by descent, and then for itself; never for its caller."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # threads that lose their partners have nothing to tell
    kill_descendants()
    os.kill(os.getpid(), signal.SIGKILL)


def kill_descendants() -> None:
    """SIGKILL for all that this process started, found by descent."""
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
