"""A model that counts, in its state, how often it has learned each position of a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.plugin import Array, Model, ModelConfig, State
from millstream_models.features import Counted
from millstream_models.hashed_text import HashedText
from millstream_models.online.softmax import Softmax

__all__ = ["CountedSoftmax", "counts_of", "text_of"]

_WORDS = Softmax(features=HashedText(dimensions=256))
_COUNTS, _WEIGHTS = "counts", "softmax/"


def text_of(partition: int, offset: int, words: str) -> str:
    """The text of a record, which begins with its position."""
    return f"{partition} {offset} {words}"


class CountedSoftmax(ModelConfig):
    """Softmax over the words of a text. Each record that it learns adds 1 to the count of the record's position."""

    partitions: int

    def build(self, records: pa.Schema) -> _CountedSoftmax:
        return _CountedSoftmax(records, self.partitions)


def counts_of(state: State) -> Array:
    """The counts in the state of a step that classifies with this model, by offset and partition."""
    return np.asarray(state[f"model/{_COUNTS}"])


@dataclass(frozen=True)
class _Rows:
    words: Counted
    positions: Array
    """The partition and the offset of each row."""

    def __getitem__(self, some: Any) -> _Rows:
        return _Rows(self.words[some], self.positions[some])


class _CountedSoftmax(Model):
    def __init__(self, records: pa.Schema, partitions: int) -> None:
        self._softmax = _WORDS.build(records)
        self._partitions = partitions
        self._counts: Array
        super().__init__()

    def prepare(self, column: pa.Array) -> _Rows:
        positions = [[int(number) for number in text.split()[:2]] for text in column.to_pylist()]
        return _Rows(self._softmax.prepare(column), np.array(positions, np.int64).reshape(-1, 2))

    def predict(self, inputs: _Rows) -> tuple[Array, Array]:
        return self._softmax.predict(inputs.words)

    def learn(self, inputs: _Rows, labels: Array, classes: int) -> None:
        self._softmax.learn(inputs.words, labels, classes)
        partitions, offsets = inputs.positions.T
        room = 1 << int(offsets.max()).bit_length()
        if room > len(self._counts):
            self._counts = np.pad(self._counts, ((0, room - len(self._counts)), (0, 0)))
        np.add.at(self._counts, (offsets, partitions), 1)

    def save(self) -> State:
        weights = {f"{_WEIGHTS}{name}": value for name, value in self._softmax.save().items()}
        return {_COUNTS: self._counts.copy(), **weights}

    def restore(self, state: State) -> None:
        self._counts = np.array(state.get(_COUNTS, np.zeros((0, self._partitions))), np.int64)
        names = [name for name in state if name.startswith(_WEIGHTS)]
        self._softmax.restore({name.removeprefix(_WEIGHTS): state[name] for name in names})
