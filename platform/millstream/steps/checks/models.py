"""The checks of a model. Each check is a function that raises AssertionError with the difference that it found."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.state.digests import state_digest
from millstream.steps.checks.failures import named_failures
from millstream.steps.checks.history_parts import deltas_add_up, replicas_average
from millstream.steps.checks.model_trial import Trial
from millstream.steps.checks.plain_state import find_object
from millstream.steps.checks.step_run import find_state_difference
from millstream.steps.checks.steps import STEP_CHECKS, check_step, odd_places, select_checks
from millstream.steps.classify import Classify
from millstream.steps.contracts import Array, ModelConfig, PredictsThenLearns, State

__all__ = ["MODEL_CHECKS", "check_model"]

_CLASSES = "return only numbers of classes that `learn` got"
_PURE = "let `predict` change nothing, and use no random numbers, clock or counter"
_ROWS = "let the answer for a row depend on this row and on what was learned, not on the other rows of a call"
_REPEATABLE = (
    "let `learn` and `predict` use no clock, no unseeded random numbers, and no state that models share, as in a class"
)
_STATE = "let `save` return everything that `learn` and `predict` use, and let `restore` copy it"
_AT_ONCE = "let `predict_then_learn` give the results of `predict` and `learn` row by row, to the bit"


def check_model(config: ModelConfig, records: pa.Table, label: str = "label", skip: Collection[str] = ()) -> None:
    """Run all checks of models on a model, and all checks of steps on `classify` with this model.

    `records` has the columns `_rank`, `_offset` and `_time`, the column that the model reads, and a column of labels
    with at least two different labels. A good number of records is a small multiple of the model's `batch_size`.

    >>> from millstream_models.river_nb import RiverNB
    >>> records = pa.table({"_rank": [0] * 4, "_offset": range(4), "_time": range(4), "label": ["a", "b", "b", "a"]})
    >>> records = records.append_column("text", [["high tide", "low tide", "low", "high"]])
    >>> check_model(RiverNB(), records, skip=["another_process_changes_nothing"])
    """
    trial = Trial.of(config, records, label)
    selected = select_checks([*MODEL_CHECKS, *STEP_CHECKS], skip)
    for name, check in MODEL_CHECKS.items():
        if name in selected:
            with named_failures(name, repr(config)):
                check(trial)
    check_step(Classify(model=config, label=label), records, [name for name in STEP_CHECKS if name not in selected])


def predictions_are_classes(trial: Trial) -> None:
    """Check that the model predicts for each row the number of a class that it has learned, and a probability."""
    model = trial.build()
    middle = max(1, len(trial.column) // 2)
    for start, stop in ((0, 1), (1, middle), (middle, len(trial.column))):
        if start == stop:
            continue
        trial.teach(model, start, stop)
        known = trial.rows(start, stop)[2]
        answer: object = model.predict(model.prepare(trial.column))
        if not isinstance(answer, tuple) or len(answer) != 2:
            found = f"{trial.config!r}: `predict` returns a value of the type {type(answer).__name__}"
            raise AssertionError(f"{found}; return a tuple of two arrays: classes and probabilities")
        classes, probability = answer
        for what, values, kind in (("classes", classes, "int64"), ("probabilities", probability, "float64")):
            found = f"{values.dtype}{list(values.shape)}" if isinstance(values, np.ndarray) else type(values).__name__
            if found != f"{kind}[{len(trial.column)}]":
                message = f"{trial.config!r} predicts {what} as {found}"
                raise AssertionError(
                    f"{message}; return an array {kind}[{len(trial.column)}] with one value for each row"
                )
        if classes.min() < 0 or classes.max() >= known:
            message = f"{trial.config!r} predicts the classes {sorted(set(classes.tolist()))}"
            raise AssertionError(f"{message}, but has learned only the classes 0 to {known - 1}; {_CLASSES}")
        if not ((probability >= 0) & (probability <= 1 + 1e-12)).all():
            wrong = probability[~((probability >= 0) & (probability <= 1 + 1e-12))][0]
            found = f"{trial.config!r} predicts the probability {wrong}, which is not between 0 and 1"
            raise AssertionError(f"{found}; return a finite number from 0 to 1 for each row")


def predictions_are_pure(trial: Trial) -> None:
    """Check that a prediction does not change the state of the model, and that a repeated prediction is the same."""
    model = trial.build_taught()
    before = model.save()
    rows = model.prepare(trial.column)
    first, second = model.predict(rows), model.predict(rows)
    found = find_state_difference(before, model.save())
    if found is not None:
        raise AssertionError(f"{trial.config!r} changes its state while it predicts; {found}; {_PURE}")
    _check_same(trial, first, second, "when it predicts again", _PURE)


def rows_can_be_cut(trial: Trial) -> None:
    """Check that the prediction for a row does not depend on the other rows, in `prepare` and in `predict`."""
    model = trial.build_taught()
    rows = model.prepare(trial.column)
    expected = model.predict(rows)
    size = len(trial.column)
    one_by_one = [model.predict(rows[row : row + 1]) for row in range(size)]
    _check_same(trial, expected, _join(one_by_one), "when rows are taken one by one as [start:stop]", _ROWS)
    halves = [model.predict(rows[np.arange(size // 2)]), model.predict(rows[np.arange(size // 2, size)])]
    _check_same(trial, expected, _join(halves), "when rows are taken as [indices]", _ROWS)
    prepared_alone = [model.predict(model.prepare(trial.column[row : row + 1])) for row in range(size)]
    _check_same(trial, expected, _join(prepared_alone), "when rows are prepared one by one", _ROWS)


def learning_is_repeatable(trial: Trial) -> None:
    """Check that two new models that learn the same rows have the same state and the same predictions."""
    one, other = trial.build_taught(), trial.build_taught()
    answers = [each.predict(each.prepare(trial.column)) for each in (one, other)]
    _check_same(trial, answers[0], answers[1], "with another new model that learned the same rows", _REPEATABLE)
    found = find_state_difference(one.save(), other.save())
    if found is not None:
        message = f"{trial.config!r} saves different states of two new models that learned the same rows; {found}"
        raise AssertionError(
            f"{message}; the state depends on more than the rows, such as the order of a set, a clock, or the memory "
            "addresses in a pickle: save what the model has learned as arrays or JSON, in a fixed order"
        )


def prepared_rows_are_not_modified(trial: Trial) -> None:
    """Check that a model does not change prepared rows: two models can learn and predict the same rows."""
    apart = [trial.build(), trial.build()]
    one, other = trial.build(), trial.build()
    _, labels, classes = trial.rows(0, len(trial.column))
    for model in apart:
        model.learn(model.prepare(trial.column), labels, classes)
    if find_state_difference(apart[0].save(), apart[1].save()) is not None:
        return  # `learning_is_repeatable` fails: a difference says nothing about the rows
    rows = one.prepare(trial.column)
    for model in (one, other):
        model.learn(rows, labels, classes)
        model.predict(rows)
    found = find_state_difference(one.save(), other.save())
    if found is not None:
        raise AssertionError(
            f"{trial.config!r} changes the rows that it gets; {found}; copy the rows, then change the copy"
        )


def state_is_plain(trial: Trial) -> None:
    """Check that each value of a state is an array without Python objects, or a byte string that is not a pickle."""
    if (found := find_object(trial.build_taught().save())) is not None:
        raise AssertionError(f"{trial.config!r} has {found}")


def a_restored_model_goes_on(trial: Trial) -> None:
    """Check that a restored model learns and predicts, bit for bit, like the model that was saved."""
    middle, size = len(trial.column) // 2, len(trial.column)
    model, restored = trial.build(), trial.build_taught()
    if middle:
        trial.teach(model, 0, middle)
    state = model.save()
    digest = state_digest(state)
    restored.restore(state)
    found = find_state_difference(state, restored.save())
    if found is not None:
        raise AssertionError(f"{trial.config!r} does not restore its whole state; {found}; {_STATE}")
    for each in (model, restored):
        trial.teach(each, middle, size)
    found = find_state_difference(model.save(), restored.save())
    if found is not None:
        raise AssertionError(f"{trial.config!r} learns differently after its state was restored; {found}; {_STATE}")
    answers = [each.predict(each.prepare(trial.column)) for each in (model, restored)]
    _check_same(trial, answers[0], answers[1], "after its state was restored", _STATE)
    if state_digest(state) != digest:
        message = f"{trial.config!r} changes a state after it was saved or restored; let `save` and `restore` copy"
        raise AssertionError(message)
    _check_odd_places(trial)


def _check_odd_places(trial: Trial) -> None:
    """Compare a model that is saved and restored at odd places with one that is not."""
    model, restored = trial.build(), trial.build()
    places = odd_places(len(trial.column))
    for start, stop in itertools.pairwise([0, *places, len(trial.column)]):
        for each in (model, restored):
            trial.teach(each, start, stop)
        state = restored.save()
        restored = trial.build()
        restored.restore(state)
    found = find_state_difference(model.save(), restored.save())
    when = f"after its state was saved and restored at the rows {places}"
    if found is not None:
        message = f"{trial.config!r} learns differently {when}; {found}"
        raise AssertionError(f"{message}; {_STATE}")
    answers = [each.predict(each.prepare(trial.column)) for each in (model, restored)]
    _check_same(trial, answers[0], answers[1], when, _STATE)


def an_empty_state_is_a_new_model(trial: Trial) -> None:
    """Check that a model that has learned is like a new model after an empty state was restored."""
    empty: State = {}
    model = trial.build_taught()
    model.restore(empty)
    found = find_state_difference(trial.build().save(), model.save())
    if found is not None:
        message = f"{trial.config!r} is not like a new model after an empty state was restored; {found}"
        raise AssertionError(f"{message}; let `restore({{}})` forget everything")


def predict_then_learn_is_row_by_row(trial: Trial) -> None:
    """Check that `predict_then_learn` gives the results of `predict` and `learn` row by row, however rows are split."""
    dice = np.random.default_rng(0)
    labels = _remove_some(trial.labels, dice)
    size = len(labels)
    for cuts in (0, 3, 1 + size // 4):
        model = trial.build()
        if not isinstance(model, PredictsThenLearns):
            return
        cut_at = sorted(dice.integers(0, size + 1, cuts).tolist())
        answers = _predict_then_learn(model, trial.column, labels, [0, *cut_at, size])
        expected, state = _run_row_by_row(trial, labels)
        _check_same(trial, expected, answers, f"with `predict_then_learn` of rows split at {cut_at}", _AT_ONCE)
        found = find_state_difference(state, model.save())
        if found is not None:
            message = f"{trial.config!r} learns differently with `predict_then_learn` of rows split at {cut_at}"
            raise AssertionError(f"{message}; {found}; {_AT_ONCE}")


MODEL_CHECKS: dict[str, Callable[[Trial], None]] = {
    check.__name__: check
    for check in (
        state_is_plain,
        predictions_are_classes,
        predictions_are_pure,
        learning_is_repeatable,
        rows_can_be_cut,
        prepared_rows_are_not_modified,
        a_restored_model_goes_on,
        an_empty_state_is_a_new_model,
        predict_then_learn_is_row_by_row,
        deltas_add_up,
        replicas_average,
    )
}
"""The checks of models, by name; `check_model` also runs the checks of steps."""


def _remove_some(labels: Array, dice: np.random.Generator) -> Array:
    """Replace the first label and some other labels by -1, and number the other classes again by first appearance."""
    kept = dice.random(len(labels)) < 0.8
    kept[0] = False
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels[kept].tolist()))}
    missing = np.full(len(labels), -1, np.int64)
    missing[kept] = [numbers[label] for label in labels[kept].tolist()]
    return missing


def _run_row_by_row(trial: Trial, labels: Array) -> tuple[tuple[Array, Array], State]:
    """Let one new model predict and then learn row after row; return the predictions and the state after the last."""
    model, known = trial.build(), 0
    rows = model.prepare(trial.column)
    answers = []
    for row, label in enumerate(labels.tolist()):
        one = rows[row : row + 1]
        answers.append(model.predict(one) if known else (np.array([-1]), np.zeros(1)))
        if label >= 0:
            known = max(known, label + 1)
            model.learn(one, labels[row : row + 1], known)
    return _join(answers), model.save()


def _predict_then_learn(
    model: PredictsThenLearns, column: pa.Array, labels: Array, bounds: Sequence[int]
) -> tuple[Array, Array]:
    """Call `predict_then_learn` on the rows from each bound to the next; save and restore the model after each call."""
    answers = []
    for start, stop in itertools.pairwise(bounds):
        known = int(labels[:start].max(initial=-1)) + 1
        answers.append(model.predict_then_learn(model.prepare(column[start:stop]), labels[start:stop], known))
        model.restore(model.save())
    return _join(answers)


def _join(answers: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    classes, probability = zip(*answers, strict=True)
    return np.concatenate(classes), np.concatenate(probability)


def _check_same(
    trial: Trial, expected: tuple[Array, Array], found: tuple[Array, Array], when: str, remedy: str
) -> None:
    for what, left, right in zip(("class", "probability"), expected, found, strict=True):
        differs = np.flatnonzero(_bits(left) != _bits(right))
        if len(differs):
            row = int(differs[0])
            message = (
                f"{trial.config!r} predicts the {what} {left[row]} for row {row}, but predicts {right[row]} {when}"
            )
            raise AssertionError(f"{message}; {remedy}")


def _bits(values: Array) -> Any:
    return values.astype(np.float64).view(np.int64)
