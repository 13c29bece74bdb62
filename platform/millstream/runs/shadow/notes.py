"""shadow.json in the run directory: the last change of each step's model, and the progress of its next version.

A change is noted, durably, before the epoch with its events is cut. It counts if the epoch log has that epoch with the
change: so no change is made twice, and the alias of a change is moved after any crash.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from millstream.log.journal.durability import write_whole

__all__ = ["Change", "NextVersion", "ShadowNotes", "StepNotes", "read_notes"]


@dataclass(frozen=True)
class Change:
    """The model of a step becomes `version` with the epoch `epoch`.

    `promotion` is the time of the promotion that asked for it. Without one, a rule decided: then `alias` is to name the
    version, as long as it still names `before`. `settled`: the alias needs nothing more.
    """

    epoch: int
    version: str
    promotion: int | None = None
    alias: str | None = None
    before: str | None = None
    settled: bool = True


@dataclass(frozen=True)
class NextVersion:
    """The next version of a shadow: its address, what it is doing, and the records that it has learned so far.

    `reason` says why it was refused, or why it has to wait. `ahead` are the offsets until the run has reached it.
    """

    version: str
    state: str
    reason: str | None = None
    records: int = 0
    ahead: int = 0


@dataclass(frozen=True)
class StepNotes:
    """The notes of one step.

    `followed` is the time of the last promotion that changed its model, apart from that of `change`. `seen` is the
    version that the alias named when the registry was last asked.
    """

    change: Change | None = None
    followed: int = 0
    seen: str | None = None
    next: NextVersion | None = None


@dataclass
class ShadowNotes:
    """The notes of all steps, in a file; any thread may read and change them."""

    path: Path
    _steps: dict[str, StepNotes] = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._steps = dict(read_notes(self.path))

    def __getitem__(self, step: str) -> StepNotes:
        with self._lock:
            return self._steps.get(step, StepNotes())

    def note(self, step: str, **changes: Any) -> None:
        """Change the notes of a step; they are durable on return."""
        with self._lock:
            before = self._steps.get(step, StepNotes())
            after = replace(before, **changes)
            if after == before:
                return
            self._steps[step] = after
            write_whole(self.path, json.dumps({name: asdict(each) for name, each in self._steps.items()}, indent=1))


def read_notes(path: Path) -> Mapping[str, StepNotes]:
    """The notes by step; none without a file."""
    if not path.exists():
        return {}
    return {
        step: StepNotes(
            Change(**each["change"]) if each["change"] else None,
            each["followed"],
            each["seen"],
            NextVersion(**each["next"]) if each["next"] else None,
        )
        for step, each in json.loads(path.read_bytes()).items()
    }
