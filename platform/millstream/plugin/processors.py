"""The base classes of steps and models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from millstream.arrays import Array
from millstream.steps.contracts import Output, Result, State, Traits

__all__ = ["JoinStep", "Model", "Step"]


class Step(ABC):
    """One step of a pipeline. `millstream.steps.contracts` has the whole contract.

    A subclass defines `traits` and `process`; `outputs`, if it makes rows for outputs; `save` and `restore`, if it has
    state. The same records in other batches give the same results, and a step never modifies its input.

    >>> from millstream.steps.contracts import Scope
    >>> class DropText(Step):
    ...     traits = Traits(Scope.STATELESS, ordered=False, idempotent=True)
    ...     def process(self, records):
    ...         return Result(records.drop_columns(["text"]))
    >>> records = pa.table({"_offset": [0, 1], "text": ["a", "b"]})
    >>> DropText(records.schema).process(records).records.to_pydict()
    {'_offset': [0, 1]}
    """

    traits: Traits
    outputs: Sequence[Output] = ()

    def __init__(self, records: pa.Schema) -> None:
        self.records = records
        """The schema of the records that the step gets."""

    @abstractmethod
    def process(self, records: pa.Table) -> Result:
        """Process one batch of records."""

    def ended(self, substream: Any) -> Result:
        """Return the rows of the windows that close because this substream has ended."""
        return Result(self.process(self.records.empty_table()).records)

    def save(self) -> State:
        """Return the whole state: arrays and bytes, as copies."""
        return {}

    def restore(self, state: State) -> None:
        """Set the state to one that `save` returned. An empty state makes the step a new one."""
        return


class JoinStep(ABC):
    """One step that reads several streams. `millstream.steps.contracts` has the whole contract.

    A subclass defines `traits` and `process`, and all else as for a `Step`; `made` is the schema of its records.

    >>> from millstream.steps.contracts import Scope
    >>> class OnlyFirst(JoinStep):
    ...     traits = Traits(Scope.STATELESS, ordered=False)
    ...     def process(self, inputs, order):
    ...         return Result(inputs[0])
    >>> first, second = pa.table({"_offset": [0, 1]}), pa.table({"_offset": [5]})
    >>> OnlyFirst(first.schema).process([first, second], [0, 1, 0]).records.to_pydict()
    {'_offset': [0, 1]}
    """

    traits: Traits
    outputs: Sequence[Output] = ()

    def __init__(self, made: pa.Schema) -> None:
        self.made = made
        """The schema of the records that the step makes."""

    @abstractmethod
    def process(self, inputs: Sequence[pa.Table], order: Array) -> Result:
        """Process the next records: `order[i]` is the input of the i-th record, and each table is in order."""

    def ended(self, substream: Any) -> Result:
        """Return the rows that this substream's end makes."""
        return Result(self.made.empty_table())

    def save(self) -> State:
        """Return the whole state: arrays and bytes, as copies."""
        return {}

    def restore(self, state: State) -> None:
        """Set the state to one that `save` returned. An empty state makes the step a new one."""
        return


class Model(ABC):
    """A classifier that learns online. `millstream.steps.contracts` has the whole contract.

    A subclass defines `predict`, `learn`, `save` and `restore`. Classes are numbers from 0, in the order of their first
    appearance. A new model is one that has restored an empty state.
    """

    reads = "text"
    """The column that the model learns from, as in `ModelConfig.reads`."""

    def __init__(self) -> None:
        self.restore({})

    def prepare(self, column: pa.Array) -> Any:
        """Return the rows of the column in the model's own form, here an array of texts; each row by itself."""
        return column.to_numpy(zero_copy_only=False)

    @abstractmethod
    def predict(self, inputs: Any) -> tuple[Array, Array]:
        """Return the class (int64) and its probability (float64) for each row; changes nothing."""

    @abstractmethod
    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        """Learn one mini-batch. Labels are class numbers (int64) below `classes`, which may have risen."""

    @abstractmethod
    def save(self) -> State:
        """Return all that the model has learned: arrays and bytes, without pickle, as copies."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Set the model, bit for bit, to what `save` returned. An empty state makes the model a new one."""
