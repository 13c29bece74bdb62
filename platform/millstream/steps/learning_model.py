"""A model that learns online: with the names of its classes, and the mini-batch that is not yet full."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrays import FEW_ROWS, one_array
from millstream.errors import MillstreamError
from millstream.state.dirty_rows import Value
from millstream.steps.baselines import Guesses
from millstream.steps.contracts import (
    Additive,
    Array,
    Averaged,
    Model,
    PredictsThenLearns,
    Result,
    ReturnsChances,
    State,
)
from millstream.steps.declarations import check_state, plain_type
from millstream.steps.predictions import check_predictions, checked_arrays

__all__ = ["ANSWER", "LearningModel", "labels_of"]

_MODEL, _BASELINES, _DELTA = "model/", "baselines/", "delta/"
ANSWER = [pa.field("predicted", pa.string()), pa.field("probability", pa.float64())]


class LearningModel:
    """A model that predicts records and learns them in mini-batches, and the two baselines.

    Labels are numbered when they first appear. The model has learned the first `_known` labels of `_names`; the other
    labels have appeared only in the mini-batch that is not yet full.
    """

    def __init__(self, model: Model, batch_size: int, records: pa.Schema) -> None:
        self._model = model
        self._batch_size = batch_size
        self._predict_then_learn = (
            model.predict_then_learn if batch_size == 1 and isinstance(model, PredictsThenLearns) else None
        )
        self._guesses = Guesses()
        self._kind = plain_type(records.field(model.reads).type)  # one type for all engines
        self.restore({})

    def process(self, records: pa.Table, labels: pa.Array) -> tuple[list[pa.Array], Result]:
        """Predict and learn records; return the columns of `ANSWER`, and the scores as those of a result."""
        column = self._inputs(records)
        codes = self._codes(labels)
        classes, probability = self._predict_and_learn(column, self._model.prepare(column), codes)
        labelled = codes >= 0
        known = codes[labelled]
        correct = int(np.count_nonzero(classes[labelled] == known))
        scores = Result(records, {}, correct, len(known), self._guesses.score(known))
        return self._answer(classes, probability), scores

    def ask(self, records: pa.Table) -> pa.Table:
        """Return `predicted` and `probability` from the current model, without learning; records need no label."""
        inputs = self._model.prepare(self._inputs(records))
        classes, probability = np.full(records.num_rows, -1, np.int64), np.zeros(records.num_rows)
        if self._known and records.num_rows:
            classes, probability = self._predict(inputs, records.num_rows)
            self._check(classes, probability, "predict")
        return pa.Table.from_arrays(self._answer(classes, probability), schema=pa.schema(ANSWER))

    def ask_all(self, records: pa.Table) -> tuple[list[str], Array]:
        """Return the learned labels, and for each record their probabilities from the current model."""
        names = list(self._names)[: self._known]
        if not isinstance(self._model, ReturnsChances):
            message = "the model of this run returns only its likeliest label; leave out `top`"
            raise MillstreamError(message)
        if not names or not records.num_rows:
            return names, np.zeros((records.num_rows, len(names)))
        return names, self._model.chances(self._model.prepare(self._inputs(records)))

    def learned(self) -> State:
        """Return the state of the model."""
        state = self._model.save()
        check_state(f"the model {type(self._model).__name__}", state)
        return state

    def save(self) -> State:
        waiting = pa.BufferOutputStream()
        with pa.ipc.new_stream(waiting, self._waiting_schema()) as stream:
            if self._waits:
                columns, codes = zip(*self._waiting, strict=True)
                # `take` makes the bytes independent of the memory layout in which the records came.
                column = pa.concat_arrays(columns).take(pa.array(np.arange(self._waits)))
                batch = [column, self._class_names(np.concatenate(codes))]
                stream.write_batch(pa.record_batch(batch, schema=self._waiting_schema()))
        own: dict[str, Array | bytes] = {
            "mini_batches": np.array([self._batches], np.int64),
            "classes": json.dumps(list(self._names)[: self._known], ensure_ascii=False).encode(),
            "waiting": waiting.getvalue().to_pybytes(),
        }
        states = ((_BASELINES, self._guesses.save()), (_MODEL, self.learned()))
        return own | {prefix + name: value for prefix, state in states for name, value in state.items()}

    def restore(self, state: State) -> None:
        self._model.restore(_substate(state, _MODEL))
        self._guesses.restore(_substate(state, _BASELINES))
        self._names: dict[str, int] = {}
        self._waiting: list[tuple[pa.Array, Array]] = []
        self._waits = self._batches = 0
        if state:
            self._batches = int(np.asarray(state["mini_batches"])[0])
            self._names = {name: code for code, name in enumerate(json.loads(bytes(state["classes"])))}
        self._known = len(self._names)
        self._dictionary = _text_array(list(self._names))
        if state:
            with pa.ipc.open_stream(state["waiting"]) as stream:
                self._waiting = [(batch[0], self._codes(batch[1])) for batch in stream]
            self._waits = sum(len(codes) for _, codes in self._waiting)
            if self._waits >= self._size():  # the state is from a run with a larger `batch_size`
                self._learn_waiting()

    @property
    def adds_up(self) -> bool:
        """True if the state is the sum of what the records add to it."""
        return self._batch_size == 1 and isinstance(self._model, Additive) and self._model.adds_up

    def part(self, records: pa.Table, own: pa.Array, labels: Sequence[str]) -> State:
        """The part of these records, with their `own` labels, in the state; `labels` are those of all records."""
        assert isinstance(self._model, Additive)
        codes = pc.fill_null(pc.index_in(own, value_set=_text_array(list(labels))), -1).to_numpy().astype(np.int64)
        delta = self._model.delta(self._model.prepare(self._inputs(records)), codes, len(labels))
        known = codes[codes >= 0]
        return {
            "records": np.array([len(codes)], np.int64),
            "last": known[-1:],
            "counts": np.bincount(known, minlength=len(labels)),
            **{_DELTA + name: value for name, value in delta.items()},
        }

    def add(self, parts: Sequence[State], labels: Sequence[str]) -> None:
        """Add parts in the order of the stream to the state of a new step: the state after all of their records."""
        assert isinstance(self._model, Additive)
        self._model.merge([_substate(part, _DELTA) for part in parts], len(labels))
        self._number(labels)
        self._batches = sum(int(np.asarray(part["records"])[0]) for part in parts)
        last = np.concatenate([np.array([-1], np.int64), *(np.asarray(part["last"]) for part in parts)])[-1:]
        counts = np.sum([np.asarray(part["counts"]) for part in parts], axis=0, dtype=np.int64)
        self._guesses.restore({"last": last, "counts": np.asarray(counts)})

    @property
    def averages(self) -> bool:
        """True if replicas of the step can learn parts of the records, and then be averaged."""
        return isinstance(self._model, Averaged)

    def begin_part(self, labels: Sequence[str]) -> None:
        """Number the labels of all earlier records, some of which only other replicas learn."""
        self._number(labels)
        if labels:
            self._model.learn(self._model.prepare(pa.nulls(0, self._kind)), np.zeros(0, np.int64), len(labels))

    def end_part(self) -> None:
        """Learn the mini-batch that is not yet full."""
        if self._waits:
            self._learn_waiting()

    def average(self, parts: Iterable[tuple[State, int]], labels: Sequence[str]) -> None:
        """Average the states of replicas after their parts, each with its labelled records; parts are in order."""
        assert isinstance(self._model, Averaged)
        guesses = self._guesses.save()
        last, before = guesses["last"], _wide(guesses["counts"], len(labels))
        counts, mini_batches = before, self._batches

        def models() -> Iterator[tuple[State, int]]:
            nonlocal counts, last, mini_batches
            for state, records in parts:
                counts = counts + _wide(state[_BASELINES + "counts"], len(labels)) - before
                last = state[_BASELINES + "last"] if records else last
                mini_batches += int(np.asarray(state["mini_batches"])[0]) - self._batches
                yield _substate(state, _MODEL), records

        self._model.average(models(), len(labels))
        self._guesses.restore({"last": last, "counts": counts})
        self._batches = mini_batches
        self._number(labels)

    def _number(self, labels: Sequence[str]) -> None:
        """Number these labels, all of which the model has learned."""
        self._names = {name: code for code, name in enumerate(labels)}
        self._known, self._dictionary = len(labels), _text_array(list(labels))

    def _codes(self, labels: pa.Array) -> Array:
        """Return the class of each label, -1 for a missing one. New labels get the next numbers."""
        found: Array
        if len(labels) <= FEW_ROWS:
            found = self._numbers(labels.to_pylist())
        else:
            coded = labels.dictionary_encode()
            numbers = self._numbers([*coded.dictionary.to_pylist(), None])
            found = numbers[coded.indices.fill_null(len(numbers) - 1).to_numpy()]
        if len(self._names) > len(self._dictionary):
            self._dictionary = _text_array(list(self._names))
        return found

    def _numbers(self, names: list[str | None]) -> Array:
        known = self._names
        return np.array([-1 if name is None else known.setdefault(name, len(known)) for name in names], np.int64)

    def _class_names(self, classes: Array) -> pa.Array:
        """Return the names of classes, null for -1."""
        return self._dictionary.take(_masked(classes, classes))

    def _predict_and_learn(self, column: pa.Array, inputs: Any, codes: Array) -> tuple[Array, Array]:
        if self._predict_then_learn is not None:
            answer = self._predict_then_learn(inputs, codes, self._known)
            classes, probability = checked_arrays(self._model, "predict_then_learn", answer, len(codes))
            self._batches += len(codes)
            self._known = max(self._known, int(codes.max(initial=-1)) + 1)
            self._check(classes, probability, "predict_then_learn")
            return classes, probability
        classes = np.full(len(column), -1, np.int64)
        probability = np.zeros(len(column))
        start = 0
        while start < len(column):
            stop = min(len(column), start + self._size() - self._waits)
            if self._known:
                classes[start:stop], probability[start:stop] = self._predict(inputs[start:stop], stop - start)
            self._join(column, codes, inputs, start, stop)
            start = stop
        self._check(classes, probability, "predict")
        return classes, probability

    def _predict(self, inputs: Any, rows: int) -> tuple[Array, Array]:
        return checked_arrays(self._model, "predict", self._model.predict(inputs), rows)

    def _check(self, classes: Array, probability: Array, method: str) -> None:
        """Check the predictions of a whole batch at once, which costs less than for each mini-batch."""
        check_predictions(self._model, method, classes, probability, self._known)

    def _size(self) -> int:
        """Return the size that the current mini-batch has when it is full."""
        return (
            self._batch_size
            if self._batches >= self._batch_size.bit_length()
            else min(1 << self._batches, self._batch_size)
        )

    def _join(self, column: pa.Array, codes: Array, inputs: Any, start: int, stop: int) -> None:
        """Add these records to the current mini-batch, and learn it if it is full."""
        if stop - start == self._size():
            self._learn(inputs[start:stop], codes[start:stop])
            return
        self._waiting.append((column[start:stop], codes[start:stop]))
        self._waits += stop - start
        if self._waits == self._size():
            self._learn_waiting()

    def _learn_waiting(self) -> None:
        columns, classes = zip(*self._waiting, strict=True)
        self._learn(self._model.prepare(pa.concat_arrays(columns)), np.concatenate(classes))
        self._waiting, self._waits = [], 0

    def _learn(self, inputs: Any, codes: Array) -> None:
        self._batches += 1
        labelled = np.flatnonzero(codes >= 0)
        if not len(labelled):
            return
        if len(labelled) < len(codes):
            inputs, codes = inputs[labelled], codes[labelled]
        self._known = max(self._known, int(codes.max()) + 1)
        self._model.learn(inputs, codes, self._known)

    def _inputs(self, records: pa.Table) -> pa.Array:
        return _column(records[self._model.reads], self._kind)

    def _answer(self, classes: Array, probability: Array) -> list[pa.Array]:
        return [self._class_names(classes), _masked(probability, classes)]

    def _waiting_schema(self) -> pa.Schema:
        return pa.schema([pa.field("input", self._kind), pa.field("label", pa.string())])


def labels_of(records: pa.Table, label: str) -> pa.Array:
    """The labels of these records, of which `label` is the column."""
    return _column(records[label], pa.string())


def _substate(state: State, prefix: str) -> State:
    return {name.removeprefix(prefix): state[name] for name in state if name.startswith(prefix)}


def _wide(counts: Value, classes: int) -> Array:
    """Counts by class, with zeros for the classes that have none yet."""
    counts = np.asarray(counts)
    return np.pad(counts, (0, classes - len(counts)))


def _masked(values: Array, classes: Array) -> pa.Array:
    """Return these values, with null where the class is -1."""
    if not len(values):
        return pa.nulls(0, pa.from_numpy_dtype(values.dtype))  # `pa.array` would import pandas, see `no_records`
    none = classes < 0
    return pa.array(values, mask=none) if none.any() else pa.array(values)


def _text_array(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.string()) if texts else pa.nulls(0, pa.string())


def _column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """A column as one array of this type."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return one_array(column if column.type == kind else column.cast(kind))
