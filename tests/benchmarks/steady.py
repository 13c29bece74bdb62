"""How fast records flow once they flow: start-up, and what comes after the last epoch, are left out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from millstream.log.epochs import Totals
from millstream.runs.observer import Observer
from millstream.steps.processor import EpochResult

__all__ = ["Mark", "Rate", "Steady", "steady_rate"]


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
    """From the first mark to the last.

    >>> steady_rate([Mark(7.0, 200), Mark(8.0, 300), Mark(9.0, 600)])
    Rate(per_second=200.0, seconds=2.0, records=400)
    """
    if len(marks) < 2:
        raise ValueError("all epochs were through at once: there is no rate in that")
    seconds, records = marks[-1].at - marks[0].at, marks[-1].records - marks[0].records
    return Rate(records / seconds, seconds, records)


@dataclass
class Steady(Observer):
    """Watches a run of Millstream. The epochs of one micro-batch are delivered together, so they make one mark.

    All of them have been noted by the time that the first of them is through: that is how they are told.
    """

    totals: Totals
    marks: list[Mark] = field(default_factory=list)
    correct: int = 0

    def finished_epoch(self, result: EpochResult) -> None:
        if self.marks and self.marks[-1].records == self.totals.processed:
            self.marks.pop()
        self.marks.append(Mark(time.monotonic(), self.totals.processed))
        self.correct += result.note.correct
