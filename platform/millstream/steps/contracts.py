"""The contracts of steps and models, which plug-in authors implement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Protocol, runtime_checkable

import pyarrow as pa

from millstream.arrays import Array
from millstream.log.epochs import Baselines
from millstream.records import OFFSET, PATH, RANK, TIME
from millstream.state.dirty_rows import Value
from millstream.substreams import Watermark

__all__ = [
    "Additive",
    "Array",
    "Averaged",
    "Delta",
    "FindsLateRecords",
    "JoinStep",
    "JoinStepConfig",
    "Model",
    "ModelConfig",
    "Output",
    "OwnsShards",
    "PredictsThenLearns",
    "ReadsAll",
    "Result",
    "ReturnsChances",
    "Scope",
    "State",
    "Step",
    "StepConfig",
    "Traits",
    "WindowRows",
    "ends_at",
    "position_fields",
    "rejects_schema",
]

State = Mapping[str, Value]
"""The state of a step or model: named arrays and byte strings. It is saved without pickle and digested name by name.

A large array of which only a few rows change at a time can be a snapshot (`millstream.state.dirty_rows`). Saving a
snapshot costs only as much as the rows that changed.
"""


class Scope(StrEnum):
    """The reach of a step's state: no state, one state for each key, or one state for all records."""

    STATELESS = "stateless"
    KEYED = "keyed"
    GLOBAL = "global"


