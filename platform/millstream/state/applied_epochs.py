"""The epochs in a state, with repeats: a part of every checkpoint, which `audit` reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["AppliedEpochs"]


@dataclass
class AppliedEpochs:
    """A multiset of epochs, as ranges [from, to) and repeats.

    >>> applied = AppliedEpochs()
    >>> for epoch in (0, 1, 2, 1, 5):
    ...     applied.add(epoch)
    >>> applied.ranges, applied.repeats
    ([[0, 3], [5, 6]], {1: 1})
    """

    ranges: list[list[int]] = field(default_factory=list)
    repeats: dict[int, int] = field(default_factory=dict)

    def add(self, epoch: int) -> None:
        if self.ranges and self.ranges[-1][1] == epoch:
            self.ranges[-1][1] += 1
        elif not self.ranges or epoch > self.ranges[-1][1]:
            self.ranges.append([epoch, epoch + 1])
        elif any(start <= epoch < stop for start, stop in self.ranges):
            self.repeats[epoch] = self.repeats.get(epoch, 0) + 1
        else:
            self._insert(epoch)

    def _insert(self, epoch: int) -> None:
        spans = sorted([*self.ranges, [epoch, epoch + 1]])
        merged = [spans[0]]
        for start, stop in spans[1:]:
            if start == merged[-1][1]:
                merged[-1][1] = stop
            else:
                merged.append([start, stop])
        self.ranges = merged

    def drop_before(self, epoch: int) -> None:
        """Forget the epochs before `epoch`.

        >>> applied = AppliedEpochs([[0, 3], [5, 9]], {1: 1, 7: 2})
        >>> applied.drop_before(6)
        >>> applied
        AppliedEpochs(ranges=[[6, 9]], repeats={7: 2})
        """
        self.ranges = [[max(start, epoch), stop] for start, stop in self.ranges if stop > epoch]
        self.repeats = {number: times for number, times in self.repeats.items() if number >= epoch}

    def copy(self) -> AppliedEpochs:
        return AppliedEpochs([list(span) for span in self.ranges], dict(self.repeats))

    @property
    def last(self) -> int:
        """The highest epoch; -1 if there is none."""
        return self.ranges[-1][1] - 1 if self.ranges else -1

    def twice(self) -> frozenset[int]:
        """The epochs that were applied more than once."""
        return frozenset(self.repeats)

    def lost(self, epochs: Iterable[int]) -> frozenset[int]:
        """The members of `epochs` that were never applied."""
        return frozenset(e for e in epochs if not any(start <= e < stop for start, stop in self.ranges))

    def line(self) -> dict[str, Any]:
        return {"ranges": self.ranges, "repeats": {str(epoch): times for epoch, times in self.repeats.items()}}

    @staticmethod
    def from_line(line: Mapping[str, Any]) -> AppliedEpochs:
        return AppliedEpochs([list(span) for span in line["ranges"]], {int(e): t for e, t in line["repeats"].items()})
