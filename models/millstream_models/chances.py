"""The probabilities of all classes from their scores, for models that return more than the likeliest class."""

from __future__ import annotations

import numpy as np

from millstream.steps.contracts import Array

__all__ = ["chances_of"]


def chances_of(scores: Array) -> Array:
    """Return the probabilities of the classes of each row from the logarithms of their likelihoods.

    >>> chances_of(np.log([[1.0, 3.0], [2.0, 2.0]])).round(3).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    likelihoods = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances: Array = likelihoods / likelihoods.sum(axis=1, keepdims=True)
    return chances