@dataclass(frozen=True)
class Traits:
    """The properties of a step that decide where and how an engine may run the step.

    `ordered`: the result depends on the order of the records. `deterministic`: the same records always give the same
    result. `idempotent`: the same records processed again by the same step give the same results and change no state.
    `only_adds`: the step adds columns and changes neither the records, nor their order, nor their other
    columns; such a step may also get records that could not be read, and their fields are null. `keeps_all`: every
    record that the step does not reject is among the records that it passes on, so the step can end no cycle. `ends`
    names the kinds of substreams whose end the step must see: "time" for windows over event time, "all" for the end of
    all sources.

    `key` of a keyed step is the text column whose value decides which state a record uses, or several such columns.
    The names in the step's state are the keys (`millstream.steps.keys`), so an engine can give each key's state to one
    of several workers.

    `to_all` is true for a keyed step with two inputs that needs the records of the first one by their position instead
    of their key (`millstream.steps.keys.position_keys`), and all records of the second one, on every owner of shards
    (`OwnsShards`).

    `held_back` is for windows: the longest event time, in microseconds, for which a row is made after its time.
    """

    scope: Scope
    ordered: bool = True
    deterministic: bool = True
    idempotent: bool = False
    only_adds: bool = False
    keeps_all: bool = False
    ends: frozenset[str] = frozenset()
    key: str | tuple[str, ...] | None = None
    held_back: int = 0
    to_all: bool = False

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The columns of the key; none for a step that is not keyed."""
        return (self.key,) if isinstance(self.key, str) else self.key or ()


def ends_at(traits: Traits, watermark: Watermark) -> bool:
    """True if the step of these traits must see that this watermark was reached.

    >>> counts = Traits(Scope.GLOBAL, ends=frozenset({"all"}))
    >>> ends_at(counts, Watermark(50)), ends_at(counts, Watermark(None))
    (False, True)
    """
    return "time" in traits.ends or ("all" in traits.ends and watermark.time is None)


@dataclass(frozen=True)
class Output:
    """An output that a step makes: its name and its columns.

    `of` is the kind of thing that identifies a row. "record": the first columns are `_rank` and `_offset`, which sinks
    get as `_source`, `_partition` and `_offset`; with `_path` and the columns in `key`, if there are any, they identify
    the row. "window": `_window` and the columns in `key` identify the row.
    """

    name: str
    schema: pa.Schema
    of: str = "record"
    key: tuple[str, ...] = ()


def position_fields(records: pa.Schema | None = None) -> list[pa.Field]:
    """The identity and the time of a record, for outputs of a step that gets records of this schema."""
    path = [pa.field(PATH, pa.binary())] if records is not None and PATH in records.names else []
    return [pa.field(RANK, pa.int64()), pa.field(OFFSET, pa.int64()), pa.field(TIME, pa.int64()), *path]


def rejects_schema(records: pa.Schema | None = None) -> pa.Schema:
    """Return the columns of the output `rejects`: the records that the log or a step could not use, with the reason.

    A step gives the schema of its `records`: rejects have a path if the records have one.

    >>> rejects_schema().names
    ['_rank', '_offset', '_time', 'step', 'reason']
    """
    return pa.schema([*position_fields(records), pa.field("step", pa.string()), pa.field("reason", pa.string())])


@dataclass(frozen=True)
class WindowRows:
    """The windows of an output's rows, so that a step can read the rows as records: one number and one time for a row.

    `numbers` (int64) are the numbers of the windows, or 0. `times` (int64) are the times of the rows: the end of the
    window less a microsecond; for a window that counts records, the time of its last record. A time may be null.
    `closed_by` (int64) are rows of the batch that `process` got: each that of the record with which the window closed.
    They order the rows of several owners of keys as those of one. None if the windows closed at an end.
    """

    numbers: pa.Array
    times: pa.Array
    closed_by: pa.Array | None = None


@dataclass(frozen=True)
class Result:
    """The result of a step for one batch: the records for the next step, and rows for outputs.

    `labelled` is the number of records with a label, and `correct` the number of these records that were predicted
    correctly before the model learned from them. `baselines` counts the records that the two baselines predict
    correctly. `windows` has the windows of the rows of an output whose rows are those of windows; without them, no step
    can read this output.
    """

    records: pa.Table
    outputs: Mapping[str, pa.Table] = field(default_factory=dict)
    correct: int = 0
    labelled: int = 0
    baselines: Baselines = field(default_factory=Baselines)
    windows: Mapping[str, WindowRows] = field(default_factory=dict)


class Step(Protocol):
    """One step of a pipeline. Batches are only transport: the same records in other batches give the same results.

    A step gets the records of one epoch in step order, in one batch or several. Every batch has the columns `_rank`,
    `_offset` and `_time`, the fields of the log, and the columns that the earlier steps added. A step never modifies
    its input.

    `process` returns its records, and the rows of outputs that it makes of records, in the order of the records that it
    got. What a step that is not global returns at the boundary of an epoch may be in any order: every engine puts
    records and rows of records in the order of a boundary (`millstream.steps.boundary_order`), and rows of windows, for
    which the step returns no `Result.windows`, in the order of their key and window.
    """

    @property
    def traits(self) -> Traits: ...

    @property
    def outputs(self) -> Sequence[Output]: ...

    def process(self, records: pa.Table) -> Result: ...

    def ended(self, substream: Any) -> Result:
        """Return the rows of the windows that close because this substream (`millstream.substreams`) has ended.

        A keyed step that must know the present watermark after `restore` has `resume` too (`FindsLateRecords`).
        """
        ...

    def save(self) -> State:
        """Return the whole state, as copies that do not change when the step processes more records."""
        ...

    def restore(self, state: State) -> None:
        """Set the state to one that `save` returned. An empty state makes the step a new one."""
        ...


class JoinStep(Protocol):
    """A step that reads several streams as inputs of their own. All else is as in `Step`."""

    @property
    def traits(self) -> Traits: ...

    @property
    def outputs(self) -> Sequence[Output]: ...

    def process(self, inputs: Sequence[pa.Table], order: Array) -> Result:
        """Process the next records: `order[i]` is the input of the i-th record, and each table is in order."""
        ...

    def ended(self, substream: Any) -> Result: ...

    def save(self) -> State: ...

    def restore(self, state: State) -> None: ...


@runtime_checkable
class FindsLateRecords(Protocol):
    """A step whose results depend on the watermark between two ends, because it finds records that are late.

    The watermark cannot be in state by key. So after `restore` the step gets the last one again.
    """

    def resume(self, watermark: Watermark) -> None:
        """Take the watermark of the last `ended` before the state was saved."""
        ...


@runtime_checkable
class OwnsShards(Protocol):
    """A step that gets records of shards that it does not own, because its second input goes to all owners.

    Without a call of `own` it owns all shards. `restore` gives it the state of all shards.
    """

    def own(self, owns: Callable[[int], bool]) -> None:
        """Save the state of the shards for which `owns` is true, and make rows of no other shard's records."""
        ...


class StepConfig(Protocol):
    """The options of a step: a pydantic model with a `type`, which a step plug-in registers and which builds the step.

    `records` is the schema of the records that the step will get, with the metadata of the fields. `build` raises
    `ConfigError` if the step cannot use these records. The next step gets the schema that `process` returns for an
    empty batch. The options of a run's steps must not change between starts, except fields with
    `json_schema_extra={"may_change": True}`, which change no result.
    """

    @property
    def type(self) -> str: ...

    def build(self, records: pa.Schema) -> Step: ...


