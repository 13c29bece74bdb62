"""The evidence of advice is read as it was written, and what was not measured has none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.docs_pages import ROOT

from millstream.guarantees.delivery import Delivery
from millstream.study.evidence import AccuracyRow, evidence, evidence_text, read_evidence

BAYES = {"type": "naive_bayes", "alpha": 0.1, "features": None}
ALO, AMO = Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE


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
    other = {**BAYES, "alpha": 0.2}
    rows = [row("iid", 0.01), row("iid", 0.02), row("natural", 0.01), row("iid", 0.01, other)]
    made = read_evidence(evidence_text(rows, "millstream compare study.yaml"))
    assert made.accuracy_command == "millstream compare study.yaml"
    assert [*made.accuracy] == rows
    assert made.latency == evidence().latency


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
