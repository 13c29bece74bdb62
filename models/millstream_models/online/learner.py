"""Base of the compiled models: their options, their input, the table that grows with the classes, their state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.errors import ConfigError, StepFailed
from millstream.memory import usable_memory
from millstream.state.dirty_rows import DirtyRows
from millstream.steps.contracts import Array, State
from millstream_models.averages import Averages
from millstream_models.features import FEATURES, Counted, dimensions_of, read_only
from millstream_models.hashed_text import HashedText

__all__ = ["Learner", "OnlineModel"]

_FEWEST = 8  # classes that a table has room for at least: one cache line
_TEXT = "text"


class OnlineModel(BaseModel, ABC):
    """The options that all compiled models have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str
    batch_size: int = Field(
        default=1,
        ge=1,
        description="The model learns from this many records at a time.",
        json_schema_extra={"keeps_state": True},
    )
    features: HashedText | None = Field(
        default=None, description="How the model counts the words of `text` itself; without it, it reads `features`."
    )

    @property
    def reads(self) -> str:
        """The column that the model learns from."""
        return FEATURES if self.features is None else _TEXT

    @abstractmethod
    def build(self, records: pa.Schema) -> Learner: ...


class Learner(ABC):
    """A model whose state is a table of numbers by dimension and class, and a few more numbers.

    The table has a row for each dimension and then `more_rows` rows; a row holds `parts` numbers for each class.
    """

    parts = 1
    more_rows = 0
    kind: type[np.generic] = np.float32
    remedy = "choose other options"
    """The advice of the message that the model has diverged."""

    def __init__(self, config: OnlineModel, records: pa.Schema) -> None:
        self.reads = config.reads
        self.name = config.type
        self._words = config.features
        if config.features is not None:
            config.features.check_text(records)
        elif FEATURES not in records.names:
            message = (
                f"there is no column {FEATURES!r}, only {', '.join(records.names)}; let {self.name} count the words"
            )
            raise ConfigError(f"{message} itself with `features: {{}}`, or put a step before it that does: hashed_text")
        elif (kind := records.field(FEATURES).type.value_type.field(0).type) != pa.int32():
            message = f"{self.name}: the indexes of the column {FEATURES!r} are {kind}, not int32"
            raise ConfigError(f"{message}; the step that makes it has to add `features_field(dimensions)`")
        self.dimensions = dimensions_of(records) if config.features is None else config.features.dimensions
        self.known = 0
        self._check_memory(_FEWEST, ConfigError)
        self.restore({})

    @property
    def table(self) -> Array:
        return self._store.array

    @property
    def dirty(self) -> Array:
        return self._store.dirty

    @property
    def width(self) -> int:
        """The number of classes that the table has room for."""
        return int(self.table.shape[1]) // self.parts

    def prepare(self, column: pa.Array) -> Counted:
        if self._words is not None:
            return self._words.count(column)
        rows = Counted.of(column, self.dimensions, np.float32)
        self.check(rows)
        return rows

    def check(self, rows: Counted) -> None:
        """Refuse features that the kernels cannot process; compiled code does not check that an index is in range."""
        if rows.indices.dtype != np.int32:
            message = f"{self.name}: an index of a feature is missing (null); correct the step that makes the features"
            raise StepFailed(message)
        if len(rows.indices) and not (rows.indices.min() >= 0 and rows.indices.max() < self.dimensions):
            message = (
                f"{self.name}: features have indexes from {rows.indices.min():,} to {rows.indices.max():,}, and "
                f"{self.dimensions:,} dimensions; correct the step that makes the features"
            )
            raise StepFailed(message)
        if not np.isfinite(rows.data).all():
            message = (
                f"{self.name}: a count of a feature is NaN, infinite or null; correct the step that makes the features"
            )
            raise StepFailed(message)

    def predict(self, inputs: Counted) -> tuple[Array, Array]:
        return self._run(inputs, np.full(inputs.shape[0], -1, np.int64), self.known, predict=True)

    def chances(self, inputs: Counted) -> Array:
        """Return the probability of each known class in each row."""
        found = np.empty((inputs.shape[0], self.known))
        if found.size:
            self.fill_chances((inputs.indptr, read_only(inputs.indices), read_only(inputs.data)), found)
        return found

    def learn(self, inputs: Counted, labels: Array, classes: int) -> None:
        self._run(inputs, labels, classes, predict=False)
        self.known = max(self.known, classes)

    def predict_then_learn(self, inputs: Counted, labels: Array, known: int) -> tuple[Array, Array]:
        self.known = max(self.known, known)
        classes = max(self.known, int(labels.max(initial=-1)) + 1)
        answer = self._run(inputs, labels, classes, predict=True)
        self.known = classes
        return answer

    def take_average(self, averages: Averages, replicas: Iterable[tuple[State, int]]) -> None:
        """Set the table to the average of replicas, and the numbers other than the table to their sums."""
        before = self.numbers()
        sums: dict[str, Array] = {name: np.array(value) for name, value in before.items()}
        for state, records in replicas:
            averages.add(self._with_room(np.asarray(state["table"])), records)
            for name, value in before.items():
                sums[name] += np.asarray(state[name]) - np.asarray(value)
        self.table[:] = averages.average()
        self.dirty[averages.changed] = 1
        self.begin(sums)

    def save(self) -> State:
        return {"table": self._store.snapshot(), "known": np.array([self.known], np.int64), **self.numbers()}

    def restore(self, state: State) -> None:
        self.known = int(np.asarray(state["known"])[0]) if state else 0
        shape = (self.dimensions + self.more_rows, _FEWEST * self.parts)
        table = np.array(state["table"], order="C") if state else np.zeros(shape, self.kind)
        if table.shape[0] != shape[0]:
            message = (
                f"the state of {self.name} has {table.shape[0] - self.more_rows:,} dimensions, and the features have "
                f"{self.dimensions:,}; set `dimensions` back, or start over with --fresh"
            )
            raise ConfigError(message)
        others = (np.asarray(value) for name, value in state.items() if name != "table")
        if state and not (np.isfinite(table.sum()) and all(np.isfinite(numbers).all() for numbers in others)):
            message = f"the state of {self.name} holds numbers that are NaN or infinite; start over with --fresh"
            raise ConfigError(message)
        self._store = DirtyRows(table)
        self.begin(state)

    @abstractmethod
    def numbers(self) -> State:
        """Copies of the numbers that are saved in addition to the table."""

    @abstractmethod
    def begin(self, state: State) -> None:
        """Set the numbers other than the table from a state; an empty state is that of a new model."""

    @abstractmethod
    def grow(self, width: int) -> None:
        """Enlarge the arrays other than the table to `width` classes."""

    @abstractmethod
    def take(
        self, inputs: tuple[Array, Array, Array], labels: Array, *, predict: bool, best: Array, probability: Array
    ) -> None:
        """Run the kernel over rows, given as `(indptr, indices, counts)`."""

    @abstractmethod
    def fill_chances(self, inputs: tuple[Array, Array, Array], found: Array) -> None:
        """Write the probability of each known class in each row, given as `(indptr, indices, counts)`, to `found`."""

    def _run(self, inputs: Counted, labels: Array, classes: int, *, predict: bool) -> tuple[Array, Array]:
        self.make_room(classes)
        rows = inputs.shape[0] if predict else 0
        best, probability = np.empty(rows, np.int64), np.empty(rows)
        if inputs.shape[0]:
            parts = (inputs.indptr, read_only(inputs.indices), read_only(inputs.data))
            self.take(parts, labels, predict=predict, best=best, probability=probability)
        if np.isnan(probability).any():
            message = f"{self.name} has diverged: its probabilities are NaN; {self.remedy}"
            raise StepFailed(message)
        return best, probability

    def make_room(self, classes: int) -> None:
        """Let the table have room for so many classes."""
        width = self.width
        if classes <= width:
            return
        while width < classes:
            width *= 2
        self._check_memory(width, StepFailed)
        self._store = DirtyRows(self._with_room(self.table, width))
        self.grow(width)

    def _with_room(self, table: Array, width: int | None = None) -> Array:
        """A table with room for `width` classes; None: for as many as the model's own."""
        old = table.reshape(len(table), self.parts, -1)
        wide = np.zeros((len(old), self.parts, width or self.width), self.kind)
        wide[:, :, : old.shape[2]] = old
        return wide.reshape(len(old), -1)

    def _check_memory(self, width: int, error: type[Exception]) -> None:
        table = (self.dimensions + self.more_rows) * self.parts * width * np.dtype(self.kind).itemsize
        needed = 2 * table  # a snapshot holds a second table
        there = usable_memory()
        if needed > there // 2:
            message = (
                f"{self.name} with {self.dimensions:,} dimensions and {width} classes takes {needed / 2**30:,.1f} GiB "
                f"of memory, more than half of the {there / 2**30:,.1f} GiB of this machine or container; "
                f"choose fewer `dimensions`{' or a `label` of fewer values' if width > _FEWEST else ''}"
            )
            raise error(message)
