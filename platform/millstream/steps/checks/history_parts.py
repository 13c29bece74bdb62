"""The checks of models that learn the parts of a history apart from each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from millstream.state.digests import state_digest
from millstream.steps.checks.model_trial import Trial
from millstream.steps.checks.step_run import find_state_difference
from millstream.steps.contracts import Additive, Averaged, State

__all__ = ["deltas_add_up", "replicas_average"]

_SUM = "let `delta` return sums over its rows, and let `merge` add them, then compute what does not add up"
_MEAN = "let `average` take the rows that replicas changed from their states, and change neither these nor other rows"


def deltas_add_up(trial: Trial) -> None:
    """Check that parts of the rows, dealt and merged in any order, give the state of a model that learned them all."""
    dice = np.random.default_rng(0)
    model = trial.build()
    if not isinstance(model, Additive) or not model.adds_up:
        return
    rows, classes = model.prepare(trial.column), int(trial.labels.max()) + 1
    model.learn(rows, trial.labels, classes)
    expected, before = model.save(), state_digest(model.save())
    for parts in (1, 2, 5):
        dealt = dice.integers(0, parts, len(trial.labels))
        places = [np.flatnonzero(dealt == part) for part in dice.permutation(parts).tolist()]
        deltas = [model.delta(rows[each], trial.labels[each], classes) for each in [*places, places[0][:0]]]
        if state_digest(model.save()) != before:
            raise AssertionError(f"{trial.config!r} changes in `delta`; let it return what the rows would add")
        numbers = [array for delta in deltas for array in delta.values()]
        if any((np.abs(each) >= 2**53).any() or (each != np.trunc(each)).any() for each in numbers):
            raise AssertionError(f"{trial.config!r} has a delta with other numbers than whole ones below 2^53; {_SUM}")
        merged = trial.build()
        merged.merge(deltas, classes)  # type: ignore[attr-defined]
        found = find_state_difference(expected, merged.save())
        if found is not None:
            message = f"{trial.config!r} has another state after a merge of {parts} deltas than after `learn`"
            raise AssertionError(f"{message}; {found}; {_SUM}")


def replicas_average(trial: Trial) -> None:
    """Check the average of replicas: of one it is this one, a replica without records changes nothing."""
    if not isinstance(trial.build(), Averaged):
        return
    size, middle = len(trial.column), len(trial.column) // 2
    begun = trial.build()
    if middle:
        trial.teach(begun, 0, middle)
    start = begun.save()
    for parts in (1, 2, 5):
        bounds = [middle + -(-(size - middle) * part // parts) for part in range(parts + 1)]
        replicas = [(_replica(trial, start, first, last), last - first) for first, last in pairwise(bounds)]
        digests = [state_digest(state) for state, _ in replicas]
        average = _average(trial, start, replicas)
        if [state_digest(state) for state, _ in replicas] != digests:
            raise AssertionError(f"{trial.config!r} changes the states of replicas in `average`; {_MEAN}")
        found = find_state_difference(replicas[0][0], average) if parts == 1 else None
        _refuse(trial, found, "has another state after the average of one replica than this replica")
        found = find_state_difference(average, _average(trial, start, [*replicas, (start, 0)]))
        _refuse(trial, found, f"has another average of {parts} replicas with one that learned nothing")
        found = find_state_difference(average, _average(trial, start, replicas))
        _refuse(trial, found, f"has another average of the same {parts} replicas when it is taken again")


def _replica(trial: Trial, start: State, first: int, last: int) -> State:
    """The state of a replica that began with a state and has learned these rows."""
    model = trial.build()
    model.restore(start)
    if first < last:
        trial.teach(model, first, last)
    return model.save()


def _average(trial: Trial, start: State, replicas: Sequence[tuple[State, int]]) -> State:
    model = trial.build()
    model.restore(start)
    assert isinstance(model, Averaged)
    model.average(iter(replicas), int(trial.labels.max()) + 1)
    return model.save()


def _refuse(trial: Trial, found: str | None, what: str) -> None:
    if found is not None:
        raise AssertionError(f"{trial.config!r} {what}; {found}; {_MEAN}")
