"""The input of the checks of one model: rows with classes, and models that learn some or all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.steps.contracts import Array, Model, ModelConfig

__all__ = ["Trial"]


@dataclass(frozen=True)
class Trial:
    """The input of the checks of one model: the column that the model reads, and the number of each row's class.

    Each label is a class; classes are numbered by the first appearance of their labels.
    """

    config: ModelConfig
    schema: pa.Schema
    column: pa.Array
    labels: Array

    @classmethod
    def of(cls, config: ModelConfig, records: pa.Table, label: str) -> Trial:
        """Make a trial from those records that have a label."""
        labelled = records.filter(records[label].is_valid()).combine_chunks()
        coded = labelled[label].cast(pa.string()).combine_chunks().dictionary_encode()
        if len(coded.dictionary) < 2:
            message = "the checks of a model need at least two different labels"
            raise ValueError(f"{message}; the column {label!r} has the labels {coded.dictionary.to_pylist()}")
        column = labelled[config.build(records.schema).reads].combine_chunks()
        return cls(config, records.schema, column, coded.indices.to_numpy().astype(np.int64))

    def build(self) -> Model:
        return self.config.build(self.schema)

    def rows(self, start: int, stop: int) -> tuple[pa.Array, Array, int]:
        """Return rows `[start, stop)`, the class of each row, and the number of classes in the rows before `stop`."""
        return self.column[start:stop], self.labels[start:stop], int(self.labels[:stop].max()) + 1

    def teach(self, model: Model, start: int, stop: int) -> None:
        column, labels, classes = self.rows(start, stop)
        model.learn(model.prepare(column), labels, classes)

    def build_taught(self) -> Model:
        """Build a model that learns all rows, in mini-batches of 1, 2, 4, ... rows; the number of classes rises."""
        model, start, size = self.build(), 0, 1
        while start < len(self.column):
            self.teach(model, start, min(start + size, len(self.column)))
            start, size = start + size, size * 2
        return model
