"""The contracts of what happens to records: steps and models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from millstream.arrays import Array
from millstream.log.epochs import Baselines
from millstream.records import OFFSET, RANK, TIME
from millstream.state.dirty_rows import Value

__all__ = [
    "Array",
    "LearnsInTurn",
    "Model",
    "ModelConfig",
    "Output",
    "Result",
    "Scope",
    "State",
    "Step",
    "StepConfig",
    "Traits",
    "rejects_schema",
]

State = Mapping[str, Value]
"""What a step or model remembers: named arrays and byte strings. Saved without pickle, digested name by name.

Of a large array that is changed a few rows at a time, a snapshot (`millstream.state.dirty_rows`) is saved at the cost
of these rows.
"""


class Scope(StrEnum):
    """What a step's state belongs to."""

    STATELESS = "stateless"
    KEYED = "keyed"
    GLOBAL = "global"


@dataclass(frozen=True)
class Traits:
    """What an engine may do with a step.

    `only_adds`: it adds columns, and leaves the records, their order and their other columns alone; such a step may
    see records that cannot be read, whose fields are null. `ends` names the substreams that the step needs to see
    end: "time" for windows over event time.

    A keyed step names the field, text, whose value decides which state a record meets: `key`. The names of its state
    are the keys, so that an engine can give each key's state to one of several workers (`millstream.steps.keys`).
    """

    scope: Scope
    ordered: bool = True
    deterministic: bool = True
    idempotent: bool = False
    only_adds: bool = False
    ends: frozenset[str] = frozenset()
    key: str | None = None


@dataclass(frozen=True)
class Output:
    """An output that a step makes: its name and its columns.

    `of` tells what identifies a row: "record" (`_rank, _offset` lead the columns, shown as `_source, _partition,
    _offset`) or "window" (`_window` and the columns in `key`).
    """

    name: str
    schema: pa.Schema
    of: str = "record"
    key: tuple[str, ...] = ()


def rejects_schema() -> pa.Schema:
    """The columns of the output `rejects`: records that a step, or the log, could not make sense of, and why.

    >>> rejects_schema().names
    ['_rank', '_offset', '_time', 'step', 'reason']
    """
    position = [pa.field(RANK, pa.int64()), pa.field(OFFSET, pa.int64()), pa.field(TIME, pa.int64())]
    return pa.schema([*position, pa.field("step", pa.string()), pa.field("reason", pa.string())])


@dataclass(frozen=True)
class Result:
    """What a step made of a batch: the records for the next step, and rows for outputs.

    `correct` of `labelled` records were predicted right, before learning from them, and `baselines` of them would have
    been without reading them.
    """

    records: pa.Table
    outputs: Mapping[str, pa.Table] = field(default_factory=dict)
    correct: int = 0
    labelled: int = 0
    baselines: Baselines = field(default_factory=Baselines)


class Step(Protocol):
    """One step of a pipeline. Batches are transport only: cutting the same records otherwise changes nothing.

    A step gets the records of one epoch, in step order, in one batch or several; every batch has the columns
    `_rank, _offset, _time` and what the log and the steps before have made. Input is never modified.
    """

    @property
    def traits(self) -> Traits: ...

    @property
    def outputs(self) -> Sequence[Output]: ...

    def process(self, records: pa.Table) -> Result: ...

    def ended(self, substream: Any) -> Result:
        """A substream has ended (`millstream.substreams`): the rows of windows that close with it."""
        ...

    def save(self) -> State:
        """All that it remembers, as copies that stay as they are while the step goes on."""
        ...

    def restore(self, state: State) -> None:
        """Go on from what `save` gave; an empty state is that of a new step."""
        ...


class StepConfig(Protocol):
    """What a step plug-in registers: a pydantic model with a `type`, and the step that it builds.

    `records` is the schema of what the step will get, with the fields' metadata; `build` refuses (`ConfigError`) what
    it cannot work on. What the next step will get is the schema of what `process` makes of no records. A run keeps to
    its steps' options, but for fields with `json_schema_extra={"may_change": True}`, which change no result.
    """

    @property
    def type(self) -> str: ...

    def build(self, records: pa.Schema) -> Step: ...


class Model(Protocol):
    """A classifier that learns as it goes. Classes are numbers, counted by first appearance.

    `prepare` turns a column into whatever the model computes on; slices of it are what the rest is given.
    """

    @property
    def reads(self) -> str:
        """The column it learns from: `text`, or `features`."""
        ...

    def prepare(self, column: pa.Array) -> Any:
        """The column's rows in the model's own form; `[start:stop]` and `[indices]` work on it."""
        ...

    def predict(self, inputs: Any) -> tuple[Array, Array]:
        """The class (int64) and its probability (float64) for each row; called only once classes are known."""
        ...

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        """Learn one block: labels are class numbers (int64) below `classes`, which may have grown."""
        ...

    def save(self) -> State:
        """Its parameters, as copies that stay as they are while the model goes on; no pickle."""
        ...

    def restore(self, state: State) -> None:
        """Go on, to the bit, from what `save` gave; an empty state is that of a new model."""
        ...


@runtime_checkable
class LearnsInTurn(Model, Protocol):
    """A model that learns from every record at once, and takes a whole batch of them in one call."""

    def in_turn(self, inputs: Any, labels: Array, known: int) -> tuple[Array, Array]:
        """For each row in turn its class (int64) and probability (float64), then learn its label.

        To the bit what `predict` and `learn` give row by row. `labels` are class numbers (int64), -1 where there is
        none. `known` classes were learned before; as they are numbered by first appearance, they are
        `max(known, label + 1)` after each label. While none is known, the class is -1 and the probability 0.
        """
        ...


class ModelConfig(Protocol):
    """What a model plug-in registers: a pydantic model with `type` and `block`, and the model that it builds.

    `records` is the schema of the records that it will learn from; `build` refuses (`ConfigError`) what it cannot use.
    One that learns from the text itself says `reads: ClassVar[str] = "text"`, as its model does; without it, a
    pipeline makes `features` first.
    """

    @property
    def type(self) -> str: ...

    @property
    def block(self) -> int: ...

    def build(self, records: pa.Schema) -> Model: ...
