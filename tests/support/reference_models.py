"""The formulas of the compiled models in numpy with float64, one record at a time and without optimizations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from millstream.arrays import Array
from millstream_models.features import Counted

__all__ = ["FTRLReference", "NaiveBayesReference", "SoftmaxReference", "play"]


def play(model: Any, rows: Counted, labels: Array) -> tuple[Array, Array]:
    """The class and probability that the model predicts for each row before it learns the row; -1 without classes."""
    answers, chances = [], []
    for row, label in enumerate(labels.tolist()):
        some = slice(int(rows.indptr[row]), int(rows.indptr[row + 1]))
        indices, counts = rows.indices[some], rows.data[some].astype(np.float64)
        scores = model.scores(indices, counts) if model.known else np.zeros(0)
        answers.append(int(np.argmax(scores)) if model.known else -1)
        chances.append(1 / np.exp(scores - scores.max()).sum() if model.known else 0.0)
        if label >= 0:
            model.known = max(model.known, label + 1)
            model.learn(indices, counts, label)
    return np.array(answers), np.array(chances)


class NaiveBayesReference:
    def __init__(self, dimensions: int, classes: int, alpha: float, complement: bool, half_life: float | None) -> None:
        self.known = 0
        self.table = np.zeros((dimensions, classes))
        self.records = np.zeros(classes)
        self.alpha, self.complement = alpha, complement
        self.keeps = 1.0 if half_life is None else 0.5 ** (1 / half_life)

    def scores(self, indices: Array, counts: Array) -> Array:
        table, records = self.table[:, : self.known], self.records[: self.known]
        if self.complement:
            table = self.table.sum(axis=1, keepdims=True) - table
        seen = max(1, int(np.count_nonzero(self.table.any(axis=1))))
        chances = (table[indices] + self.alpha) / (table.sum(axis=0) + self.alpha * seen)
        if self.complement:
            return np.asarray(-(counts @ np.log(chances)))
        return np.asarray(counts @ np.log(chances) + np.log(records / records.sum()))

    def learn(self, indices: Array, counts: Array, label: int) -> None:
        self.table[indices, label] += counts
        self.records[label] += 1
        self.table *= self.keeps
        self.records *= self.keeps


class _Linear(ABC):
    """The weights have one row more than there are dimensions: the bias, which all records have."""

    def __init__(self, dimensions: int, classes: int) -> None:
        self.known = 0
        self.bias = dimensions
        self.learned = 0

    def _values(self, indices: Array, counts: Array) -> tuple[Array, Array]:
        length = np.sqrt(np.sum(counts**2)) if len(counts) else 1.0
        return np.append(indices, self.bias), np.append(counts / length, 1.0)

    @abstractmethod
    def weights(self, rows: Array) -> Array: ...

    def scores(self, indices: Array, counts: Array) -> Array:
        rows, values = self._values(indices, counts)
        margins: Array = values @ self.weights(rows)
        return margins[: self.known]

    def gradients(self, indices: Array, counts: Array, label: int) -> tuple[Array, Array]:
        rows, values = self._values(indices, counts)
        margins = self.scores(indices, counts)
        chances = np.exp(margins - margins.max())
        chances /= chances.sum()
        chances[label] -= 1
        return rows, np.outer(values, chances)


class SoftmaxReference(_Linear):
    def __init__(self, dimensions: int, classes: int, rate: str, learning_rate: float) -> None:
        super().__init__(dimensions, classes)
        self.table, self.squares = np.zeros((2, dimensions + 1, classes))
        self.rate, self.learning_rate = rate, learning_rate

    def weights(self, rows: Array) -> Array:
        return self.table[rows]

    def learn(self, indices: Array, counts: Array, label: int) -> None:
        rows, gradients = self.gradients(indices, counts, label)
        known = slice(0, self.known)
        self.learned += 1
        if self.rate == "adaptive":
            self.squares[rows, known] += gradients**2
            self.table[rows, known] -= self.learning_rate * gradients / np.sqrt(self.squares[rows, known] + 1e-12)
        else:
            step = self.learning_rate / (self.learned**0.3 if self.rate == "decaying" else 1.0)
            self.table[rows, known] -= step * gradients


class FTRLReference(_Linear):
    def __init__(self, dimensions: int, classes: int, alpha: float, beta: float, l1: float, l2: float) -> None:
        super().__init__(dimensions, classes)
        self.z, self.n = np.zeros((2, dimensions + 1, classes))
        self.alpha, self.beta, self.l1, self.l2 = alpha, beta, l1, l2

    def weights(self, rows: Array) -> Array:
        z, n = self.z[rows], self.n[rows]
        shrunk = np.sign(z) * np.maximum(np.abs(z) - self.l1, 0)
        weights: Array = -shrunk / ((self.beta + np.sqrt(n)) / self.alpha + self.l2)
        return weights

    def learn(self, indices: Array, counts: Array, label: int) -> None:
        rows, gradients = self.gradients(indices, counts, label)
        known = slice(0, self.known)
        weights = self.weights(rows)[:, known]
        after = self.n[rows, known] + gradients**2
        sigma = (np.sqrt(after) - np.sqrt(self.n[rows, known])) / self.alpha
        self.z[rows, known] += gradients - sigma * weights
        self.n[rows, known] = after
