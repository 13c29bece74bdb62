"""Forks on every engine: the state, the cuts and the rows are those of the run that was forked."""

from __future__ import annotations

import dataclasses
import shutil

import pytest
from support.engines import Engines, on_engines
from support.forked_runs import fork, interrupted, made_after, processed
from support.golden import GoldenRuns
from support.pipelines import results

from millstream.guarantees.audit import OutputClass
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point

ONLY_STATE = slice(0, 2)
"""Of the results of a summary, those that are not counted from the base on."""


@on_engines("simulated", "local", "local-3", "spark")
@pytest.mark.parametrize("recipe", ["sgd", "keyed_memory"])
def test_a_fork_replays_the_epochs_after_its_checkpoint_and_goes_on(
    golden_runs: GoldenRuns, engines: Engines, engine_name: str, recipe: str
) -> None:
    golden = golden_runs[recipe]
    old, name = f"old-{engine_name}", f"fork-{engine_name}"
    interrupted(golden.on(engines, "local"), old)
    pipeline = golden.on(engines, engine_name)
    made = fork(pipeline, old, name, at=6)
    shutil.rmtree(golden.pipeline.folder / "runs" / old)
    assert (made.epoch, made.epochs) == (3, 3)
    assert all(step.kept for step in made.steps)
    assert all(source.continues for source in made.sources)
    pipeline.crash(name, CrashPoint(Point.DELIVER, 5))
    summary = pipeline.run(name)
    assert results(summary)[ONLY_STATE] == results(golden.summary)[ONLY_STATE]
    rows = made_after(golden.pipeline, golden.run, 3)
    assert {output: digest for output, digest in summary.outputs.items() if digest[0] != "0"} == rows
    assert sorted(set(processed(pipeline, name))) == [4, 5, 6, 7]
    audit = pipeline.audit(name)
    assert (audit.state, audit.output) == (OutputClass.PRECISE, OutputClass.PRECISE)


@on_engines("local", "simulated")
@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE])
def test_a_fork_may_have_another_delivery(
    golden_runs: GoldenRuns, engines: Engines, engine_name: str, delivery: Delivery
) -> None:
    golden = golden_runs["sgd"]
    old, name = f"old-{delivery}-{engine_name}", f"fork-{delivery}-{engine_name}"
    interrupted(golden.on(engines, "local"), old)
    pipeline = golden.on(engines, engine_name, delivery=delivery)
    fork(pipeline, old, name, at=5)
    summary = pipeline.run(name)
    assert results(summary)[ONLY_STATE] == results(golden.summary)[ONLY_STATE]
    assert processed(pipeline, name) == [4, 5, 6, 7]


def test_a_fork_from_the_start_is_a_replay_with_another_config(golden_runs: GoldenRuns, engines: Engines) -> None:
    golden = golden_runs["sgd"]
    pipeline = dataclasses.replace(golden.on(engines, "local"), model={"type": "multinomial_nb"})
    replayed = pipeline.run("replayed", replay=golden.pipeline.folder / "runs" / golden.run)
    made = fork(pipeline, golden.run, "from-start", from_start=True)
    assert (made.epoch, made.checkpoint, made.epochs) == (-1, None, 8)
    assert results(pipeline.run("from-start")) == results(replayed)
