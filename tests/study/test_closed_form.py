"""The closed form of a trial, with the burstiness of its very stream, against the shares that failures cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.studies import A_TRIAL

from millstream.study.closed_form import ClosedForm
from millstream.study.factors import Real
from millstream.study.failures import schedule_failures
from millstream.study.labels import Labels
from millstream.study.streams import OrderedStream
from millstream.study.treatments import plan_treatment
from millstream.study.trial_run import Sequence

RECORDS, SPAN, SEEDS, THRESHOLD = 6000, 60, 400, 0.3
TRIAL = replace(A_TRIAL, failures=1, span=SPAN, records=RECORDS)


def stream(block: int) -> OrderedStream:
    """A stream with labels of 30, 30 and 40 % in blocks that each have one label."""
    labels = np.random.default_rng(1).permutation(np.repeat([0, 1, 2], [30, 30, 40]).repeat(RECORDS // 100 // block))
    nothing = np.zeros(0, np.int64)
    return OrderedStream(np.arange(RECORDS), labels.repeat(block), nothing, nothing, nothing, nothing)


def sequence(ordered: OrderedStream, closed_form: ClosedForm, **changes: Any) -> Sequence:
    trial = replace(TRIAL, **changes)
    schedule = schedule_failures(trial, ordered.labels, None)
    plan = plan_treatment(Real(type=trial.treatment), schedule, RECORDS, trial.seed)
    return Sequence(trial, plan, ordered, closed_form, 3)


@pytest.mark.parametrize("failures", [1, 24])
@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
@pytest.mark.parametrize("block", [1, 20])
def test_the_bias_and_the_flips_of_trials_are_those_of_the_closed_form(
    block: int, delivery: str, failures: int
) -> None:
    ordered = stream(block)
    labels = Labels(("a", "b", "c"), ordered.labels)
    closed_form, popular = ClosedForm(labels, THRESHOLD), labels.shares >= THRESHOLD
    biases, flips, expected = [], [], []
    for seed in range(SEEDS):
        found = sequence(ordered, closed_form, seed=seed, treatment=delivery, failures=failures)
        biases.append(found.label_shares - labels.shares)
        flips.append(((found.label_shares >= THRESHOLD) != popular).sum())
        expected.append(found.expected)
    assert all(each["closed_form_share_bias"] is not None for each in expected)
    predicted = np.sqrt(np.mean([np.square(each["closed_form_share_bias"]) for each in expected]))
    assert np.sqrt(np.square(biases).mean()) / predicted == pytest.approx(1, abs=0.08)
    assert expected[0]["deff"] == pytest.approx([1.0] * 3, abs=0.2) if block == 1 else min(expected[0]["deff"]) > 10
    known = [each["closed_form_flips"] for each in expected]
    if block == 20 and failures == 1:
        assert set(known) == {None}  # one span of three blocks: far from normal
    else:
        assert np.mean(flips) == pytest.approx(np.mean(known), abs=0.15)


@pytest.mark.parametrize(
    "changes",
    [{"placement": "topic", "topic": "a"}, {"between_first": 0.5}, {"treatment": "exactly_once", "placement": "none"}],
)
def test_failures_at_a_place_and_trials_without_an_effect_have_no_closed_form(changes: dict[str, Any]) -> None:
    ordered = stream(1)
    found = sequence(ordered, ClosedForm(Labels(("a", "b", "c"), ordered.labels), THRESHOLD), **changes)
    assert set(found.expected.values()) == {None}
