"""One trial: a planned sequence of records through a learner, and the metrics of its results."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from millstream.arrays import Array
from millstream.study.closed_form import ClosedForm
from millstream.study.learner import Learner, LearnerState
from millstream.study.recovery import Recovery
from millstream.study.streams import OrderedStream
from millstream.study.treatments import Delivered, Plan, StateLoss
from millstream.study.trial import Trial

__all__ = ["Inputs", "Sequence", "predict_all", "run_trial"]


@dataclass(frozen=True)
class Inputs:
    """A stream, its hold-out records and those before it, in the form that one learner has prepared."""

    stream: OrderedStream
    rows: Any
    holdout: Any
    before: Any


@dataclass(frozen=True)
class Results:
    """The results of a trial with which other trials are compared.

    `shorter` has the hold-out accuracy before the last records of the stream, by the number of records that lack.
    """

    holdout: Array
    label_shares: Array
    predicted_shares: Array
    predicted: Array
    shorter: Mapping[int, float]


class Sequence:
    """The planned sequence of a trial, and all results that do not depend on the learner."""

    def __init__(self, trial: Trial, plan: Plan, stream: OrderedStream, closed_form: ClosedForm, labels: int) -> None:
        delivered, records = plan.delivered, len(stream.labels)
        self.plan = plan
        self.labels = stream.labels[delivered.positions]
        self.first = delivered.first & delivered.output
        self.label_shares = _shares(self.labels[delivered.output], labels)
        rows, trained = int(delivered.output.sum()), int(delivered.state.sum())
        different, learned = (
            int(np.count_nonzero(np.bincount(delivered.positions[marked], minlength=records)))
            for marked in (delivered.output, delivered.state)
        )
        self.counts = {
            "delivered": rows,
            "repeated": rows - different,
            "lost": records - different,
            "trained_twice": trained - learned,
            "not_trained": records - learned,
        }
        self.expected = closed_form.columns(trial, self.counts)
        self.recovery = Recovery(delivered.positions, self.first, plan.failed_at)


def predict_all(inputs: Inputs, learner: Learner) -> Array:
    """Train a learner on the records before the stream; return the labels that it then predicts for the stream."""
    before = inputs.stream.before_labels
    learner.restart()
    learner.process(inputs.before, np.arange(len(before)), before)
    return learner.judge(inputs.rows, inputs.stream.labels)[0]


def run_trial(
    trial: Trial,
    sequence: Sequence,
    inputs: Inputs,
    learner: Learner,
    pair: Results | None,
    threshold: float,
    frozen: Array | None = None,
    lacking: Collection[int] = (),
) -> tuple[dict[str, Any], Results]:
    """Run a trial and compare it with its pair; return its row of the result table, and its results.

    Without a pair, the trial is compared with itself. `frozen` are the predictions of a learner that no longer learns.
    `lacking` are numbers of records: the learner is judged before the last ones of the sequence too.
    """
    began, learner.seconds = time.thread_time(), 0.0
    delivered, shares = sequence.plan.delivered, sequence.label_shares
    shorter: dict[int, float] = {}
    if frozen is None:
        learner.restart()
        predicted = _run(trial, sequence.plan, inputs, learner, lacking, shorter)
    else:
        predicted = frozen[delivered.positions]
    holdout_labels = inputs.stream.holdout_labels
    held_out, log_loss = learner.judge(inputs.holdout, holdout_labels)
    predicted_shares = _shares(predicted[delivered.output & (predicted >= 0)], len(shares))
    results = Results(held_out, shares, predicted_shares, predicted, shorter)
    base = results if pair is None else pair
    right = predicted == sequence.labels
    metrics = {
        "accuracy_first": float(right[sequence.first].mean()),
        "accuracy_all": float(right[delivered.output].mean()),
        "holdout_accuracy": float((held_out == holdout_labels).mean()),
        "holdout_log_loss": log_loss,
        "labels_changed": float((held_out != base.holdout).mean()),
        "shorter_accuracy": None if pair is None else pair.shorter.get(sequence.counts["not_trained"]),
        **sequence.recovery.columns(predicted, sequence.labels, base.predicted),
        "share_bias": (shares - base.label_shares).tolist(),
        "predicted_share_bias": (predicted_shares - base.predicted_shares).tolist(),
        "label_shares": shares.tolist(),
        "predicted_shares": predicted_shares.tolist(),
        **sequence.expected,
        "flips": _flips(shares, base.label_shares, threshold),
        "predicted_flips": _flips(predicted_shares, base.predicted_shares, threshold),
        "leader_changed": bool(shares.argmax() != base.label_shares.argmax()),
        "predicted_leader_changed": bool(predicted_shares.argmax() != base.predicted_shares.argmax()),
        **sequence.counts,
        "model_seconds": learner.seconds,
        "seconds": time.thread_time() - began,
    }
    return {"key": trial.key, **trial.columns(), **metrics}, results


def _run(
    trial: Trial,
    plan: Plan,
    inputs: Inputs,
    learner: Learner,
    lacking: Collection[int],
    shorter: dict[int, float],
) -> Array:
    """Feed the sequence to the learner; return the predicted label of each entry, -1 of one that was not processed.

    Before the last `lacking` entries, the learner is judged, and `shorter` gets its hold-out accuracy.
    """
    delivered, labels = plan.delivered, inputs.stream.labels
    predicted = np.full(len(delivered.positions), -1, np.int64)
    lost_at = {loss.at: (number, loss) for number, loss in enumerate(plan.losses)}
    kept: dict[int, LearnerState] = {}
    wanted = {loss.since for loss in plan.losses if loss.since is not None}
    replayed: list[tuple[int, int]] = []
    judged = {len(predicted) - number: number for number in lacking}
    for start, stop in _pieces(plan, judged):
        if start in judged:
            held_out, _ = learner.judge(inputs.holdout, inputs.stream.holdout_labels)
            shorter[judged[start]] = float((held_out == inputs.stream.holdout_labels).mean())
        if start in wanted:
            kept[start] = learner.save()
        if start in lost_at:
            _lose(learner, *lost_at[start], kept, trial.seed)
        if start == stop or not (delivered.output[start] or delivered.state[start]):
            continue
        if not delivered.state[start] and _is_replayed(delivered, start, stop):
            replayed.append((start, stop))
            continue
        before = None if delivered.state[start] else learner.save()
        rows = delivered.positions[start:stop]
        predicted[start:stop] = learner.process(inputs.rows, rows, labels[rows])
        if before is not None:
            learner.restore(before)
    for start, stop in replayed:
        predicted[start:stop] = predicted[stop : 2 * stop - start]
    return predicted


def _is_replayed(delivered: Delivered, start: int, stop: int) -> bool:
    """Return whether the same records follow and are kept: from the same state, they get the same predictions."""
    again = slice(stop, 2 * stop - start)
    return bool(
        np.array_equal(delivered.positions[start:stop], delivered.positions[again]) and delivered.state[again].all()
    )


def _pieces(plan: Plan, judged: Collection[int]) -> list[tuple[int, int]]:
    """Divide a sequence where the kind of its entries changes, the run restarts, or a state is kept, lost or judged."""
    delivered = plan.delivered
    kinds = delivered.state * 2 + (delivered.output & ~delivered.state)
    edges = {0, len(kinds), *judged, *plan.restarts, *(np.flatnonzero(np.diff(kinds)) + 1).tolist()}
    edges |= {loss.at for loss in plan.losses} | {loss.since for loss in plan.losses if loss.since is not None}
    ordered = sorted(edges)
    return [*zip(ordered, [*ordered[1:], len(kinds)], strict=True)]


def _lose(learner: Learner, number: int, loss: StateLoss, kept: dict[int, LearnerState], seed: int) -> None:
    if loss.since is None:
        learner.lose_optimiser()
    else:
        learner.return_part(kept[loss.since], loss.part, np.random.default_rng([seed, 5, number]))


def _shares(found: Array, labels: int) -> Array:
    counts = np.bincount(found, minlength=labels)
    shares: Array = counts / max(1, counts.sum())
    return shares


def _flips(shares: Array, base: Array, threshold: float) -> int:
    """Return the number of labels that are popular in only one of two outputs."""
    return int(((shares >= threshold) != (base >= threshold)).sum())
