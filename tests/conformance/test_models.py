"""The compiled models and the baselines: their results differ, and are equal after replays and across engines."""

from __future__ import annotations

import pytest
from support.engines import Engines, on_engines
from support.golden import GoldenRuns
from support.pipelines import results
from support.suite import BASELINES, MODELS, PIPELINES

from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point


def test_each_model_has_its_own_results_and_learns(golden_runs: GoldenRuns) -> None:
    golden = {name: golden_runs[name].summary for name in (*MODELS, *BASELINES)}
    assert len({summary.model for summary in golden.values()}) == len(golden)
    for name, summary in golden.items():
        assert summary.accuracy is not None and summary.baselines is not None
        if name in BASELINES:
            assert summary.accuracy == summary.baselines[name]
        else:
            assert summary.accuracy > max(summary.baselines.values())


@pytest.mark.parametrize("name", ["complement_nb", "sgd", "functions"])
def test_mini_batches_are_learned(golden_runs: GoldenRuns, name: str) -> None:
    accuracy = golden_runs[name].summary.accuracy
    assert accuracy is not None and accuracy > 0.5


def test_words_counted_before_the_model_or_in_it_are_the_same(golden_runs: GoldenRuns) -> None:
    before, inside = (results(golden_runs[name].summary) for name in ("counted_before", "naive_bayes"))
    assert before[0] == inside[0]
    assert before[2:] == inside[2:]  # the state differs: records that wait have other columns


def test_count_windows_close_often(golden_runs: GoldenRuns) -> None:
    assert golden_runs["count_windows"].summary.delivered["topics"] > 5


def test_functions_drop_and_reject_records(golden_runs: GoldenRuns) -> None:
    summary = golden_runs["functions"].summary
    assert summary.delivered["rejects"] > 5
    assert summary.delivered["predictions"] < summary.records - summary.delivered["rejects"]


@on_engines("simulated", "local-3", "spark")
@pytest.mark.parametrize(
    "name", ["half_life", *(pytest.param(name, marks=pytest.mark.matrix) for name in PIPELINES if name != "half_life")]
)
def test_a_run_continues_on_another_engine_and_back(
    golden_runs: GoldenRuns, engines: Engines, engine_name: str, name: str
) -> None:
    golden = golden_runs[name]
    here, alone = golden.on(engines, engine_name), golden.pipeline
    run = f"switched-{engine_name}"
    here.crash(run, CrashPoint(Point.CHECKPOINT, 2))
    alone.crash(run, CrashPoint(Point.DELIVER, 4))
    here.crash(run, CrashPoint(Point.PROCESS, 6))
    assert results(alone.run(run)) == results(golden.summary)
