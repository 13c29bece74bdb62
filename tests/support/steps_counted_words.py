"""A model whose state is an array with flags for dirty rows."""

from __future__ import annotations

import zlib
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel

from millstream.state.dirty_rows import DirtyRows
from millstream.steps.contracts import Array, State

WORDS = 512


class CountedWords(BaseModel):
    """Predicts the class with the highest count of the text's words. With `flags`, the model flags its dirty rows."""

    type: Literal["counted_words"] = "counted_words"
    reads: ClassVar[str] = "text"
    batch_size: int = 1
    flags: bool = True

    def build(self, records: pa.Schema) -> CountedWordsModel:
        return CountedWordsModel(flags=self.flags)


class CountedWordsModel:
    reads = "text"

    def __init__(self, *, flags: bool) -> None:
        self._flags = flags
        self._store: DirtyRows
        self._classes: int
        self.restore({})

    def prepare(self, column: pa.Array) -> Any:
        rows = np.empty(len(column), object)
        for index, text in enumerate(column.to_pylist()):
            rows[index] = np.unique([zlib.crc32(word.encode()) % WORDS for word in (text or "").split()]).astype(int)
        return rows

    def predict(self, inputs: Any) -> tuple[Array, Array]:
        counts = self._store.array[:, : self._classes]
        sums = np.array([counts[row].sum(axis=0) + 1.0 for row in inputs], np.float64)
        return sums.argmax(axis=1), sums.max(axis=1) / sums.sum(axis=1)

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        more = classes - self._store.array.shape[1]
        if more > 0:
            self._store = DirtyRows(np.pad(self._store.array, ((0, 0), (0, more))))
        self._classes = classes
        for row, label in zip(inputs, labels, strict=True):
            self._store.array[row, label] += 1
            if self._flags:
                self._store.dirty[row] = 1

    def save(self) -> State:
        return {"counts": self._store.snapshot(), "classes": np.array([self._classes])}

    def restore(self, state: State) -> None:
        self._store = DirtyRows(np.array(state.get("counts", np.zeros((WORDS, 2), np.float32))))
        self._classes = int(np.array(state.get("classes", [0]))[0])
