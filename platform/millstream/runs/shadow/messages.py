"""The messages between a run and the process in which a version catches up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Finish", "Progress", "Refused"]


@dataclass(frozen=True)
class Finish:
    """Learn up to this epoch, the last one cut, and store the state below `models`."""

    epoch: int
    models: Path


@dataclass(frozen=True)
class Progress:
    """The last epoch learned, the number of records, and the offsets until the run has reached the version.

    `close`: true if the version would need a few milliseconds to be at the position of the run.
    """

    epoch: int
    records: int
    ahead: int
    close: bool


@dataclass(frozen=True)
class Refused:
    """The version cannot enter; with `again`, a later attempt may succeed."""

    reason: str
    again: bool
