"""Scores: the number of records that the model and the baselines of a step predicted right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from millstream.log.epochs.baselines import Baselines
from millstream.shadow_names import is_shadow

__all__ = ["Scores"]


@dataclass(frozen=True)
class Scores:
    """The scores of some records; an accuracy is None without labels.

    >>> (Scores(8, 6, Baselines(2, 4)) - Scores(2, 2, Baselines(1, 1))).accuracy
    0.6666666666666666
    """

    labelled: int = 0
    correct: int = 0
    baselines: Baselines = field(default_factory=Baselines)

    def __add__(self, other: Scores) -> Scores:
        return Scores(self.labelled + other.labelled, self.correct + other.correct, self.baselines + other.baselines)

    def __sub__(self, other: Scores) -> Scores:
        return Scores(self.labelled - other.labelled, self.correct - other.correct, self.baselines - other.baselines)

    @property
    def accuracy(self) -> float | None:
        """The share of labelled records that were predicted right."""
        return self.correct / self.labelled if self.labelled else None

    @property
    def baseline_accuracies(self) -> Mapping[str, float] | None:
        """The accuracy of each baseline by name; None without labels."""
        return self.baselines.shares(self.labelled)

    def counts(self) -> dict[str, int]:
        """The counts by name, as a receipt stores them."""
        return {"labelled": self.labelled, "correct": self.correct, **self.baselines.counts()}

    @staticmethod
    def from_counts(counts: Mapping[str, int]) -> Scores:
        return Scores(counts["labelled"], counts["correct"], Baselines(counts["no_change"], counts["majority"]))

    @staticmethod
    def sum(scores: Iterable[Scores]) -> Scores:
        """The scores of several steps together."""
        return sum(scores, Scores())

    @staticmethod
    def of_champions(scores: Mapping[str, Scores]) -> Scores:
        """The scores of several steps together, by name, without those of shadows.

        >>> Scores.of_champions({"label": Scores(4, 3), "label_shadow": Scores(4, 4)}).accuracy
        0.75
        """
        return Scores.sum(each for step, each in scores.items() if not is_shadow(step))
