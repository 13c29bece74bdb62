"""A small plug-in: a classifier that looks only at the length of a text."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel

from millstream.steps.contracts import Array, State

__all__ = ["Lengths"]


class Lengths(BaseModel):
    """Predicts the label whose texts have the nearest mean length.

    >>> model = Lengths().build(pa.schema([("text", pa.string())]))
    >>> rows = model.prepare(pa.array(["a headline", "an article that goes on", "a headline too"]))
    >>> model.learn(rows[:2], np.array([0, 1]), classes=2)
    >>> model.predict(rows[2:])[0].tolist()
    [0]
    """

    reads: ClassVar[str] = "text"
    type: Literal["lengths"] = "lengths"
    batch_size: int = 32

    def build(self, records: pa.Schema) -> _LengthModel:
        return _LengthModel()


class _LengthModel:
    """The total length and the number of the texts of each class."""

    reads = Lengths.reads

    def __init__(self) -> None:
        self._sums: Array
        self._counts: Array
        self.restore({})

    def prepare(self, column: pa.Array) -> Any:
        return pc.utf8_length(column).to_numpy(zero_copy_only=False)

    def predict(self, inputs: Any) -> tuple[Array, Array]:
        distances = np.abs(inputs[:, None] - self._sums / self._counts)
        return distances.argmin(axis=1), 1 / (1 + distances.min(axis=1))

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        new = (0, classes - len(self._counts))
        self._sums = np.pad(self._sums, new) + np.bincount(labels, inputs, classes)
        self._counts = np.pad(self._counts, new) + np.bincount(labels, minlength=classes)

    def save(self) -> State:
        return {"sums": self._sums.copy(), "counts": self._counts.copy()}

    def restore(self, state: State) -> None:
        self._sums = np.array(state.get("sums", []), np.float64)
        self._counts = np.array(state.get("counts", []), np.int64)
