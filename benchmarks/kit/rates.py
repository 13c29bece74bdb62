"""Steady rates: records per second without the start, and without anything after the last epoch."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from millstream.log.epochs import Totals
from millstream.runs.watch.observer import Observer
from millstream.steps.processor import EpochResult

__all__ = ["Rate", "RateObserver", "Samples", "since"]


@dataclass(frozen=True)
class Rate:
    """Records per second; the number of all records, and of those predicted right."""

    per_second: float
    records: int
    correct: int = 0


@dataclass
class Samples:
    """The number of finished records, moment by moment.

    >>> samples = Samples([(7.0, 200), (8.0, 300), (9.0, 600)])
    >>> samples.rate(correct=500)
    Rate(per_second=200.0, records=600, correct=500)
    """

    taken: list[tuple[float, int]] = field(default_factory=list)

    @property
    def records(self) -> int:
        return self.taken[-1][1] if self.taken else 0

    def add(self, records: int) -> None:
        """So many more records are finished now."""
        self.taken.append((time.monotonic(), self.records + records))

    def rate(self, correct: int = 0) -> Rate:
        """The rate from the first sample to the last."""
        if len(self.taken) < 2:
            raise ValueError("there is one sample at most, which gives no rate")
        (began, before), (ended, records) = self.taken[0], self.taken[-1]
        return Rate((records - before) / (ended - began), records, correct)


def since(began: float, records: int, correct: int = 0) -> Rate:
    """The rate from a moment of `time.perf_counter` until now."""
    return Rate(records / (time.perf_counter() - began), records, correct)


@dataclass
class RateObserver(Observer):
    """Samples a run of Millstream. The epochs of one micro-batch are delivered together and give one sample.

    All their receipts are written before the first epoch is finished, so the totals have the whole group.
    """

    totals: Totals
    samples: Samples = field(default_factory=Samples)
    correct: int = 0

    def finished_epoch(self, result: EpochResult) -> None:
        if self.samples.taken and self.samples.records == self.totals.processed:
            self.samples.taken.pop()
        self.samples.add(self.totals.processed - self.samples.records)
        self.correct += result.receipt.overall.correct
