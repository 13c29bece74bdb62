"""The treatments of a study: the sequence in which records reach output and state, and what happens to the state.

The three deliveries come from `millstream.guarantees.delivery.effects`, the platform's one function. Every other
treatment is a named transformation of such a sequence, or of the state, and is marked as simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from millstream.arrays import Array
from millstream.guarantees.delivery import Delivery, effects
from millstream.study.factors import Interleaved, Late, LostOptimiser, Only, Real, Reordered, StaleState
from millstream.study.failures import Schedule

__all__ = ["Delivered", "Plan", "StateLoss", "plan_treatment"]

_Treatment = Real | Late | Reordered | Only | Interleaved | StaleState | LostOptimiser


@dataclass(frozen=True)
class Delivered:
    """A sequence of records, as positions in the stream, with a mark for each entry.

    `first`: the first delivery of the record; `output`: its row is in the output; `state`: the state keeps what was
    learned from it. The model also learns the entries of a run that is in the output and not in the state, and then
    returns to its state before the run, as it does at a restart. A lost record has one entry, without some mark.
    """

    positions: Array
    first: Array
    output: Array
    state: Array

    def __getitem__(self, chosen: Array) -> Delivered:
        return Delivered(self.positions[chosen], self.first[chosen], self.output[chosen], self.state[chosen])


@dataclass(frozen=True)
class StateLoss:
    """A change of the state before the entry `at`: a `part` of it returns to its values before the entry `since`.

    Without `since`, the optimiser state alone starts over.
    """

    at: int
    since: int | None = None
    part: float = 1.0


@dataclass(frozen=True)
class Plan:
    """Everything that a treatment does in a trial.

    Before each entry of `restarts`, the run starts again. `failed_at` has the records that were cut before each
    failure.
    """

    delivered: Delivered
    losses: Sequence[StateLoss] = ()
    restarts: Sequence[int] = ()
    failed_at: Sequence[int] = ()


def plan_treatment(treatment: _Treatment, schedule: Schedule, records: int, seed: int) -> Plan:
    """Return the plan of a treatment for a stream of so many records with these failures.

    >>> schedule = Schedule(np.array([0, 2, 4, 6]), 1, 1, ((1, -1),))
    >>> plan = plan_treatment(Real(type="at_least_once"), schedule, 6, seed=0)
    >>> plan.delivered.positions.tolist(), plan.delivered.first.sum()
    ([0, 1, 2, 3, 2, 3, 4, 5], np.int64(6))
    >>> plan_treatment(Real(type="at_most_once"), schedule, 6, seed=0).delivered.state.tolist()
    [True, True, False, False, True, True]
    """
    return replace(_planned(treatment, schedule, records, seed), failed_at=schedule.positions())


def _planned(treatment: _Treatment, schedule: Schedule, records: int, seed: int) -> Plan:
    if isinstance(treatment, Real):
        return Plan(_delivered(Delivery(treatment.type), schedule, records))
    if isinstance(treatment, Only):
        delivered = _delivered(Delivery(treatment.of), schedule, records)
        # Everything else that a restart ends has other marks than what follows; here two lost spans may touch.
        restarts = schedule.positions() if treatment.of == "at_most_once" else ()
        return Plan(_only(treatment, delivered, records), restarts=restarts)
    if isinstance(treatment, Late | Reordered):
        delivered = _delivered(Delivery.AT_LEAST_ONCE, schedule, records)
        if isinstance(treatment, Late):
            return Plan(_late(treatment, delivered, schedule, records))
        return Plan(_reordered(delivered, records, np.random.default_rng([seed, 3])))
    once = _delivered(Delivery.EXACTLY_ONCE, schedule, records)
    if isinstance(treatment, Interleaved):
        return Plan(_interleaved(treatment, once, np.random.default_rng([seed, 4])))
    if isinstance(treatment, LostOptimiser):
        return Plan(once, [StateLoss(at) for at in schedule.positions()])
    return Plan(once, [StateLoss(at, max(0, at - (treatment.age or 0)), treatment.part) for at in schedule.positions()])


def _delivered(delivery: Delivery, schedule: Schedule, records: int) -> Delivered:
    """Return the sequence of a delivery, from the epochs that `effects` names."""
    crashes = schedule.of(delivery)
    found = effects(delivery, schedule.checkpoint_every, schedule.commit_every, crashes)
    twice, lost, repeated, missing = found.trained_twice, found.lost, found.rows_repeated[0], found.rows_missing[0]
    wrong = sorted(twice | lost | repeated | missing)
    edges = schedule.edges.tolist()
    pieces: list[tuple[int, int, bool, bool, bool]] = []  # from, to, first, output, state
    after = used = 0
    for crash in crashes:
        affected = []
        while used < len(wrong) and wrong[used] <= crash.epoch:
            affected.append(wrong[used])
            used += 1
        if not affected:
            continue
        pieces.append((edges[after], edges[affected[0]], True, True, True))
        for epoch in affected:
            kept = epoch in twice if epoch in repeated else epoch not in lost
            pieces.append((edges[epoch], edges[epoch + 1], True, epoch not in missing, kept))
        if repeated:
            pieces.append((edges[affected[0]], edges[affected[-1] + 1], False, True, True))
        after = affected[-1] + 1
    pieces.append((edges[after], records, True, True, True))
    begins, ends, *marks = (np.array(column) for column in zip(*pieces, strict=True))
    lengths = ends - begins
    skipped = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    positions = np.arange(lengths.sum()) + np.repeat(begins - skipped, lengths)
    return Delivered(positions, *(np.repeat(mark, lengths) for mark in marks))


def _trained_again(delivered: Delivered, records: int) -> Array:
    """Return the entries that train a record again that the state has learned before."""
    learned = np.zeros(records, np.bool_)
    learned[delivered.positions[delivered.first & delivered.state]] = True
    again: Array = ~delivered.first & learned[delivered.positions]
    return again


def _only(treatment: Only, delivered: Delivered, records: int) -> Delivered:
    everything = np.ones(len(delivered.positions), np.bool_)
    if treatment.type == "state_only":
        output = everything if treatment.of == "at_most_once" else delivered.first
        return replace(delivered, output=output)
    if treatment.of == "at_most_once":
        return replace(delivered, state=everything)
    replayed = np.zeros(records, np.bool_)
    replayed[delivered.positions[~delivered.first]] = True
    return replace(delivered, state=~delivered.first | ~replayed[delivered.positions])


def _late(treatment: Late, delivered: Delivered, schedule: Schedule, records: int) -> Delivered:
    again = _trained_again(delivered, records)
    ends = np.array(schedule.positions())
    moments = delivered.positions.astype(np.float64)
    if treatment.delay is None:
        moments[again] = records
    elif again.any():
        positions = delivered.positions[again]
        moments[again] = ends[np.searchsorted(ends, positions, side="right")] + treatment.delay - 0.5
    # Records that are delivered a second time without being trained again keep their places after the first time.
    moments = np.where(again, moments, np.maximum.accumulate(np.where(again, 0, moments)))
    return delivered[np.argsort(moments, kind="stable")]


def _reordered(delivered: Delivered, records: int, rng: np.random.Generator) -> Delivered:
    again = _trained_again(delivered, records)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], again, [False])).astype(np.int8)))
    entries = np.arange(len(again))
    for start, stop in edges.reshape(-1, 2).tolist():
        entries[start:stop] = rng.permutation(entries[start:stop])
    return delivered[entries]


def _interleaved(treatment: Interleaved, once: Delivered, rng: np.random.Generator) -> Delivered:
    """Deal the records to partitions one by one; in each round, all partitions give a batch, in a random order."""
    entries = np.arange(len(once.positions))
    partition, number = entries % treatment.partitions, entries // treatment.partitions
    rounds = number // treatment.batch
    turns = rng.permuted(np.tile(np.arange(treatment.partitions), (int(rounds[-1]) + 1, 1)), axis=1)
    return once[np.argsort(rounds * treatment.partitions + turns[rounds, partition], kind="stable")]
