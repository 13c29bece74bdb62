"""The evidence of advice is made of a study's table, and what was not measured has none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.docs_pages import ROOT

from millstream.guarantees.delivery import Delivery
from millstream.study.evidence import AccuracyRow, accuracy_rows, evidence, evidence_text

BAYES = {"type": "naive_bayes", "alpha": 0.1, "features": None}
ALO, AMO = Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE


def trial(treatment: str, seed: int, accuracy: float, **changes: Any) -> dict[str, Any]:
    """One row of a study's table, with the columns that evidence needs."""
    row = {
        "stream": "iid",
        "learner_config": json.dumps(BAYES),
        "treatment": treatment,
        "simulated": False,
        "checkpoint_every": 1,
        "commit_every": 4,
        "failures": 2,
        "span": 400,
        "placement": "random",
        "between_first": 0.0,
        "between_last": 1.0,
        "seed": seed,
        "records": 10_000,
        "holdout": 1_000,
        "trained_before": 0,
        "holdout_accuracy": accuracy,
        "trained_twice": 800 if treatment == ALO else 0,
        "not_trained": 600 if treatment == AMO else 0,
    }
    return {**row, **changes}


def controls() -> list[dict[str, Any]]:
    return [trial("exactly_once", seed, 0.80 + seed / 100, checkpoint_every=0, failures=0) for seed in range(4)]


def test_a_cell_is_a_paired_difference_in_percentage_points_with_its_dose() -> None:
    table = controls()
    table += [trial(ALO, seed, 0.80 + seed / 100 + change) for seed, change in enumerate((0.01, 0.02, 0.01, 0.02))]
    table += [trial(AMO, seed, 0.80 + seed / 100 - 0.01) for seed in range(4)]
    repeated, lost = accuracy_rows(table)
    assert (repeated.delivery, repeated.dose, repeated.seeds) == (str(ALO), 0.08, 4)
    assert repeated.difference == pytest.approx(1.5) and repeated.half_width == pytest.approx(0.919, abs=0.001)
    assert (lost.delivery, lost.dose) == (str(AMO), 0.06) and lost.difference == pytest.approx(-1.0)
    assert repeated.learner == BAYES


def test_simulated_treatments_and_failures_that_are_not_anywhere_give_no_evidence() -> None:
    late = [trial("at_least_once_late", seed, 0.5, simulated=True) for seed in range(4)]
    topic = [trial(ALO, seed, 0.5, placement="topic") for seed in range(4)]
    begun = [trial(ALO, seed, 0.5, between_last=0.5) for seed in range(4)]
    frozen = [trial(ALO, seed, 0.5, trained_before=100) for seed in range(4)]
    assert accuracy_rows([*controls(), *late, *topic, *begun, *frozen]) == []


def test_crashes_at_random_moments_are_another_cell_than_the_worst_ones() -> None:
    trials = [trial(ALO, seed, 0.5, placement=place) for place in ("random", "interval") for seed in range(4)]
    assert len(accuracy_rows([*controls(), *trials])) == 2


def test_a_trial_without_its_exactly_once_trial_is_refused() -> None:
    trials = [trial(ALO, seed, 0.5) for seed in (0, 1, 2, 3, 9)]
    with pytest.raises(ValueError, match=r"the seeds \[9\] have a trial on one side only"):
        accuracy_rows([*controls(), *trials])


def test_an_exactly_once_trial_that_is_there_twice_is_refused() -> None:
    trials = [trial(ALO, seed, 0.5) for seed in range(4)]
    with pytest.raises(ValueError, match="a seed occurs more than once in the control"):
        accuracy_rows([*controls(), *controls(), *trials])


def test_equal_differences_have_the_spread_of_rounding() -> None:
    [row] = accuracy_rows([*controls(), *(trial(ALO, seed, 0.80 + seed / 100 + 0.001) for seed in range(4))])
    assert row.difference == pytest.approx(0.1)
    assert row.half_width == pytest.approx(3.182 * 0.1 / 12**0.5 / 4**0.5, rel=0.001)


def row(stream: str, dose: float, learner: dict[str, Any] = BAYES) -> AccuracyRow:
    return AccuracyRow(learner, stream, ALO, dose, difference=0.1, half_width=0.2, seeds=15)


def test_a_dose_takes_the_next_larger_one_that_was_measured_on_each_stream() -> None:
    rows = (row("iid", 0.24), row("iid", 0.015), row("natural", 0.06), row("iid", 0.0015))
    known = replace(evidence(), accuracy=rows)
    assert [(each.stream, each.dose) for each in known.of_learner(BAYES, ALO, 0.002)] == [
        ("iid", 0.015),
        ("natural", 0.06),
    ]
    assert [each.dose for each in known.of_learner(BAYES, ALO, 0.2)] == [0.24]
    both = replace(evidence(), accuracy=(row("iid", 0.06), row("iid", 0.0605), row("iid", 0.07)))
    assert [each.dose for each in both.of_learner(BAYES, ALO, 0.01)] == [0.06, 0.0605]
    assert known.of_learner(BAYES, ALO, 0.3) == ()
    assert known.of_learner(BAYES, AMO, 0.001) == ()


def test_another_option_of_the_learner_is_another_learner_but_features_are_not() -> None:
    known = replace(evidence(), accuracy=(row("iid", 0.01),))
    assert known.of_learner({**BAYES, "features": {"dimensions": 9}}, ALO, 0.001)
    assert not known.of_learner({**BAYES, "alpha": 0.2}, ALO, 0.001)


def test_written_evidence_is_read_back() -> None:
    made = json.loads(evidence_text([row("iid", 0.01)], "millstream compare study.yaml"))
    assert made["accuracy"]["command"] == "millstream compare study.yaml"
    assert [AccuracyRow(**each) for each in made["accuracy"]["rows"]] == [row("iid", 0.01)]
    assert len(made["latency"]["rows"]) == len(evidence().latency)


def test_accuracy_has_a_command_if_and_only_if_it_has_rows() -> None:
    assert (evidence().accuracy_command is not None) == bool(evidence().accuracy)


def test_latencies_are_figures_of_the_benchmarks_of_their_date() -> None:
    found = json.loads((ROOT / "platform/millstream/study/evidence.json").read_text())["latency"]
    date = found["machine"].rpartition("the line of ")[2].split()[0]
    lines = [json.loads(line) for line in Path(ROOT / "benchmarks/history.jsonl").read_text().splitlines()]
    figures = [line["figures"] for line in lines if line["date"].startswith(date)][-1]
    names = {
        ("local", "exactly_once"): ("local_latency_sklearn_p50", "local_latency_sklearn_p99"),
        ("local", "at_least_once"): (None, "local_latency_sklearn_p99_at_least_once"),
        ("spark", "exactly_once"): ("idle_follow_latency_p50", "idle_follow_latency_p99"),
    }
    for row in evidence().latency:
        for name, value in zip(names[row.engine, row.delivery], (row.p50_ms, row.p99_ms), strict=True):
            assert (value is None) if name is None else value == pytest.approx(figures[name], rel=0.01)
