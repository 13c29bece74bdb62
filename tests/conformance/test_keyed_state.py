"""Keyed state after several crashes, in the other store, and after replays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.engines import Engines, on_engines
from support.golden import GoldenRuns
from support.pipelines import receipts_of, results

from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point


def test_the_broken_line_and_documents_without_an_author_are_rejected(golden_runs: GoldenRuns) -> None:
    assert golden_runs["keyed_memory"].summary.delivered["rejects"] > 1


def test_both_stores_give_the_same_results(golden_runs: GoldenRuns) -> None:
    assert results(golden_runs["keyed_memory"].summary) == results(golden_runs["keyed_rocksdb"].summary)


@on_engines("simulated", "local", "local-3")
def test_two_crashes_do_not_change_the_results(golden_runs: GoldenRuns, engines: Engines, engine_name: str) -> None:
    golden = golden_runs["keyed_memory"]
    pipeline, name = golden.on(engines, engine_name), f"twice-{engine_name}"
    pipeline.crash(name, CrashPoint(Point.CHECKPOINT, 2))
    pipeline.crash(name, CrashPoint(Point.DELIVER, 5))
    assert results(pipeline.run(name)) == results(golden.summary)


def test_a_run_that_began_in_memory_continues_in_rocksdb(golden_runs: GoldenRuns) -> None:
    golden, other = golden_runs["keyed_memory"], golden_runs["keyed_rocksdb"]
    golden.pipeline.crash("moved", CrashPoint(Point.CHECKPOINT, 5))
    moved = replace(golden.pipeline, steps=other.pipeline.steps)
    assert results(moved.run("moved")) == results(golden.summary)


@on_engines("simulated", "local", "local-3", "spark")
@pytest.mark.parametrize("store", ["memory", pytest.param("rocksdb", marks=pytest.mark.matrix)])
def test_a_replay_on_any_engine_gives_the_same_results(
    golden_runs: GoldenRuns, engines: Engines, engine_name: str, store: str
) -> None:
    golden = golden_runs[f"keyed_{store}"]
    pipeline = golden.on(engines, engine_name)
    replayed = pipeline.run(f"replayed-{engine_name}", replay=Path(golden.summary.run))
    assert results(replayed) == results(golden.summary)
    assert receipts_of(replayed) == receipts_of(golden.summary)
