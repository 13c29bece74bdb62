"""Processes of this machine, read from /proc."""

from __future__ import annotations

from pathlib import Path

__all__ = ["command_line", "is_alive", "parent"]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def command_line(pid: int) -> str:
    """The command line of a process; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def parent(pid: int) -> int:
    """The parent of a process; 0 if the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
