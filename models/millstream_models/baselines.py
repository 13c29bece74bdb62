"""Models that do not read the text: a real model has to be more accurate than these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.steps.baselines import add_labels, labels_before, leaders
from millstream.steps.contracts import Array, State

__all__ = ["Majority", "NoChange"]


class _BaselineConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    reads: ClassVar[str] = "text"
    batch_size: int = Field(
        default=1,
        ge=1,
        description="The model learns from this many records at a time.",
        json_schema_extra={"keeps_state": True},
    )


class NoChange(_BaselineConfig):
    """Predicts the label before, whatever the text; as probable as labels have stayed the same so far.

    If labels come in runs, few models are more accurate, and a high accuracy does not show that texts were learned.

    >>> model = NoChange().build(pa.schema([("text", pa.string())]))
    >>> rows = model.prepare(pa.array(["a", "b", "c", "d"]))
    >>> classes, probability = model.predict_then_learn(rows, np.array([0, 1, 1, -1]), known=0)
    >>> classes.tolist(), probability.round(2).tolist()
    ([-1, 0, 1, 1], [0.0, 1.0, 0.5, 0.67])
    """

    type: Literal["no_change"] = "no_change"

    def build(self, records: pa.Schema) -> _NoChange:
        return _NoChange()


class Majority(_BaselineConfig):
    """Predicts the most common label so far, whatever the text; as probable as it is common.

    >>> model = Majority().build(pa.schema([("text", pa.string())]))
    >>> rows = model.prepare(pa.array(["a", "b", "c", "d"]))
    >>> classes, probability = model.predict_then_learn(rows, np.array([0, 1, 1, -1]), known=0)
    >>> classes.tolist(), probability.round(2).tolist()
    ([-1, 0, 0, 1], [0.0, 1.0, 0.5, 0.67])
    """

    type: Literal["majority"] = "majority"

    def build(self, records: pa.Schema) -> _Majority:
        return _Majority()


class _Baseline(ABC):
    """A model of the labels alone: it prepares no columns, and predicts a record as if its label were missing."""

    reads = _BaselineConfig.reads

    def prepare(self, column: pa.Array) -> Any:
        return np.empty((len(column), 0))

    def predict(self, inputs: Array) -> tuple[Array, Array]:
        return self.predict_then_learn(inputs, np.full(len(inputs), -1, np.int64), known=0)

    @abstractmethod
    def predict_then_learn(self, inputs: Array, labels: Array, known: int) -> tuple[Array, Array]:
        """Predict the class and probability of each row in turn, then learn its label."""


class _NoChange(_Baseline):
    """The last label, and the number of labels that were equal to the one before; the first label counts as equal."""

    def __init__(self) -> None:
        self._last: int
        self._stayed: int
        self._learned: int
        self.restore({})

    def learn(self, inputs: Array, labels: Array, classes: int) -> None:
        self.predict_then_learn(inputs, labels, classes)

    def predict_then_learn(self, inputs: Array, labels: Array, known: int) -> tuple[Array, Array]:
        learned, indices = _present(labels)
        before = labels_before(learned, self._last)
        stayed = self._stayed + _running_count((before[:-1] == learned) | (before[:-1] < 0))
        all_so_far = self._learned + np.arange(len(before))
        self._last, self._stayed, self._learned = int(before[-1]), int(stayed[-1]), int(all_so_far[-1])
        return before[indices], (stayed / np.maximum(all_so_far, 1))[indices]

    def save(self) -> State:
        return {"labels": np.array([self._last, self._stayed, self._learned], np.int64)}

    def restore(self, state: State) -> None:
        self._last, self._stayed, self._learned = np.asarray(state["labels"]).tolist() if state else (-1, 0, 0)


class _Majority(_Baseline):
    """The number of labels of each class."""

    def __init__(self) -> None:
        self._counts: Array
        self.restore({})

    def learn(self, inputs: Array, labels: Array, classes: int) -> None:
        self._counts = add_labels(self._counts, labels)

    def predict_then_learn(self, inputs: Array, labels: Array, known: int) -> tuple[Array, Array]:
        learned, indices = _present(labels)
        leading, counts = leaders(learned, self._counts)
        all_so_far = self._counts.sum() + np.arange(len(counts))
        self._counts = add_labels(self._counts, learned)
        return leading[indices], (counts / np.maximum(all_so_far, 1))[indices]

    def save(self) -> State:
        return {"counts": self._counts.copy()}

    def restore(self, state: State) -> None:
        self._counts = np.array(state.get("counts", np.zeros(0)), np.int64)


def _present(labels: Array) -> tuple[Array, Array]:
    """The labels that are not missing, and for each row the number of such labels before it."""
    there = labels >= 0
    return labels[there], _running_count(there)[:-1]


def _running_count(found: Array) -> Array:
    """The number of true values before each index, and then the number of all true values."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(found)))
