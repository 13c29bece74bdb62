"""What two guesses that read nothing come to, counted: they show what an accuracy is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

__all__ = ["Baselines"]


@dataclass(frozen=True)
class Baselines:
    """How many labelled records would have been right with the label before, and with the most common one so far.

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
        """By name, as they are written down."""
        return asdict(self)

    def shares(self, labelled: int) -> Mapping[str, float] | None:
        """By name, the accuracy that each would have had; None without labels."""
        return {name: count / labelled for name, count in self.counts().items()} if labelled else None
