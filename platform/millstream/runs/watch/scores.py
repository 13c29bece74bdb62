"""Scores: how many records were predicted right, by the model and by the baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millstream.log.epochs import Baselines, Note

__all__ = ["WINDOW", "Scores"]

WINDOW = 1000
"""The least records over which an accuracy that is not of the whole run is computed; it is over whole epochs."""


@dataclass(frozen=True)
class Scores:
    """The scores of some records; an accuracy is None without labels.

    >>> (Scores(10, 6, 8, Baselines(2, 4)) - Scores(2, 2, 2, Baselines(1, 1))).accuracy
    0.6666666666666666
    """

    records: int = 0
    correct: int = 0
    labelled: int = 0
    baselines: Baselines = field(default_factory=Baselines)

    @staticmethod
    def of(note: Note) -> Scores:
        """The scores of an epoch."""
        return Scores(note.records, note.correct, note.labelled, note.baselines)

    def __add__(self, other: Scores) -> Scores:
        return Scores(
            self.records + other.records,
            self.correct + other.correct,
            self.labelled + other.labelled,
            self.baselines + other.baselines,
        )

    def __sub__(self, other: Scores) -> Scores:
        return Scores(
            self.records - other.records,
            self.correct - other.correct,
            self.labelled - other.labelled,
            self.baselines - other.baselines,
        )

    @property
    def accuracy(self) -> float | None:
        return self.correct / self.labelled if self.labelled else None

    @property
    def baseline_accuracies(self) -> Mapping[str, float] | None:
        return self.baselines.shares(self.labelled)
