"""How fast records flow once they flow: start-up, and what comes after the last epoch, are left out."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from millstream.runs.summary import Summary
from millstream.steps.processing import Processed

__all__ = ["Mark", "Rate", "Steady", "steady_rate"]

_AT_ONCE = 0.002
"""Marks that are not further apart are of epochs that were delivered together."""


@dataclass(frozen=True)
class Mark:
    """So many records were through at this moment."""

    at: float
    records: int


@dataclass(frozen=True)
class Rate:
    """Records a second, and how long and over how many records that was measured."""

    per_second: float
    seconds: float
    records: int


def steady_rate(marks: Sequence[Mark]) -> Rate:
    """From the moment the first epochs are through (all that came with them) to the last.

    >>> steady_rate([Mark(7.0, 100), Mark(7.001, 200), Mark(8.0, 300), Mark(9.0, 600)]).records
    400
    """
    first = next((a for a, b in itertools.pairwise(marks) if b.at - a.at > _AT_ONCE), None)
    if first is None:
        raise ValueError("all epochs were through at once: there is no rate in that")
    seconds, records = marks[-1].at - first.at, marks[-1].records - first.records
    return Rate(records / seconds, seconds, records)


@dataclass
class Steady:
    """Watches a run of Millstream."""

    marks: list[Mark] = field(default_factory=list)
    correct: int = 0

    def began(self, first: int) -> None:
        pass

    def through(self, processed: Processed) -> None:
        before = self.marks[-1].records if self.marks else 0
        self.marks.append(Mark(time.monotonic(), before + processed.note.records))
        self.correct += processed.note.correct

    def finished(self, summary: Summary) -> None:
        pass

    def close(self) -> None:
        pass