class JoinStepConfig(Protocol):
    """The options of a step with several `inputs`; `build` gets the schema of each. All have the same key."""

    inputs: ClassVar[int]

    @property
    def type(self) -> str: ...

    def build(self, records: Sequence[pa.Schema]) -> JoinStep: ...


@runtime_checkable
class ReadsAll(JoinStepConfig, Protocol):
    """The options of a step with two inputs, of which the second one can go `to: all` owners of shards."""

    def build_to_all(self, records: Sequence[pa.Schema]) -> JoinStep:
        """The step of which every owner gets all records of the second input; its traits say `to_all`."""
        ...

    def not_to_all(self) -> tuple[str, str] | None:
        """The option with which this is impossible, and a message with the remedy."""
        ...


class Model(Protocol):
    """A classifier that learns online. Classes are numbers from 0, in the order of their first appearance.

    `prepare` converts a column into the model's own form; the other methods get slices of that form as `inputs`.
    """

    @property
    def reads(self) -> str:
        """The name of the column that the model learns from: `text` or `features`."""
        ...

    def prepare(self, column: pa.Array) -> Any:
        """Return the column's rows in the model's own form, which supports `[start:stop]` and `[indices]`."""
        ...

    def predict(self, inputs: Any) -> tuple[Array, Array]:
        """Return the class (int64) and its probability (float64) for each row. At least one class has been learned."""
        ...

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        """Learn one mini-batch. Labels are class numbers (int64) below `classes`, which may have risen."""
        ...

    def save(self) -> State:
        """Return the parameters, without pickle, as copies that do not change when the model learns more."""
        ...

    def restore(self, state: State) -> None:
        """Set the parameters, bit for bit, to those that `save` returned. An empty state makes the model a new one."""
        ...


@runtime_checkable
class PredictsThenLearns(Model, Protocol):
    """A model that predicts each record and then learns from it, record by record, for a whole batch in one call."""

    def predict_then_learn(self, inputs: Any, labels: Array, known: int) -> tuple[Array, Array]:
        """For each row, predict the class and then learn the label; return all classes (int64) and probabilities.

        The probabilities are float64. The results are, bit for bit, those of `predict` and `learn` called row by row.
        `labels` are class numbers (int64), -1 for a row without a label. `known` classes were learned before; classes
        are numbered by first appearance, so after each label there are `max(known, label + 1)`. While no class is
        known, the class is -1 and the probability 0.
        """
        ...


@runtime_checkable
class ReturnsChances(Model, Protocol):
    """A model that returns the probabilities of all classes, for predictions that name more than one label."""

    def chances(self, inputs: Any) -> Array:
        """Return the probability of each learned class (float64) in each row, without learning."""
        ...


Delta = Mapping[str, Any]
"""The part of some records in the state of a model: arrays of whole numbers below 2^53."""


@runtime_checkable
class Additive(Model, Protocol):
    """A model whose state is a sum over the records, so the parts of a history can be learned apart from each other."""

    @property
    def adds_up(self) -> bool:
        """True if the state adds up with these options."""
        ...

    def delta(self, inputs: Any, labels: Array, classes: int) -> Delta:
        """The part of these rows in the state of a model of so many classes; the model does not change."""
        ...

    def merge(self, deltas: Sequence[Delta], classes: int) -> None:
        """Add deltas to the state: in any order the state, bit for bit, after the rows were learned by `learn`."""
        ...


@runtime_checkable
class Averaged(Model, Protocol):
    """A model of which replicas can learn apart from each other, from the same state on, and are then averaged."""

    def average(self, replicas: Iterable[tuple[State, int]], classes: int) -> None:
        """Average replicas of this state, each with the number of its records, in their order; of so many classes.

        A row that replicas changed is their mean, weighted by records. Changes of counts and of sums of squares add up.
        """
        ...


class ModelConfig(Protocol):
    """The options of a model: a pydantic model with `type` and `batch_size`, which a model plug-in registers.

    `build` makes the model. `records` is the schema of the records that the model will learn from; `build` raises
    `ConfigError` if the model cannot use them. A model that learns from the text itself declares
    `reads: ClassVar[str] = "text"` here too; without this declaration a pipeline makes the column `features` first.
    """

    @property
    def type(self) -> str: ...

    @property
    def batch_size(self) -> int: ...

    def build(self, records: pa.Schema) -> Model: ...
