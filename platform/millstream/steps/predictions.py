"""Checks of the predictions that a model returns: one class and one probability for each row."""

from __future__ import annotations

import numpy as np

from millstream.errors import StepFailed
from millstream.steps.contracts import Array

__all__ = ["check_predictions", "checked_arrays"]

_CLASSES, _PROBABILITIES = np.dtype(np.int64), np.dtype(np.float64)
_ABOVE_ONE = 1 + 1e-12
"""The highest probability: a sum of rounded numbers may be a little above 1."""


def checked_arrays(model: object, method: str, answer: object, rows: int) -> tuple[Array, Array]:
    """Return the classes and the probabilities of an answer; `StepFailed` if they are not two arrays of this size.

    >>> checked_arrays("a model", "predict", (np.array([0, 1]), np.array([0.5, 1.0])), 2)
    (array([0, 1]), array([0.5, 1. ]))
    >>> checked_arrays("a model", "predict", (np.array([0]), np.array([0.5])), 2)
    Traceback (most recent call last):
    ...
    millstream.errors.StepFailed: the model str: `predict` returns 1 class for 2 rows; return one class for each row
    """
    if type(answer) is tuple and len(answer) == 2:
        classes, probability = answer
        if (  # before the readable checks below, because a run calls this for every mini-batch
            type(classes) is type(probability) is np.ndarray
            and classes.dtype is _CLASSES
            and probability.dtype is _PROBABILITIES
            and classes.shape == probability.shape == (rows,)
        ):
            return answer
    return _converted(model, method, answer, rows)


def check_predictions(model: object, method: str, classes: Array, probability: Array, known: int) -> None:
    """Refuse classes that the model has not learned, and probabilities outside 0 to 1; -1 is a row without a class.

    >>> check_predictions("a model", "predict", np.array([0, 1, -1]), np.array([0.5, 1.0, 0.0]), 2)
    >>> check_predictions("a model", "predict", np.array([0]), np.array([float("nan")]), 2)
    Traceback (most recent call last):
    ...
    millstream.errors.StepFailed: the model str: `predict` returns the probability nan; return numbers from 0 to 1
    """
    if not len(classes):
        return
    least, most = np.minimum.reduce, np.maximum.reduce  # faster than `min` and `max` for few rows
    if not (least(probability) >= 0 and most(probability) <= _ABOVE_ONE):  # false for NaN, too
        wrong = probability[~((probability >= 0) & (probability <= _ABOVE_ONE))][0]
        raise _failure(model, method, f"returns the probability {wrong}; return numbers from 0 to 1")
    if least(classes) < -1 or most(classes) >= known:
        wrong = classes[(classes < -1) | (classes >= known)][0]
        learned = f"the classes 0 to {known - 1}" if known else "no class"
        raise _failure(model, method, f"returns the class {wrong}, and has learned {learned}")


def _converted(model: object, method: str, answer: object, rows: int) -> tuple[Array, Array]:
    """Convert numbers of another size, as int32; refuse everything else that is not as a model returns it."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        found = f"a tuple of {len(answer)} values" if isinstance(answer, tuple) else type(answer).__name__
        raise _failure(model, method, f"returns {found}; return a tuple of two arrays: classes and probabilities")
    classes, probability = answer
    for what, each, values, kinds, wanted in (
        ("classes", "class", classes, "iu", "an array of the numbers of classes (int64)"),
        ("probabilities", "probability", probability, "f", "an array of probabilities (float64)"),
    ):
        if not isinstance(values, np.ndarray) or values.dtype.kind not in kinds:
            found = f"an array {values.dtype}" if isinstance(values, np.ndarray) else type(values).__name__
            raise _failure(model, method, f"returns {found} as {what}; return {wanted}")
        if values.shape != (rows,):
            size = len(values) if values.ndim == 1 else values.shape
            found = f"{size} {each if size == 1 else what}"
            raise _failure(model, method, f"returns {found} for {rows} rows; return one {each} for each row")
    return classes.astype(_CLASSES, copy=False), probability.astype(_PROBABILITIES, copy=False)


def _failure(model: object, method: str, what: str) -> StepFailed:
    return StepFailed(f"the model {type(model).__name__}: `{method}` {what}")
