"""Several crashes in a row: in the middle of a run, during a replay, at the very beginning."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from support.documents import EPOCHS
from support.engines import Engines, marks_of, on_engines
from support.golden import Golden, GoldenRuns
from support.pipelines import assert_promise, results

from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point, due, order

SEEDS = range(4)


def seeded(*first_seed_only: str, never: str = "") -> list[Any]:
    """Engines with seeds. `make test` runs all seeds, but only the first seed on the engines in `first_seed_only`."""
    cases: list[Any] = []
    for engine_name in ("simulated", "local", "local-3", "spark"):
        for seed in SEEDS:
            left_out = engine_name == never or (engine_name in first_seed_only and seed > 0)
            marks = [*marks_of(engine_name), *([pytest.mark.matrix] if left_out else [])]
            cases.append(pytest.param(engine_name, seed, marks=marks))
    return cases


@pytest.fixture
def golden(golden_runs: GoldenRuns) -> Golden:
    return golden_runs["sgd"]


def first_epoch_after(crashes: list[CrashPoint], delivery: Delivery, checkpoint_every: int, commit_every: int) -> int:
    """The first epoch of the next start, without exactly_once; a simulation of the points finds the last commit."""
    committed = -1
    for crash in crashes:
        checkpointed: int | None = None
        for epoch in range(committed + 1, crash.epoch + 1):
            for point in order(delivery):
                if point is Point.CHECKPOINT and due(epoch, checkpoint_every):
                    checkpointed = epoch
                if point is Point.COMMIT and delivery is Delivery.AT_MOST_ONCE:
                    committed = max(committed, epoch)
                elif point is Point.COMMIT and due(epoch, commit_every) and checkpointed is not None:
                    committed = max(committed, min(epoch, checkpointed))
                if crash.epoch == epoch and crash.point is point:
                    break
            else:
                continue
            break
    return committed + 1


@pytest.mark.parametrize(("engine_name", "seed"), seeded("local-3", "spark"))
def test_exactly_once_after_two_crashes_and_one_while_recovering(
    golden: Golden, engines: Engines, engine_name: str, seed: int
) -> None:
    rng = random.Random(seed)
    pipeline = golden.on(engines, engine_name, checkpoint_every=rng.choice([1, 4]))
    name = f"in-a-row-{engine_name}-{seed}"
    middle = rng.randrange(3, EPOCHS - 2)
    points = list(Point)
    pipeline.crash(name, CrashPoint(rng.choice(points), middle))
    pipeline.crash(name, CrashPoint(rng.choice(points), middle + 1))  # the replay reaches this epoch
    pipeline.crash(name, CrashPoint(rng.choice(points), EPOCHS - 1))
    assert results(pipeline.run(name)) == results(golden.summary)


@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE])
@pytest.mark.parametrize(("engine_name", "seed"), seeded("local-3", never="spark"))
def test_several_crashes_leave_the_union_of_their_sets(
    golden: Golden, engines: Engines, engine_name: str, delivery: Delivery, seed: int
) -> None:
    rng = random.Random(seed)
    pipeline = golden.on(engines, engine_name, delivery=delivery, checkpoint_every=rng.choice([1, 2, 4]))
    if delivery is Delivery.AT_LEAST_ONCE:
        pipeline = replace(pipeline, commit_every=rng.choice([1, 2, 3]))
    name = f"{delivery}-{engine_name}-{seed}"
    crashes: list[CrashPoint] = []
    for _ in range(3):
        first = first_epoch_after(crashes, delivery, pipeline.checkpoint_every, pipeline.commit_every)
        if first >= EPOCHS - 1:
            break
        crashes.append(CrashPoint(rng.choice(list(Point)), rng.randrange(first, EPOCHS)))
        pipeline.crash(name, crashes[-1])
    assert_promise(pipeline, name, crashes, golden.run)


@on_engines("simulated", "local", "local-3", "spark")
def test_a_crash_at_the_very_first_point_leaves_nothing_behind(
    golden: Golden, engines: Engines, engine_name: str
) -> None:
    pipeline, name = golden.on(engines, engine_name), f"first-{engine_name}"
    pipeline.crash(name, CrashPoint(Point.CUT, 0))
    assert results(pipeline.run(name)) == results(golden.summary)


@on_engines("simulated", "local", "local-3")
def test_the_same_crash_comes_only_once_in_a_run_directory(golden: Golden, engines: Engines, engine_name: str) -> None:
    pipeline, name, point = golden.on(engines, engine_name), f"once-{engine_name}", CrashPoint(Point.DELIVER, 2)
    pipeline.crash(name, point)
    assert results(pipeline.run(name, crash=str(point))) == results(golden.summary)
