"""Logistic regression by stochastic gradient descent, with scikit-learn's SGDClassifier."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.steps.contracts import Array, State
from millstream_models.averages import MeanRows
from millstream_models.features import FEATURES, compacted, dimensions_of, to_csr

__all__ = ["SGD"]

_FEWEST = 3  # rows of weights: with two classes, scikit-learn would keep a single row


class SGD(BaseModel):
    """Logistic regression, one class against the rest, that goes on learning at a slowly falling rate.

    The step that record `t` makes is `learning_rate / t ** decay`. Rows are scaled to length 1, so that a long text
    weighs as much as a short one.

    >>> from millstream_models.features import features_field
    >>> field = features_field(3)
    >>> model = SGD().build(pa.schema([field]))
    >>> one = lambda index: [{"index": index, "count": 1.0}]
    >>> rows = model.prepare(pa.array([one(0), one(2)], field.type))
    >>> model.learn(rows, np.array([0, 1]), classes=2)
    >>> model.predict(rows)[0].tolist()
    [0, 1]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    extra: ClassVar[str] = "sklearn"
    type: Literal["sgd"] = "sgd"
    batch_size: int = Field(
        default=256,
        ge=1,
        description="The model learns from this many records at a time.",
        json_schema_extra={"keeps_state": True},
    )
    learning_rate: float = Field(
        default=40.0, gt=0, description="The length of the first step.", json_schema_extra={"keeps_state": True}
    )
    decay: float = Field(
        default=0.3,
        ge=0,
        lt=1,
        description="How fast steps shorten; 0 keeps them as they are.",
        json_schema_extra={"keeps_state": True},
    )
    alpha: float = Field(
        default=0.0,
        ge=0,
        description="How strongly all weights are pulled towards 0 (l2).",
        json_schema_extra={"keeps_state": True},
    )

    def build(self, records: pa.Schema) -> _SGD:
        return _SGD(dimensions_of(records), self.learning_rate, self.decay, self.alpha)


class _SGD:
    """One row of weights for each class, and one for all classes that have not been seen yet.

    For a class that has not been seen, every record so far belongs to the rest. The last row has learned from all
    records in this way. A new class starts with a copy of the last row, so its weights are the same as if the class had
    been known from the start.
    """

    reads = FEATURES

    def __init__(self, dimensions: int, learning_rate: float, decay: float, alpha: float) -> None:
        self._dimensions = dimensions
        self._options = {"alpha": alpha, "learning_rate": "invscaling", "eta0": learning_rate, "power_t": decay}
        self.restore({})

    def prepare(self, column: pa.Array) -> Any:
        from sklearn.preprocessing import normalize

        rows = to_csr(column, self._dimensions)
        return normalize(rows, copy=False) if rows.shape[0] else rows

    def predict(self, inputs: Any) -> tuple[Array, Array]:
        margins, chances = self._scores(inputs)
        best = margins.argmax(axis=1)
        return best, chances[np.arange(len(best)), best] / chances.sum(axis=1)

    def chances(self, inputs: Any) -> Array:
        _, chances = self._scores(inputs)
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def _scores(self, inputs: Any) -> tuple[Array, Array]:
        """The margin of each row and class, and the probability of each class against the rest."""
        dimensions, rows = compacted(inputs)
        margins = rows @ self._sgd.coef_[: self._classes, dimensions].T + self._sgd.intercept_[: self._classes]
        return margins, 1 / (1 + np.exp(np.minimum(-margins, 700)))

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        self._make_room(classes)
        if len(labels):
            order = _shuffled(len(labels))
            self._sgd.partial_fit(inputs[order], labels[order])

    def average(self, replicas: Iterable[tuple[State, int]], classes: int) -> None:
        self._make_room(classes)
        before = steps = self._sgd.t_
        averages = MeanRows(self._table(), added=0)
        replica = copy.copy(self)
        for state, records in replicas:
            replica.restore(state)
            replica._make_room(classes)
            averages.add(replica._table(), records)
            steps += replica._sgd.t_ - before
        table = averages.average()
        self._sgd.coef_, self._sgd.intercept_ = np.ascontiguousarray(table[:-1].T), table[-1].copy()
        self._sgd.t_ = steps

    def _make_room(self, classes: int) -> None:
        """Give new classes the weights that they would have if they had been known from the start."""
        new = max(classes + 1, _FEWEST) - len(self._sgd.classes_)
        if new > 0:
            self._sgd.coef_ = np.vstack([self._sgd.coef_, *[self._sgd.coef_[-1:]] * new])
            self._sgd.intercept_ = np.pad(self._sgd.intercept_, (0, new), mode="edge")
            self._sgd.classes_ = np.arange(len(self._sgd.intercept_))
        self._classes = classes

    def _table(self) -> Array:
        """The weights of all classes by dimension, and the intercepts in the last row."""
        return np.vstack([self._sgd.coef_.T, self._sgd.intercept_])

    def without_optimiser(self, state: State) -> State | None:
        """Return a state with the same weights, whose steps start over; None if steps do not become shorter."""
        if self._options["power_t"] == 0:
            return None
        return {**state, "progress": np.array([self._classes, 1.0])}

    def save(self) -> State:
        return {
            "weights": self._sgd.coef_.copy(),
            "intercepts": self._sgd.intercept_.copy(),
            "progress": np.array([self._classes, self._sgd.t_], np.float64),
        }

    def restore(self, state: State) -> None:
        from sklearn.linear_model import SGDClassifier

        self._sgd: Any = SGDClassifier(loss="log_loss", shuffle=False, random_state=0, **self._options)
        self._sgd.n_features_in_ = self._dimensions
        self._sgd.coef_ = np.array(state.get("weights", np.zeros((_FEWEST, self._dimensions))), order="C")
        self._sgd.intercept_ = np.array(state.get("intercepts", np.zeros(_FEWEST)))
        self._sgd.classes_ = np.arange(len(self._sgd.intercept_))
        classes, self._sgd.t_ = np.asarray(state.get("progress", [0, 1.0])).tolist()
        self._classes = int(classes)


@functools.lru_cache(maxsize=16)
def _shuffled(size: int) -> Array:
    """The order in which a mini-batch of this size is learned: always the same, but not the order of the log.

    Many logs have runs of records with the same label, and after a run the model predicts only that label.
    """
    return np.random.RandomState(size).permutation(size)
