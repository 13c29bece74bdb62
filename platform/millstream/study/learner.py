"""A learner in a trial: a model of a plug-in, fed with rows of prepared inputs as the step `classify` feeds it."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.steps.contracts import Model, PredictsThenLearns, ReturnsChances, State

__all__ = ["Learner", "LearnerState"]

_FEW_RUNS = 48
"""Up to so many runs of rows that follow each other are passed to the model one by one, without a copy of the rows."""

_FIRST = 256
"""Most labels appear among the first records, and the search in these alone is quick."""
_LEAST_CHANCE = float(np.finfo(np.float64).eps)


@runtime_checkable
class _HasOptimiser(Protocol):
    """A model that may keep optimiser state, such as sums of squared gradients, besides its weights."""

    def without_optimiser(self, state: State) -> State | None:
        """Return a saved state with the same weights and new optimiser state; None if the model keeps none."""
        ...


@dataclass(frozen=True)
class LearnerState:
    """The state of a learner at one moment: the model's, and that of the step around it."""

    model: State
    numbers: Array
    known: int
    batches: int
    waiting: Array
    waiting_codes: Array


class Learner:
    """A model and the numbers of its classes; a class gets its number when its label is first processed.

    `seconds` is the CPU time within the model.
    """

    def __init__(self, config: Any, records: pa.Schema, labels: int) -> None:
        self._model: Model = config.build(records)
        self._batch_size = int(config.batch_size)
        self._one_by_one = self._batch_size == 1 and isinstance(self._model, PredictsThenLearns)
        self._all_labels = labels
        self._nothing = self._model.prepare(records.empty_table()[self._model.reads].combine_chunks())
        self.seconds = 0.0
        self.restart()

    @property
    def reads(self) -> str:
        return self._model.reads

    def prepare(self, column: pa.Array) -> Any:
        """Return the rows of a column in the model's own form."""
        return self._model.prepare(column)

    def restart(self) -> None:
        """Make the learner a new one."""
        self._model.restore({})
        self._numbers = np.full(self._all_labels, -1, np.int64)
        self._known = self._batches = 0
        self._waiting = self._waiting_codes = np.zeros(0, np.int64)

    def process(self, prepared: Any, rows: Array, labels: Array) -> Array:
        """Predict and learn the rows in order; return the predicted labels, -1 before the first label is known."""
        self._number(labels)
        codes = self._numbers[labels]
        began = time.thread_time()
        feed = self._in_runs if self._one_by_one else self._batched
        classes = feed(prepared, rows, codes)
        self.seconds += time.thread_time() - began
        return self._labels_of(classes)

    def judge(self, prepared: Any, labels: Array) -> tuple[Array, float | None]:
        """Predict all prepared rows without learning; return the predicted labels and the log-loss, if there is one.

        A learner that knows no label, after it returned to a new state, predicts -1.
        """
        if not self._known:
            return np.full(len(labels), -1, np.int64), -math.log(_LEAST_CHANCE)
        began = time.thread_time()
        if not isinstance(self._model, ReturnsChances):
            classes, _ = self._model.predict(prepared)
            self.seconds += time.thread_time() - began
            return self._labels_of(classes), None
        chances = self._model.chances(prepared)
        self.seconds += time.thread_time() - began
        codes = self._numbers[labels]
        rows = np.flatnonzero((codes >= 0) & (codes < self._known))
        right = np.full(len(labels), _LEAST_CHANCE)
        right[rows] = np.maximum(chances[rows, codes[rows]], _LEAST_CHANCE)
        return self._labels_of(chances.argmax(axis=1)), float(-np.log(right).mean())

    def save(self) -> LearnerState:
        return LearnerState(
            self._model.save(), self._numbers.copy(), self._known, self._batches, self._waiting, self._waiting_codes
        )

    def restore(self, state: LearnerState) -> None:
        self._model.restore(state.model)
        self._numbers, self._known, self._batches = state.numbers.copy(), state.known, state.batches
        self._waiting, self._waiting_codes = state.waiting, state.waiting_codes

    def without_optimiser(self) -> State | None:
        """Return the model's state with new optimiser state; None if the model keeps none."""
        return self._model.without_optimiser(self._model.save()) if isinstance(self._model, _HasOptimiser) else None

    def has_parts(self) -> bool:
        """Return whether a part of the parameters can be set alone: they are arrays."""
        return not any(isinstance(value, bytes) for value in self._model.save().values())

    def lose_optimiser(self) -> None:
        """Start the optimiser state over; the weights stay."""
        self._model.restore(self.without_optimiser() or {})

    def return_part(self, older: LearnerState, part: float, rng: np.random.Generator) -> None:
        """Set a random part of the parameters to their values in an older state; all of the state, if `part` is 1."""
        if part == 1:
            self.restore(older)
            return
        now = _arrays(self._model.save())
        self._model.restore(older.model)
        before = _arrays(self._model.save())
        if any(before[name].shape != array.shape for name, array in now.items()):
            self._model.learn(self._nothing, np.zeros(0, np.int64), self._known)  # room for the classes of today
            before = _arrays(self._model.save())
        size = max(length for array in now.values() for length in array.shape)
        returned = rng.random(size) < part
        for name, array in now.items():
            if size in array.shape:
                rows = (slice(None),) * array.shape.index(size) + (returned,)
                array[rows] = before[name][rows]
        self._model.restore(now)

    def _number(self, labels: Array) -> None:
        """Give numbers to the labels that appear for the first time, in the order of their appearance."""
        for some in (labels[:_FIRST], labels[_FIRST:]):
            if self._numbers.min() >= 0:
                return
            unseen = some[self._numbers[some] < 0]
            while len(unseen):
                label = int(unseen[0])
                self._numbers[label] = self._numbers.max() + 1
                unseen = unseen[unseen != label]

    def _labels_of(self, classes: Array) -> Array:
        names = np.full(len(self._numbers) + 1, -1, np.int64)  # the class -1 is the last entry
        numbered = np.flatnonzero(self._numbers >= 0)
        names[self._numbers[numbered]] = numbered
        found: Array = names[classes]
        return found

    def _in_runs(self, prepared: Any, rows: Array, codes: Array) -> Array:
        """Predict each record and learn it before the next one."""
        model: Any = self._model
        parts = []
        for some, start, stop in _runs(rows):
            classes, _ = model.predict_then_learn(prepared[some], codes[start:stop], self._known)
            self._known = max(self._known, int(codes[start:stop].max()) + 1)
            parts.append(classes)
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def _batched(self, prepared: Any, rows: Array, codes: Array) -> Array:
        """Predict each record with the model of all full mini-batches; a record then joins the next mini-batch."""
        classes = np.full(len(rows), -1, np.int64)
        start = 0
        while start < len(rows):
            size = min(1 << min(self._batches, 62), self._batch_size)
            stop = min(len(rows), start + size - len(self._waiting))
            if self._known:
                classes[start:stop], _ = self._model.predict(prepared[rows[start:stop]])
            self._waiting = np.concatenate([self._waiting, rows[start:stop]])
            self._waiting_codes = np.concatenate([self._waiting_codes, codes[start:stop]])
            if len(self._waiting) == size:
                self._known = max(self._known, int(self._waiting_codes.max()) + 1)
                self._model.learn(prepared[self._waiting], self._waiting_codes, self._known)
                self._batches += 1
                self._waiting = self._waiting_codes = np.zeros(0, np.int64)
            start = stop
        return classes


def _arrays(state: State) -> dict[str, Array]:
    """Return copies of the arrays of a state, without its byte strings, which no model has that has parts."""
    return {name: np.array(value) for name, value in state.items() if not isinstance(value, bytes)}


def _runs(rows: Array) -> Iterator[tuple[Any, int, int]]:
    """Divide rows into runs that follow each other, as slices; many short runs stay together, as one array.

    Yields the rows of a run, and where the run begins and ends.

    >>> [*_runs(np.array([3, 4, 5, 4, 5]))]
    [(slice(3, 6, None), 0, 3), (slice(4, 6, None), 3, 5)]
    """
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    if len(breaks) >= _FEW_RUNS:
        yield rows, 0, len(rows)
        return
    edges = [0, *breaks.tolist(), len(rows)]
    for start, stop in itertools.pairwise(edges):
        first = int(rows[start])
        yield slice(first, first + stop - start), start, stop
