"""Softmax regression that learns record by record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from millstream.compiled.later_imports import import_at_start
from millstream.steps.contracts import Array, State
from millstream_models.averages import MeanRows
from millstream_models.online.learner import Learner, OnlineModel

__all__ = ["Softmax"]


class Softmax(OnlineModel):
    """Logistic regression over all classes at once: weighs words by how well they separate them, and follows drift.

    Texts are scaled to length 1. With the rate `adaptive`, the steps of each weight become shorter as it learns. With
    `decaying`, all steps become shorter with the number of records. With `constant`, all steps have the same length, so
    new records count most.

    >>> from millstream_models.hashed_text import HashedText
    >>> model = Softmax(features=HashedText(dimensions=64)).build(pa.schema([("text", pa.string())]))
    >>> rows = model.prepare(pa.array(["a late goal", "the night train", "the late train"]))
    >>> model.predict_then_learn(rows, np.array([0, 1, -1]), known=0)[0].tolist()
    [-1, 0, 1]
    """

    type: Literal["softmax"] = "softmax"
    rate: Literal["adaptive", "decaying", "constant"] = Field(
        default="adaptive", description="The length of the steps."
    )
    learning_rate: float = Field(
        default=0.5, gt=0, description="The length of the first step.", json_schema_extra={"keeps_state": True}
    )

    def build(self, records: pa.Schema) -> Learner:
        import_at_start("millstream_models.compiled.softmax")
        return _Softmax(self, records)


class _Softmax(Learner):
    more_rows = 1
    remedy = "lower its `learning_rate`"

    def __init__(self, config: Softmax, records: pa.Schema) -> None:
        self._config = config
        self.parts = 2 if config.rate == "adaptive" else 1
        super().__init__(config, records)

    def average(self, replicas: Iterable[tuple[State, int]], classes: int) -> None:
        self.make_room(classes)
        squares = self.width if self._config.rate == "adaptive" else 0
        self.take_average(MeanRows(self.table, added=squares), replicas)
        self.known = max(self.known, classes)

    def numbers(self) -> State:
        return {"learned": self._learned.copy()}

    def begin(self, state: State) -> None:
        self._learned: Array = np.array(state.get("learned", [0.0]))

    def grow(self, width: int) -> None:
        pass

    def fill_chances(self, inputs: tuple[Array, Array, Array], found: Array) -> None:
        from millstream_models.compiled.softmax import softmax_chances

        softmax_chances(*inputs, self.table, self.width, found)

    def without_optimiser(self, state: State) -> State | None:
        """Return a state with the same weights, whose steps start over; None with a constant rate."""
        if self._config.rate == "constant":
            return None
        if self._config.rate == "decaying":
            return {**state, "learned": np.zeros(1)}
        table = np.array(state["table"])
        table[:, table.shape[1] // self.parts :] = 0  # the sums of squares
        return {**state, "table": table}

    def take(
        self, inputs: tuple[Array, Array, Array], labels: Array, *, predict: bool, best: Array, probability: Array
    ) -> None:
        from millstream_models.compiled.softmax import ADAPTIVE, CONSTANT, DECAYING, take_softmax

        take_softmax(
            *inputs,
            labels,
            self.known,
            self.table,
            self.dirty,
            self.width,
            self._learned,
            self._config.learning_rate,
            {"adaptive": ADAPTIVE, "decaying": DECAYING, "constant": CONSTANT}[self._config.rate],
            predict,
            best,
            probability,
        )
