"""The checks of a model, each a function that raises AssertionError and says what differed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.state.digests import state_digest
from millstream.state.touched import Touched
from millstream.steps.checks.step_run import in_states
from millstream.steps.checks.steps import STEP_CHECKS, check_step, chosen
from millstream.steps.classify import Classify
from millstream.steps.contracts import Array, LearnsInTurn, Model, ModelConfig, State

__all__ = ["MODEL_CHECKS", "check_model"]


def check_model(config: ModelConfig, records: pa.Table, label: str = "label", skip: Collection[str] = ()) -> None:
    """Run the battery over a model, and that of steps over `classify` with it.

    `records` has `_rank, _offset, _time`, the column that the model reads and labels of at least two kinds; a few
    times the model's `block` of rows are best.

    >>> from millstream_models.river_nb import RiverNB
    >>> records = pa.table({"_rank": [0] * 4, "_offset": range(4), "_time": range(4), "label": ["a", "b", "b", "a"]})
    >>> records = records.append_column("text", [["high tide", "low tide", "low", "high"]])
    >>> check_model(RiverNB(), records, skip=["another_process_changes_nothing"])
    """
    trial = Trial.of(config, records, label)
    wanted = chosen([*MODEL_CHECKS, *STEP_CHECKS], skip)
    for name, check in MODEL_CHECKS.items():
        if name in wanted:
            check(trial)
    check_step(Classify(model=config, label=label), records, [name for name in STEP_CHECKS if name not in wanted])


@dataclass(frozen=True)
class Trial:
    """What the checks try a model with: its column, and class numbers by first appearance."""

    config: ModelConfig
    schema: pa.Schema
    column: pa.Array
    labels: Array

    @classmethod
    def of(cls, config: ModelConfig, records: pa.Table, label: str) -> Trial:
        """The labelled ones of these records."""
        labelled = records.filter(records[label].is_valid()).combine_chunks()
        coded = labelled[label].cast(pa.string()).combine_chunks().dictionary_encode()
        if len(coded.dictionary) < 2:
            message = f"a model is tried with at least two labels; {label!r} has {coded.dictionary.to_pylist()}"
            raise ValueError(message)
        column = labelled[config.build(records.schema).reads].combine_chunks()
        return cls(config, records.schema, column, coded.indices.to_numpy().astype(np.int64))

    def new(self) -> Model:
        return self.config.build(self.schema)

    def block(self, start: int, stop: int) -> tuple[pa.Array, Array, int]:
        """Some rows, their classes, and how many classes there are by then."""
        return self.column[start:stop], self.labels[start:stop], int(self.labels[:stop].max()) + 1

    def teach(self, model: Model, start: int, stop: int) -> None:
        column, labels, classes = self.block(start, stop)
        model.learn(model.prepare(column), labels, classes)

    def taught(self) -> Model:
        """A model that has learned all rows, in blocks of one, two, four, ... so that its classes grow."""
        model, start, size = self.new(), 0, 1
        while start < len(self.column):
            self.teach(model, start, min(start + size, len(self.column)))
            start, size = start + size, size * 2
        return model


def predictions_are_classes(trial: Trial) -> None:
    """Each row gets the number of a class that is known, and a probability."""
    model = trial.new()
    middle = max(1, len(trial.column) // 2)
    for start, stop in ((0, 1), (1, middle), (middle, len(trial.column))):
        if start == stop:
            continue
        trial.teach(model, start, stop)
        known = trial.block(start, stop)[2]
        classes, probability = model.predict(model.prepare(trial.column))
        for what, values, kind in (("classes", classes, "int64"), ("probabilities", probability, "float64")):
            found = f"{values.dtype}{list(values.shape)}" if isinstance(values, np.ndarray) else type(values).__name__
            if found != f"{kind}[{len(trial.column)}]":
                message = f"{trial.config!r} predicts {what} as {found}"
                raise AssertionError(f"{message}; an array {kind}[{len(trial.column)}] has one for each row")
        if classes.min() < 0 or classes.max() >= known:
            message = f"{trial.config!r} predicts a class of {sorted(set(classes.tolist()))} when it knows {known}"
            raise AssertionError(message)
        if not ((probability >= 0) & (probability <= 1 + 1e-12)).all():
            wrong = probability[~((probability >= 0) & (probability <= 1 + 1e-12))][0]
            raise AssertionError(f"{trial.config!r} predicts with the probability {wrong}")


def predictions_are_pure(trial: Trial) -> None:
    """Predicting changes nothing."""
    model = trial.taught()
    before = model.save()
    rows = model.prepare(trial.column)
    first, again = model.predict(rows), model.predict(rows)
    found = in_states(before, model.save())
    if found is not None:
        raise AssertionError(f"{trial.config!r} learns while it predicts; {found}")
    _same(trial, first, again, "when asked again")


def rows_can_be_cut(trial: Trial) -> None:
    """Rows are predicted alike alone and among others, prepared together or apart."""
    model = trial.taught()
    rows = model.prepare(trial.column)
    expected = model.predict(rows)
    size = len(trial.column)
    alone = [model.predict(rows[row : row + 1]) for row in range(size)]
    _same(trial, expected, _joined(alone), "when rows are taken one by one as [start:stop]")
    halves = [model.predict(rows[np.arange(size // 2)]), model.predict(rows[np.arange(size // 2, size)])]
    _same(trial, expected, _joined(halves), "when rows are taken as [indices]")
    apart = [model.predict(model.prepare(trial.column[row : row + 1])) for row in range(size)]
    _same(trial, expected, _joined(apart), "when rows are prepared one by one")


def prepared_rows_are_not_modified(trial: Trial) -> None:
    """Rows can be learned from, and predicted, more than once."""
    one, other = trial.new(), trial.new()
    _, labels, classes = trial.block(0, len(trial.column))
    rows = one.prepare(trial.column)
    for model in (one, other):
        model.learn(rows, labels, classes)
        model.predict(rows)
    found = in_states(one.save(), other.save())
    if found is not None:
        raise AssertionError(f"{trial.config!r} changes the rows that it is given; {found}")


def state_is_plain(trial: Trial) -> None:
    """A state is made of arrays of numbers and of bytes, and is no pickle."""
    for name, value in trial.taught().save().items():
        array = isinstance(value, np.ndarray | Touched) and not value.dtype.hasobject
        if not (isinstance(value, bytes) or array):
            found = "an array of Python objects" if isinstance(value, np.ndarray) else type(value).__name__
            raise AssertionError(f"{trial.config!r} saves {name!r} as {found}; save arrays of numbers, and bytes")
        if isinstance(value, bytes) and value[:1] == b"\x80" and value[-1:] == b".":
            raise AssertionError(f"{trial.config!r} saves {name!r} as a pickle; write arrays, or JSON")


def a_restored_model_goes_on(trial: Trial) -> None:
    """A model restored from a save learns and predicts as the one that was saved, to the bit."""
    middle, size = len(trial.column) // 2, len(trial.column)
    model, restored = trial.new(), trial.taught()
    if middle:
        trial.teach(model, 0, middle)
    state = model.save()
    digest = state_digest(state)
    restored.restore(state)
    found = in_states(state, restored.save())
    if found is not None:
        raise AssertionError(f"{trial.config!r} does not restore all that it saves; {found}")
    for each in (model, restored):
        trial.teach(each, middle, size)
    found = in_states(model.save(), restored.save())
    if found is not None:
        raise AssertionError(f"{trial.config!r} learns differently once restored; {found}")
    answers = [each.predict(each.prepare(trial.column)) for each in (model, restored)]
    _same(trial, answers[0], answers[1], "once restored")
    if state_digest(state) != digest:
        message = f"{trial.config!r} goes on writing to what it saved, or was restored from; save and restore copies"
        raise AssertionError(message)


def restoring_nothing_makes_a_new_model(trial: Trial) -> None:
    """An empty state is that of a new model, also for one that has learned."""
    empty: State = {}
    model = trial.taught()
    model.restore(empty)
    found = in_states(trial.new().save(), model.save())
    if found is not None:
        raise AssertionError(f"{trial.config!r} remembers something when restored from an empty state; {found}")


def learning_in_turn_is_row_by_row(trial: Trial) -> None:
    """What `in_turn` gives, however rows are cut, is what `predict` and `learn` give one by one; for models with it."""
    dice = np.random.default_rng(0)
    labels = _some_missing(trial.labels, dice)
    size = len(labels)
    for cuts in (0, 3, 1 + size // 4):
        model = trial.new()
        if not isinstance(model, LearnsInTurn):
            return
        edges = sorted(dice.integers(0, size + 1, cuts).tolist())
        answers = _in_turn(model, trial.column, labels, [0, *edges, size])
        expected, state = _one_by_one(trial, labels)
        _same(trial, expected, answers, f"with in_turn, cut at {edges}")
        found = in_states(state, model.save())
        if found is not None:
            raise AssertionError(f"{trial.config!r} learns something else with in_turn, cut at {edges}; {found}")


MODEL_CHECKS: dict[str, Callable[[Trial], None]] = {
    check.__name__: check
    for check in (
        state_is_plain,
        predictions_are_classes,
        predictions_are_pure,
        rows_can_be_cut,
        prepared_rows_are_not_modified,
        a_restored_model_goes_on,
        restoring_nothing_makes_a_new_model,
        learning_in_turn_is_row_by_row,
    )
}
"""What models are checked for beside what steps are, by name."""


def _some_missing(labels: Array, dice: np.random.Generator) -> Array:
    """These labels without the first one and some others, and numbered by first appearance again; -1 is missing."""
    kept = dice.random(len(labels)) < 0.8
    kept[0] = False
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels[kept].tolist()))}
    missing = np.full(len(labels), -1, np.int64)
    missing[kept] = [numbers[label] for label in labels[kept].tolist()]
    return missing


def _one_by_one(trial: Trial, labels: Array) -> tuple[tuple[Array, Array], State]:
    """What a new model predicts for each row before it learns it, and its state after that."""
    model, known = trial.new(), 0
    rows = model.prepare(trial.column)
    answers = []
    for row, label in enumerate(labels.tolist()):
        one = rows[row : row + 1]
        answers.append(model.predict(one) if known else (np.array([-1]), np.zeros(1)))
        if label >= 0:
            known = max(known, label + 1)
            model.learn(one, labels[row : row + 1], known)
    return _joined(answers), model.save()


def _in_turn(model: LearnsInTurn, column: pa.Array, labels: Array, edges: Sequence[int]) -> tuple[Array, Array]:
    """The same by `in_turn`, with the rows cut at these edges, saved and restored at each."""
    answers = []
    for start, stop in itertools.pairwise(edges):
        known = int(labels[:start].max(initial=-1)) + 1
        answers.append(model.in_turn(model.prepare(column[start:stop]), labels[start:stop], known))
        model.restore(model.save())
    return _joined(answers)


def _joined(answers: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    classes, probability = zip(*answers, strict=True)
    return np.concatenate(classes), np.concatenate(probability)


def _same(trial: Trial, expected: tuple[Array, Array], found: tuple[Array, Array], when: str) -> None:
    for what, left, right in zip(("class", "probability"), expected, found, strict=True):
        differs = np.flatnonzero(_bits(left) != _bits(right))
        if len(differs):
            row = int(differs[0])
            message = f"{trial.config!r} predicts for row {row} the {what} {left[row]}, but {right[row]} {when}"
            raise AssertionError(message)


def _bits(values: Array) -> Any:
    return values.astype(np.float64).view(np.int64)
