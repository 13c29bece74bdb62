"""The history of all full runs: one JSON line for each, with its figures, its commit and its machine."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["Entry", "Machine", "append", "entry_now", "newest"]


@dataclass(frozen=True)
class Machine:
    """The hardware and the Python of a run; `memory` is in GiB."""

    cpu: str
    cores: int
    memory: int
    python: str

    def same_kind(self, other: Machine) -> bool:
        """Figures of both machines can be compared."""
        return (self.cpu, self.cores, self.memory) == (other.cpu, other.cores, other.memory)

    @staticmethod
    def here() -> Machine:
        info = Path("/proc/cpuinfo")
        model = re.search(r"^model name\s*: (.*)$", info.read_text(), re.M) if info.exists() else None
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        cpu = model[1].strip() if model else platform.machine()
        return Machine(cpu, os.cpu_count() or 1, round(memory), platform.python_version())


@dataclass(frozen=True)
class Entry:
    """One run. `dirty`: the tree had changes that are in no commit."""

    commit: str
    dirty: bool
    date: str
    machine: Machine
    figures: Mapping[str, float]

    def __str__(self) -> str:
        changed = " with changes" if self.dirty else ""
        return f"commit {self.commit}{changed}, {self.date}, Python {self.machine.python}"


def entry_now(root: Path, history: Path, figures: Mapping[str, float]) -> Entry:
    """The entry of a run that ends now in the checkout `root`."""
    commit = _git(root, "rev-parse", "--short=12", "HEAD") or "unknown"
    dirty = bool(_git(root, "status", "--porcelain", "--", ".", f":(exclude){history.relative_to(root)}"))
    return Entry(commit, dirty, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), Machine.here(), figures)


def append(history: Path, entry: Entry) -> None:
    with history.open("a") as file:
        file.write(json.dumps(asdict(entry)) + "\n")


def newest(history: Path, machine: Machine) -> Entry | None:
    """The newest run on a machine of the same kind."""
    return next((entry for entry in reversed(list(_entries(history))) if entry.machine.same_kind(machine)), None)


def _entries(history: Path) -> Iterator[Entry]:
    if history.exists():
        for line in history.read_text().splitlines():
            fields = json.loads(line)
            yield Entry(**{**fields, "machine": Machine(**fields["machine"])})


def _git(root: Path, *arguments: str) -> str:
    """The output of a git command, or nothing if there is no git or no repository."""
    try:
        return subprocess.run(
            ["git", "-C", root, *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
