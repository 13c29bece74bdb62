"""Classification that learns as it goes: predict every record at once, learn from blocks of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field

from millstream.config.plugins import MODELS, nearest, plugin_field
from millstream.errors import ConfigError
from millstream.records import OFFSET, RANK, TIME
from millstream.state.digests import state_digest
from millstream.steps.contracts import Array, Model, Output, Result, Scope, State, Traits

__all__ = ["Classifier", "Classify"]

_MODEL = "model/"
_FEW = 16
_POSITION = [pa.field(RANK, pa.int64()), pa.field(OFFSET, pa.int64()), pa.field(TIME, pa.int64())]
_ANSWER = [pa.field("predicted", pa.string()), pa.field("probability", pa.float64())]


class Classify(BaseModel):
    """Predicts each record's label with a model that learns from the labels as they come.

    Every record gets `predicted` and its `probability` at once, from the model as of the last full block; then it
    joins the block that the model learns from next. Blocks hold 1, 2, 4, ... records up to the model's `block`, so a
    few records are enough to begin. Labels need not be known beforehand; a record without one is not learned from.

    In the output `predictions`, with blocks of 1, 2 and then 2:

        _partition  _offset  label   predicted  probability
        0           0        sport                            no label has been learned yet
        0           1        travel  sport      1.0           the only one so far
        0           2        travel  sport      1.0           the second block is full only now
        0           3        travel  travel     0.93

    >>> from millstream_models.naive_bayes import MultinomialNB
    >>> from millstream_models.hashed_text import HashedText
    >>> texts = {"text": ["a late goal", "a slow train", "the night train", "one goal"]}
    >>> position = {"_rank": [0] * 4, "_offset": range(4), "_time": [None] * 4}
    >>> records = pa.table({**position, **texts, "label": ["sport", "travel", "travel", None]})
    >>> records = HashedText(dimensions=1024).build(records.schema).process(records).records
    >>> step = Classify(model=MultinomialNB()).build(records.schema)
    >>> step.process(records).records["predicted"].to_pylist()
    [None, 'sport', 'sport', 'sport']
    >>> step.ask(records)["predicted"].to_pylist()
    ['sport', 'travel', 'travel', 'sport']
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["classify"] = "classify"
    model: Annotated[Any, plugin_field(MODELS)] = Field(description="The model, one of those installed.")
    label: str = Field(default="label", description="The field that holds the right answer, where it is known.")

    def build(self, records: pa.Schema) -> Classifier:
        model = self.model.build(records)
        for name, why in ((self.label, "`label`"), (model.reads, f"`model` ({self.model.type})")):
            if name not in records.names:
                meant = nearest(name, records.names)
                hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(records.names)}"
                if name == self.label and not meant:
                    hint += f"; name the field that holds it in the source's `fields: {{{name}: ...}}`"
                raise ConfigError(f"classify, {why}: the records have no column {name!r} here; {hint}")
        for column in _ANSWER:
            if column.name in records.names:
                message = f"classify makes the column {column.name!r}, which is there already; leave one of the two out"
                raise ConfigError(message)
        return Classifier(model, self.model.block, self.label, records)


