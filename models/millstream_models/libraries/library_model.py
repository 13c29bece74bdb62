"""A model around an object of another library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.steps.contracts import Array, State
from millstream_models.libraries.object_restore import restore_object
from millstream_models.libraries.object_state import SavedObject, save_object

__all__ = ["LibraryModel"]


class LibraryModel(ABC):
    """An object of a library, and the number of classes that it has learned."""

    reads: str

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self.restore({})

    @abstractmethod
    def prepare(self, column: pa.Array) -> Any:
        """Return the rows of a column as the library takes them."""

    @abstractmethod
    def chances(self, inputs: Any) -> Array:
        """Return the probability of each learned class in each row."""

    @abstractmethod
    def learn_rows(self, inputs: Any, labels: Array) -> None:
        """Learn rows with their classes."""

    @abstractmethod
    def trial_column(self, words: list[list[int]]) -> pa.Array:
        """Return the column that the model reads, for documents of words that are numbers below 400."""

    def predict(self, inputs: Any) -> tuple[Array, Array]:
        chances = self.chances(inputs)
        best = chances.argmax(axis=1).astype(np.int64, copy=False)
        return best, chances[np.arange(len(best)), best]

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        self._classes = classes
        self.learn_rows(inputs, labels)

    def saved(self) -> SavedObject:
        """Return the state of the object, with the places of its parts."""
        return save_object(self._object)

    def save(self) -> State:
        return {"classes": np.array([self._classes], np.int64), **self.saved().state}

    def restore(self, state: State) -> None:
        new = self._make()
        self._object = restore_object(state, type(new)) if state else new
        self._classes = int(np.asarray(state["classes"])[0]) if state else 0
