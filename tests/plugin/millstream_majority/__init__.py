"""The least that a classifier can do, as a plug-in: it predicts the label that was most common so far."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel

from millstream.steps.contracts import Array, State

__all__ = ["Majority"]


class Majority(BaseModel):
    """Predicts the most common label, whatever the text.

    >>> model = Majority().build(pa.schema([("text", pa.string())]))
    >>> rows = model.prepare(pa.array(["a", "b", "c"]))
    >>> model.learn(rows, np.array([0, 1, 1]), classes=2)
    >>> model.predict(rows[:1])[0].tolist()
    [1]
    """

    reads: ClassVar[str] = "text"
    type: Literal["majority"] = "majority"
    block: int = 32

    def build(self, records: pa.Schema) -> _Majority:
        return _Majority()


class _Majority:
    reads = Majority.reads

    def __init__(self) -> None:
        self._counts: Array = np.zeros(0, np.int64)

    def prepare(self, column: pa.Array) -> Any:
        return np.zeros(len(column))

    def predict(self, inputs: Any) -> tuple[Array, Array]:
        best = int(self._counts.argmax())
        share = float(self._counts[best] / self._counts.sum())
        return np.full(len(inputs), best, np.int64), np.full(len(inputs), share)

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        counts = np.bincount(labels, minlength=classes)
        counts[: len(self._counts)] += self._counts
        self._counts = counts

    def save(self) -> State:
        return {"counts": self._counts.copy()}

    def restore(self, state: State) -> None:
        self._counts = np.array(state.get("counts", np.zeros(0)), np.int64)
