"""Baselines: two models that read no text, to compare an accuracy with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

__all__ = ["Baselines"]


@dataclass(frozen=True)
class Baselines:
    """Counts of the labelled records that the baselines predicted right.

    `no_change` predicts the label of the record before, `majority` the most frequent label so far.

    >>> Baselines(no_change=1, majority=3).shares(4)
    {'no_change': 0.25, 'majority': 0.75}
    """

    no_change: int = 0
    majority: int = 0

    def __add__(self, other: Baselines) -> Baselines:
        return Baselines(self.no_change + other.no_change, self.majority + other.majority)

    def __sub__(self, other: Baselines) -> Baselines:
        return Baselines(self.no_change - other.no_change, self.majority - other.majority)

    def counts(self) -> dict[str, int]:
        """The counts by name, as a receipt stores them."""
        return asdict(self)

    def shares(self, labelled: int) -> Mapping[str, float] | None:
        """The accuracy of each baseline by name; None without labels."""
        return {name: count / labelled for name, count in self.counts().items()} if labelled else None
