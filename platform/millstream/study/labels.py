"""A sequence of labels: the shares of its labels, and their burstiness `deff`, measured by counting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from millstream.arrays import Array

__all__ = ["Labels"]


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of records in the order of the stream: `codes[i]` is the index in `names` of the i-th label.

    >>> labels = Labels.of(["sport", "sport", "travel", "sport"])
    >>> labels.names, labels.shares.tolist()
    (('sport', 'travel'), [0.75, 0.25])
    """

    names: tuple[str, ...]
    codes: Array

    def __post_init__(self) -> None:
        if not len(self.codes):
            message = "a sequence of labels needs at least one label"
            raise ValueError(message)

    @staticmethod
    def of(labels: Iterable[str]) -> Labels:
        """Return the labels with their names in alphabetical order."""
        names, codes = np.unique(np.asarray(list(labels), dtype=object), return_inverse=True)
        return Labels(tuple(names.tolist()), codes.astype(np.int64))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def shares(self) -> Array:
        """The share of each label."""
        counted: Array = np.bincount(self.codes, minlength=len(self.names)) / len(self)
        return counted

    def deff(self, span: int) -> Array:
        """Return the burstiness of each label at spans of this many records.

        `deff` is the design effect of survey statistics: the mean squared error of a label's count in a span of the
        stream, over that of as many records drawn at random without repeats. It is about 1 if the order of the labels
        is random, and large if a label comes in bursts. Every span of the sequence counts.

        >>> Labels.of("ab" * 50).deff(10).tolist()
        [0.0, 0.0]
        >>> Labels.of("a" * 50 + "b" * 50).deff(10).round(1).tolist()
        [10.2, 10.2]
        """
        records, shares = len(self), self.shares
        if not 0 < span < records:
            message = f"deff needs a span of 1 to {records - 1} of these {records} records, not {span}"
            raise ValueError(message)
        random = shares * (1 - shares) * span * (records - span) / (records - 1)
        found = np.zeros(len(shares))
        for label, share in enumerate(shares):
            if random[label] > 0:
                found[label] = np.mean((self._counts(label, span) - span * share) ** 2) / random[label]
        return found

    def burstiness(self, span: int) -> float:
        """Return the burstiness of all labels together: the mean of `deff`, weighted by their variances p (1 - p).

        >>> labels = Labels.of("a" * 50 + "b" * 30 + "c" * 20)
        >>> labels.deff(10).round(1).tolist(), round(labels.burstiness(10), 2)
        ([10.2, 9.7, 8.5], 9.61)
        """
        weights = self.shares * (1 - self.shares)
        return float(np.sum(weights * self.deff(span)) / weights.sum()) if weights.any() else 1.0

    def _counts(self, label: int, span: int) -> Array:
        """The count of a label in every span of this length."""
        total = np.concatenate([[0], np.cumsum(self.codes == label)])
        counts: Array = total[span:] - total[:-span]
        return counts
