"""FTRL-proximal in NumPy as Flink ML's OnlineLogisticRegression computes it, with and without its optimiser state."""

from __future__ import annotations

import numpy as np

from millstream.arrays import Array

__all__ = ["distance", "log_loss", "trained"]


def trained(
    vectors: Array, labels: Array, batch: int, alpha: float, beta: float, *, emptied_at: int | None = None
) -> Array:
    """The coefficients after all full mini-batches, without l1 and l2.

    At the record `emptied_at`, z and the squared gradients n start over from 0, and the coefficients stay.

    >>> trained(np.array([[1.0], [1.0]]), np.array([1, 1]), 1, 0.1, 0.1).round(4).tolist()
    [0.1438]
    """
    weights, z, n = np.zeros((3, vectors.shape[1]))
    for start in range(0, len(vectors) - batch + 1, batch):
        if start == emptied_at:
            z, n = np.zeros((2, vectors.shape[1]))
        here, right = vectors[start : start + batch], labels[start : start + batch]
        gradient = here.T @ (1 / (1 + np.exp(-here @ weights)) - right) / batch
        squared = n + gradient**2
        z = z + gradient - (np.sqrt(squared) - np.sqrt(n)) / alpha * weights
        n = squared
        weights = -z * alpha / (beta + np.sqrt(n))
    return np.asarray(weights)


def distance(one: Array, other: Array) -> float:
    """The relative L2 distance of coefficients to those of another model.

    >>> distance(np.array([3.0, 5.0]), np.array([3.0, 4.0]))
    0.2
    """
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


def log_loss(weights: Array, vectors: Array, labels: Array) -> float:
    """The mean of -log p(label), p by the logistic function.

    >>> round(log_loss(np.zeros(2), np.ones((4, 2)), np.array([0, 1, 1, 0])), 4)
    0.6931
    """
    margins = vectors @ weights
    return float(np.mean(np.logaddexp(0, margins) - labels * margins))