class Classifier:
    """The step that `Classify` builds: a model, the names of its classes, and the block that is filling up."""

    traits = Traits(Scope.GLOBAL)

    def __init__(self, model: Model, block: int, label: str, records: pa.Schema) -> None:
        self._model = model
        self._block = block
        self._label = label
        self._kind = _plain(records.field(model.reads).type)
        schema = records
        for column in _ANSWER:
            schema = schema.append(column)
        self._no_records = schema.empty_table()
        self._predictions = pa.schema([*_POSITION, pa.field("label", pa.string()), *_ANSWER])
        self.outputs: Sequence[Output] = [Output("predictions", self._predictions)]
        self.restore({})

    def process(self, records: pa.Table) -> Result:
        column, labels = self._inputs(records), _one(records[self._label], pa.string())
        inputs = self._model.prepare(column)
        classes = np.full(len(column), -1, np.int64)
        probability = np.zeros(len(column))
        start = 0
        while start < len(column):
            stop = min(len(column), start + self._size() - self._waits)
            if self._names:
                classes[start:stop], probability[start:stop] = self._model.predict(inputs[start:stop])
            self._join(column, labels, inputs, start, stop)
            start = stop
        answer = self._answer(classes, probability)
        made = records
        for field, values in zip(_ANSWER, answer, strict=True):
            made = made.append_column(field, values)
        rows = [*(_whole(records[name]) for name in (RANK, OFFSET, TIME)), labels, *answer]
        predictions = pa.Table.from_arrays(rows, schema=self._predictions)
        correct = pc.sum(pc.equal(answer[0], labels)).as_py() or 0
        return Result(made, {"predictions": predictions}, correct, len(labels) - labels.null_count)

    def ask(self, records: pa.Table) -> pa.Table:
        """`predicted` and `probability` for records, labelled or not, as the model is now; nothing is learned."""
        inputs = self._model.prepare(self._inputs(records))
        classes, probability = np.full(records.num_rows, -1, np.int64), np.zeros(records.num_rows)
        if self._names and records.num_rows:
            classes, probability = self._model.predict(inputs)
        return pa.Table.from_arrays(self._answer(classes, probability), schema=pa.schema(_ANSWER))

    def fingerprint(self) -> str:
        """A digest of the model's parameters."""
        return state_digest(self._model.save())

    def ended(self, substream: Any) -> Result:
        return Result(self._no_records)

    def save(self) -> State:
        waiting = pa.BufferOutputStream()
        with pa.ipc.new_stream(waiting, self._waiting_schema()) as stream:
            if self._waits:
                columns = [pa.concat_arrays(parts) for parts in zip(*self._waiting, strict=True)]
                # Taken, so that the bytes do not tell what memory the records came in.
                everything = pa.array(np.arange(self._waits))
                taken = [column.take(everything) for column in columns]
                stream.write_batch(pa.record_batch(taken, schema=self._waiting_schema()))
        own: dict[str, Array | bytes] = {
            "blocks": np.array([self._blocks], np.int64),
            "classes": json.dumps(list(self._names), ensure_ascii=False).encode(),
            "waiting": waiting.getvalue().to_pybytes(),
        }
        return own | {_MODEL + name: value for name, value in self._model.save().items()}

    def restore(self, state: State) -> None:
        self._model.restore({name.removeprefix(_MODEL): state[name] for name in state if name.startswith(_MODEL)})
        self._names: dict[str, int] = {}
        self._waiting: list[tuple[pa.Array, pa.Array]] = []
        self._waits = self._blocks = 0
        if state:
            self._blocks = int(np.asarray(state["blocks"])[0])
            self._names = {name: code for code, name in enumerate(json.loads(bytes(state["classes"])))}
            with pa.ipc.open_stream(state["waiting"]) as stream:
                self._waiting = [(batch[0], batch[1]) for batch in stream]
            self._waits = sum(len(column) for column, _ in self._waiting)
        self._dictionary = pa.array(list(self._names), pa.string())

    def _size(self) -> int:
        """How many records the block holds that is filling up."""
        return self._block if self._blocks >= self._block.bit_length() else min(1 << self._blocks, self._block)

    def _join(self, column: pa.Array, labels: pa.Array, inputs: Any, start: int, stop: int) -> None:
        """These records join the block; if they fill it, it is learned."""
        whole = stop - start == self._size()
        if whole:
            self._learn(inputs[start:stop], labels[start:stop])
            return
        self._waiting.append((column[start:stop], labels[start:stop]))
        self._waits += stop - start
        if self._waits == self._size():
            block, answers = (pa.concat_arrays(parts) for parts in zip(*self._waiting, strict=True))
            self._learn(self._model.prepare(block), answers)
            self._waiting, self._waits = [], 0

    def _learn(self, inputs: Any, labels: pa.Array) -> None:
        self._blocks += 1
        if len(labels) <= _FEW:
            self._learn_few(inputs, labels.to_pylist())
            return
        coded = labels.dictionary_encode()
        names = coded.dictionary.to_pylist()  # by first appearance
        for name in names:
            self._names.setdefault(name, len(self._names))
        if len(self._names) > len(self._dictionary):
            self._dictionary = pa.array(list(self._names), pa.string())
        codes = coded.indices
        if codes.null_count:
            labelled = np.flatnonzero(codes.is_valid().to_numpy(zero_copy_only=False))
            inputs, codes = inputs[labelled], codes.drop_null()
        if len(codes):
            numbers = np.array([self._names[name] for name in names], np.int64)
            self._model.learn(inputs, numbers[codes.to_numpy()], len(self._names))

    def _learn_few(self, inputs: Any, labels: list[str | None]) -> None:
        """The same for so few that it is quicker one by one."""
        labelled = [place for place, name in enumerate(labels) if name is not None]
        codes = [self._names.setdefault(name, len(self._names)) for name in labels if name is not None]
        if len(self._names) > len(self._dictionary):
            self._dictionary = pa.array(list(self._names), pa.string())
        if codes:
            some = inputs if len(labelled) == len(labels) else inputs[np.array(labelled)]
            self._model.learn(some, np.array(codes, np.int64), len(self._names))

    def _inputs(self, records: pa.Table) -> pa.Array:
        return _one(records[self._model.reads], self._kind)

    def _answer(self, classes: Array, probability: Array) -> list[pa.Array]:
        none = classes < 0
        return [self._dictionary.take(pa.array(classes, mask=none)), pa.array(probability, pa.float64(), mask=none)]

    def _waiting_schema(self) -> pa.Schema:
        return pa.schema([pa.field("input", self._kind), pa.field("label", pa.string())])


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column if pa.types.is_int64(column.type) else column.cast(pa.int64())


def _one(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """A column in one piece and of this type."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.type != kind:
        column = column.cast(kind)
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type that all engines' ways of writing it come to, so that their waiting blocks have the same bytes."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in kind])
    return kind
