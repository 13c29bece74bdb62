"""A model that fails after so many records, for searches in which a candidate fails."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from support.plugin_classes import LengthModel, Means

from millstream.plugin import Array

__all__ = ["FailingModel"]


class FailingModel(LengthModel):
    """Predicts like `LengthModel`, and raises when it has learned more than `most` records; `null`: never."""

    most: int | None = None

    def build(self, records: pa.Schema) -> FailingMeans:
        return FailingMeans(self.power, self.most)


class FailingMeans(Means):
    def __init__(self, power: float, most: int | None) -> None:
        self._most = most
        super().__init__(power)

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        super().learn(inputs, labels, classes)
        if self._most is not None and self._counts.sum() > self._most:
            message = f"more than {self._most} records"
            raise OverflowError(message)
