"""Failures and treatments: what reaches output and state, how often, and in which order."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import TypeAdapter
from support.reference_runs import EPOCHS, SINKS, ReferenceRun, possible_crashes, run_with
from support.studies import A_TRIAL

from millstream.arrays import Array
from millstream.guarantees.delivery import Crash, Delivery, Point, effects, effects_of_each
from millstream.study.closed_form import ClosedForm
from millstream.study.factors import Treatment
from millstream.study.failures import Schedule, schedule_failures
from millstream.study.labels import Labels
from millstream.study.learner import Learner
from millstream.study.streams import OrderedStream
from millstream.study.treatments import Delivered, Plan, plan_crashes, plan_treatment
from millstream.study.trial_run import Inputs, Sequence, run_trial
from millstream_models.baselines import NoChange

RECORDS = 1000
LABELS = np.random.default_rng(0).choice(3, RECORDS)
TRIAL = replace(A_TRIAL, failures=3, span=50, records=RECORDS, holdout=10)
SEEDS = range(8)


def scheduled(topic: int | None = None, labels: Array = LABELS, **changes: Any) -> Schedule:
    return schedule_failures(replace(TRIAL, **changes), labels, topic)


def planned(treatment: Any, **changes: Any) -> Plan:
    schedule = scheduled(**changes)
    return plan_treatment(TypeAdapter(Treatment).validate_python(treatment), schedule, RECORDS, changes.get("seed", 0))


def delivered(treatment: Any, **changes: Any) -> Delivered:
    return planned(treatment, **changes).delivered


def counts(found: Delivered, marks: Array) -> Array:
    return np.bincount(found.positions[marks], minlength=RECORDS)


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("seed", SEEDS)
def test_the_worst_failures_repeat_or_lose_exactly_their_spans(seed: int) -> None:
    for every in (1, 5, 10):
        twice = delivered("at_least_once", seed=seed, checkpoint_every=every)
        lost = delivered("at_most_once", seed=seed, checkpoint_every=every)
        assert np.bincount(counts(twice, twice.state)).tolist() == [0, RECORDS - 150, 150]
        assert np.bincount(counts(lost, lost.state)).tolist() == [150, RECORDS - 150]
        assert np.array_equal(counts(twice, twice.state) == 2, counts(lost, lost.state) == 0)


def test_the_worst_failures_repeat_a_part_of_their_spans_if_no_interval_is_a_multiple_of_the_other() -> None:
    for every, twice in (((1, 5), 150), ((5, 1), 150), ((5, 2), 75)):
        found = delivered("at_least_once", checkpoint_every=every[0], commit_every=every[1])
        assert (counts(found, found.state) == 2).sum() == (counts(found, found.output) == 2).sum() == twice
    lost = delivered("at_most_once", checkpoint_every=5)
    assert (counts(lost, lost.state) == 0).sum() == 150 and (counts(lost, lost.output) == 0).sum() == 30


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("every", [(1, 1), (1, 10), (10, 1), (5, 10), (2, 5)])
@pytest.mark.parametrize("name", [*Delivery])
def test_the_counts_are_those_of_the_platforms_function(seed: int, every: tuple[int, int], name: Delivery) -> None:
    if name is Delivery.AT_MOST_ONCE and every[1] > 1:
        return
    schedule = scheduled(seed=seed, placement="interval", checkpoint_every=every[0], commit_every=every[1])
    found = plan_treatment(TypeAdapter(Treatment).validate_python(name.value), schedule, RECORDS, seed).delivered
    right = effects(name, *every, schedule.of(name))
    epochs = np.repeat(np.arange(len(schedule.edges) - 1), np.diff(schedule.edges))
    in_state, in_output = counts(found, found.state), counts(found, found.output)
    for position, epoch in enumerate(epochs.tolist()):
        assert in_state[position] == 1 + (epoch in right.trained_twice) - (epoch in right.lost)
        assert in_output[position] == 1 + (epoch in right.rows_repeated[0]) - (epoch in right.rows_missing[0])


def test_with_a_commit_after_every_checkpoint_a_crash_at_a_random_moment_trains_little_twice() -> None:
    def trained_twice(**every: int) -> int:
        return sum(
            int((counts(found, found.state) == 2).sum())
            for seed in range(40)
            for found in [delivered("at_least_once", seed=seed, placement="interval", **every)]
        )

    assert 0 < trained_twice(checkpoint_every=1, commit_every=1) * 2 < trained_twice(commit_every=10)


def test_failures_are_in_their_part_of_the_stream() -> None:
    for seed in SEEDS:
        found = delivered("at_most_once", seed=seed, between_first=0.4, between_last=0.6)
        assert set(np.flatnonzero(counts(found, found.state) == 0).tolist()) <= set(range(400, 600))


def test_a_failure_right_before_the_end_has_a_fixed_place() -> None:
    found = delivered("at_most_once", failures=1, between_first=0.85, between_last=0.9)
    assert np.flatnonzero(counts(found, found.state) == 0).tolist() == [*range(850, 900)]


def test_failures_tied_to_a_topic_hit_the_spans_with_most_of_it() -> None:
    labels = np.repeat([0, 1, 0], [400, 200, 400])
    schedule = scheduled(topic=1, labels=labels, placement="topic")
    assert all(450 <= end <= 600 for end in schedule.positions())


# ---------------------------------------------------------------- deliveries and their transformations


def test_exactly_once_delivers_everything_once_in_order() -> None:
    found = delivered("exactly_once")
    assert np.array_equal(found.positions, np.arange(RECORDS))
    assert found.first.all() and found.output.all() and found.state.all()


def test_repeats_follow_their_span_at_once_later_or_at_the_end() -> None:
    at_once, late, last = (
        delivered(treatment, failures=1, between_first=0.5, between_last=0.6)
        for treatment in ("at_least_once", {"type": "late", "delay": 100}, "late")
    )
    span = at_once.positions[~at_once.first]
    for found, before in ((at_once, span[-1] + 1), (late, span[-1] + 101), (last, RECORDS)):
        assert np.array_equal(found.positions[~found.first], span)
        assert np.array_equal(found.positions[found.first], np.arange(RECORDS))
        assert int(np.flatnonzero(~found.first)[0]) == before


def test_reordered_repeats_are_the_same_records() -> None:
    plain, shuffled = delivered("at_least_once"), delivered("reordered")
    assert np.array_equal(np.sort(plain.positions), np.sort(shuffled.positions))
    assert np.array_equal(plain.first, shuffled.first)
    assert not np.array_equal(plain.positions, shuffled.positions)


@pytest.mark.parametrize("of", ["at_least_once", "at_most_once"])
def test_an_effect_on_one_side_leaves_the_other_side_exactly_once(of: str) -> None:
    both = delivered(of)
    output, state = (delivered({"type": name, "of": of}) for name in ("output_only", "state_only"))
    assert (counts(output, output.state) == 1).all()
    assert (counts(state, state.output) == 1).all()
    assert np.array_equal(counts(output, output.output), counts(both, both.output))
    assert np.array_equal(counts(state, state.state), counts(both, both.state))


@pytest.mark.parametrize(("failures", "span"), [(1, 50), (4, 50), (3, 80)])
def test_the_share_bias_is_that_of_as_many_records_drawn_at_random_without_repeats(failures: int, span: int) -> None:
    """In a random order; no two spans overlap, so the formula for independent failures would be too large."""
    affected = failures * span
    for name, rows in (("at_least_once", RECORDS + affected), ("at_most_once", RECORDS - affected)):
        measured, expected = [], []
        for seed in range(300):
            labels = np.random.default_rng([seed, 9]).choice(3, RECORDS, p=[0.5, 0.3, 0.2])
            found = delivered(name, seed=seed, failures=failures, span=span)
            share = np.bincount(labels, minlength=3) / RECORDS
            measured.append(np.bincount(labels[found.positions[found.output]], minlength=3) / rows - share)
            drawn = share * (1 - share) * affected * (RECORDS - affected) / (RECORDS - 1)
            expected.append(drawn / rows**2)
        ratio = np.sqrt(np.mean(np.square(measured)) / np.mean(expected))
        assert 0.93 < ratio < 1.07, (name, ratio)


def test_interleaved_partitions_keep_the_order_within_each() -> None:
    found = delivered({"type": "interleaved", "partitions": 4, "batch": 10})
    assert np.array_equal(np.sort(found.positions), np.arange(RECORDS))
    assert not np.array_equal(found.positions, np.arange(RECORDS))
    for partition in range(4):
        assert (np.diff(found.positions[found.positions % 4 == partition]) > 0).all()


def test_a_stale_state_is_as_old_as_the_treatment_says() -> None:
    plan = planned({"type": "stale_state", "age": 70, "part": 0.5})
    assert [loss.at - (loss.since or 0) for loss in plan.losses] == [70, 70, 70] or plan.losses[0].since == 0
    assert {loss.part for loss in plan.losses} == {0.5}
    assert plan.delivered.state.all()


# ---------------------------------------------------------------- crashes close to each other


@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE])
def test_a_plan_has_rows_and_state_of_a_run_in_its_order_however_close_its_crashes_are(delivery: Delivery) -> None:
    repeated_often = 0
    for checkpoint_every, commit_every in itertools.product((1, 2, 3), (1, 3)):
        if delivery is Delivery.AT_MOST_ONCE and commit_every > 1:
            continue
        for first in possible_crashes(ReferenceRun(delivery, checkpoint_every, commit_every)):
            for second in possible_crashes(run_with(delivery, checkpoint_every, commit_every, [first])):
                run = run_with(delivery, checkpoint_every, commit_every, [first, second])
                run.run(None)
                each = effects_of_each(delivery, checkpoint_every, commit_every, [first, second], SINKS)
                found = plan_crashes(each, np.arange(EPOCHS + 1), EPOCHS).delivered
                assert found.positions[found.output].tolist() == run.rows[0], (first, second)
                assert found.positions[found.state].tolist() == run.trained, (first, second)
                assert sorted(found.positions[found.first].tolist()) == [*range(EPOCHS)]
                repeated_often += max(run.rows[0].count(epoch) for epoch in range(EPOCHS)) > 2
    assert repeated_often or delivery is Delivery.AT_MOST_ONCE


def test_a_restart_predicts_from_the_state_that_was_kept() -> None:
    """Epochs 4 and 5 are delivered and lost to the state; so is epoch 6 in the next start, which begins after 3."""
    labels = np.array([0, 0, 0, 1, 0, 0, 1, 1])
    stream = OrderedStream(np.arange(8), labels, *(labels[:0] for _ in range(4)))
    crashes = [Crash(Point.DELIVER, 5), Crash(Point.DELIVER, 6)]
    plan = plan_crashes(effects_of_each(Delivery.AT_MOST_ONCE, 4, 1, crashes), np.arange(9), 8)
    assert plan.delivered.state.tolist() == [True] * 4 + [False] * 3 + [True]
    schema = pa.schema({"text": pa.string(), "label": pa.string()})
    learner = Learner(NoChange(), schema, 2)
    texts = learner.prepare(pa.array(["a text"] * 8))
    trial = replace(TRIAL, records=8, holdout=0)
    row, _ = run_trial(
        trial,
        Sequence(trial, plan, stream, ClosedForm(Labels(("a", "b"), labels), 0.5), 2),
        Inputs(replace(stream, holdout=stream.positions[:2], holdout_labels=labels[:2]), texts, texts[:2], texts[:0]),
        learner,
        None,
        0.5,
    )
    right = [False, True, True, False, False, True, True, True]  # the label before, that of record 3 for 4, 6 and 7
    assert row["accuracy_all"] == np.mean(right)
