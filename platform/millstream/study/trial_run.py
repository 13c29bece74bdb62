"""One trial: a planned sequence of records through a learner, and the metrics of its results."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
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


@dataclass(frozen=True)
class Piece:
    """Entries of a sequence that the learner processes in one call.

    Before them comes what happens at the `moment`, the number of an entry. Unless the piece is `kept`, the learner then
    returns to its state before it.
    """

    moment: int | None
    entries: slice | Array
    kept: bool


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
        self._pieces, self.replayed = _divide(plan, ())

    def pieces(self, judged: Collection[int]) -> Iterable[Piece]:
        """Return the pieces of the sequence, divided at the entries before which the learner is judged too."""
        return _divide(self.plan, judged)[0] if judged else self._pieces


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
        predicted = _run(trial, sequence, inputs, learner, lacking, shorter)
    else:
        predicted = frozen[delivered.positions]
    holdout_labels = inputs.stream.holdout_labels
    held_out, log_loss = learner.judge(inputs.holdout, holdout_labels)
    predicted_shares = _shares(predicted[delivered.output & (predicted >= 0)], len(shares))
    results = Results(held_out, shares, predicted_shares, predicted, shorter)
    base = results if pair is None else pair
    right = predicted == sequence.labels
    metrics = {
        "accuracy_first": _share(right & sequence.first, sequence.first),
        "accuracy_all": _share(right & delivered.output, delivered.output),
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
    sequence: Sequence,
    inputs: Inputs,
    learner: Learner,
    lacking: Collection[int],
    shorter: dict[int, float],
) -> Array:
    """Feed the sequence to the learner; return the predicted label of each entry, -1 of one that was not processed.

    Before the last `lacking` entries, the learner is judged, and `shorter` gets its hold-out accuracy.
    """
    plan = sequence.plan
    positions, labels = plan.delivered.positions, sequence.labels
    predicted = np.full(len(positions), -1, np.int64)
    lost_at = {loss.at: (number, loss) for number, loss in enumerate(plan.losses)}
    kept: dict[int, LearnerState] = {}
    wanted = {loss.since for loss in plan.losses if loss.since is not None}
    judged = {len(predicted) - number: number for number in lacking}
    for piece in sequence.pieces(judged):
        moment = piece.moment
        if moment in judged:
            held_out, _ = learner.judge(inputs.holdout, inputs.stream.holdout_labels)
            shorter[judged[moment]] = float((held_out == inputs.stream.holdout_labels).mean())
        if moment in wanted:
            kept[moment] = learner.save()
        if moment in lost_at:
            _lose(learner, *lost_at[moment], kept, trial.seed)
        rows = positions[piece.entries]
        if not len(rows):
            continue
        before = None if piece.kept else learner.save()
        predicted[piece.entries] = learner.process(inputs.rows, rows, labels[piece.entries])
        if before is not None:
            learner.restore(before)
    for start, stop in sequence.replayed:
        predicted[start:stop] = predicted[stop : 2 * stop - start]
    return predicted


def _divide(plan: Plan, judged: Collection[int]) -> tuple[list[Piece], list[tuple[int, int]]]:
    """Divide a sequence into pieces; return them, and the entries that need none because the same records follow.

    A piece ends where a state is kept, lost or judged, and before and after entries that the state does not keep.
    """
    delivered = plan.delivered
    moments = {0, *judged, len(delivered.positions), *(loss.at for loss in plan.losses)}
    moments |= {loss.since for loss in plan.losses if loss.since is not None}
    pieces: list[Piece] = []
    replayed: list[tuple[int, int]] = []
    moment: int | None = None
    learned: list[tuple[int, int]] = []
    for start, stop in _spans(plan, moments):
        if start in moments:
            pieces.append(Piece(moment, _entries(learned), kept=True))
            moment, learned = start, []
        if delivered.state[start:stop].any():
            learned.append((start, stop))
        elif delivered.output[start:stop].any() and _is_replayed(delivered, start, stop):
            replayed.append((start, stop))
        elif delivered.output[start:stop].any():
            pieces += [Piece(moment, _entries(learned), kept=True), Piece(None, slice(start, stop), kept=False)]
            moment, learned = None, []
    return [*pieces, Piece(moment, _entries(learned), kept=True)], replayed


def _spans(plan: Plan, moments: Collection[int]) -> Iterable[tuple[int, int]]:
    """Return the spans of entries of the same kind, from one moment or restart of the run to the next one."""
    delivered = plan.delivered
    kinds = delivered.state * 2 + (delivered.output & ~delivered.state)
    edges = sorted({*moments, *plan.restarts, *(np.flatnonzero(np.diff(kinds)) + 1).tolist()})
    return zip(edges, [*edges[1:], len(kinds)], strict=True)


def _entries(spans: list[tuple[int, int]]) -> slice | Array:
    """Return the entries of spans in order, as a slice if there is no entry between them."""
    if not spans:
        return slice(0, 0)
    start, stop = spans[0][0], spans[-1][1]
    if sum(end - begin for begin, end in spans) == stop - start:
        return slice(start, stop)
    return np.concatenate([np.arange(begin, end) for begin, end in spans])


def _is_replayed(delivered: Delivered, start: int, stop: int) -> bool:
    """Return whether the same records follow and are kept: from the same state, they get the same predictions."""
    again = slice(stop, 2 * stop - start)
    return bool(
        np.array_equal(delivered.positions[start:stop], delivered.positions[again]) and delivered.state[again].all()
    )


def _lose(learner: Learner, number: int, loss: StateLoss, kept: dict[int, LearnerState], seed: int) -> None:
    if loss.since is None:
        learner.lose_optimiser()
    else:
        learner.return_part(kept[loss.since], loss.part, np.random.default_rng([seed, 5, number]))


def _share(chosen: Array, entries: Array) -> float:
    """Return the share of entries that are chosen, which is not a number without any."""
    count = np.count_nonzero(entries)
    return np.count_nonzero(chosen) / count if count else float("nan")


def _shares(found: Array, labels: int) -> Array:
    counts = np.bincount(found, minlength=labels)
    shares: Array = counts / max(1, counts.sum())
    return shares


def _flips(shares: Array, base: Array, threshold: float) -> int:
    """Return the number of labels that are popular in only one of two outputs."""
    return int(((shares >= threshold) != (base >= threshold)).sum())
