"""The average of tables of numbers that replicas of a model have changed apart from each other."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from millstream.steps.contracts import Array

__all__ = ["Averages", "MeanRows"]


class Averages(ABC):
    """The rows of a table, each averaged over the replicas that changed it, weighted by the records they learned.

    A row that one replica changed is this replica's, to the bit. Replicas are added in their order, because sums of
    floating-point numbers depend on it.
    """

    def __init__(self, start: Array) -> None:
        self._start, self._average = start, start.copy()
        means, sums = self.split(start[:0])
        self._means: Array = np.zeros((len(start), means.shape[1]))
        self._sums: Array = np.zeros((len(start), sums.shape[1]))
        self._records: Array = np.zeros(len(start))
        self._replicas: Array = np.zeros(len(start), np.int64)

    @abstractmethod
    def split(self, rows: Array) -> tuple[Array, Array]:
        """The numbers of rows of which the mean is taken, and those of which the changes are added, as float64."""

    @abstractmethod
    def join(self, means: Array, sums: Array) -> Array:
        """The rows with these numbers."""

    def add(self, table: Array, records: int) -> None:
        """Add the table of the next replica, which began with the start and has learned so many records."""
        rows = np.flatnonzero((_bits(table) != _bits(self._start)).any(axis=1))
        changed = table[rows]
        first = self._replicas[rows] == 0
        self._average[rows[first]] = changed[first]
        means, sums = self.split(changed)
        self._means[rows] += records * means
        self._sums[rows] += sums - self.split(self._start[rows])[1]
        self._records[rows] += records
        self._replicas[rows] += 1

    @property
    def changed(self) -> Array:
        """The rows that replicas changed."""
        return np.flatnonzero(self._replicas)

    def average(self) -> Array:
        """The average of the replicas so far."""
        rows = np.flatnonzero(self._replicas > 1)
        sums = self.split(self._start[rows])[1] + self._sums[rows]
        average = self._average.copy()
        average[rows] = self.join(self._means[rows] / self._records[rows, np.newaxis], sums)
        return average


class MeanRows(Averages):
    """Rows of which all numbers but those in the last `added` columns are averaged; those are sums.

    >>> averages = MeanRows(np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]]), added=1)
    >>> averages.add(np.array([[4.0, 6.0], [7.0, 9.0], [3.0, 5.0]]), records=1)
    >>> averages.add(np.array([[8.0, 7.0], [2.0, 5.0], [3.0, 5.0]]), records=3)
    >>> averages.average().tolist()
    [[7.0, 8.0], [7.0, 9.0], [3.0, 5.0]]
    """

    def __init__(self, start: Array, added: int) -> None:
        self._added = added
        super().__init__(start)

    def split(self, rows: Array) -> tuple[Array, Array]:
        means, sums = np.hsplit(rows.astype(np.float64), [rows.shape[1] - self._added])
        return means, sums

    def join(self, means: Array, sums: Array) -> Array:
        return np.hstack([means, sums])


def _bits(table: Array) -> Array:
    """The numbers of a table as whole numbers that differ wherever the numbers are not the same to the bit."""
    return table.view(np.dtype(f"u{table.itemsize}"))
