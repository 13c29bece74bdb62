"""Several crashes, one after the other: in the middle, during the replay after one, at the very beginning."""

from __future__ import annotations

import random

import pytest
from conformance.harness import EPOCHS, Pipeline, write_documents
from conformance.test_deliveries import expect

from millstream.engines.job import Engine
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point, due, order


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory, engine: Engine, engine_name: str) -> Pipeline:
    folder = tmp_path_factory.mktemp("pipeline")
    write_documents(folder / "documents")
    made = Pipeline(folder, engine, model={"type": "sgd", "block": 16}, engine_name=engine_name)
    made.run("golden")
    return made


def first_epoch_after(crashes: list[CrashPoint], delivery: Delivery, save_every: int, commit_every: int) -> int:
    """Where a run of the other two deliveries goes on: after its last commit, found by enacting them."""
    committed = -1
    for crash in crashes:
        saved: int | None = None
        for epoch in range(committed + 1, crash.epoch + 1):
            for point in order(delivery):
                if point is Point.SAVE and due(epoch, save_every):
                    saved = epoch
                if point is Point.COMMIT and delivery is Delivery.AT_MOST_ONCE:
                    committed = max(committed, epoch)
                elif point is Point.COMMIT and due(epoch, commit_every) and saved is not None:
                    committed = max(committed, min(epoch, saved))
                if crash.epoch == epoch and crash.point is point:
                    break
            else:
                continue
            break
    return committed + 1


@pytest.mark.parametrize("seed", range(4))
def test_exactly_once_after_two_crashes_and_one_while_recovering(pipeline: Pipeline, seed: int) -> None:
    rng = random.Random(seed)
    pipeline.delivery, pipeline.save_every, pipeline.commit_every = Delivery.EXACTLY_ONCE, rng.choice([1, 4]), 1
    name = f"exactly-{seed}"
    middle = rng.randrange(3, EPOCHS - 2)
    points = list(Point)
    pipeline.crash(name, CrashPoint(rng.choice(points), middle))
    pipeline.crash(name, CrashPoint(rng.choice(points), middle + 1))  # has replayed up to here
    pipeline.crash(name, CrashPoint(rng.choice(points), EPOCHS - 1))
    summary, golden = pipeline.run(name), pipeline.summary("golden")
    assert (summary.model, summary.state, summary.outputs) == (golden.model, golden.state, golden.outputs)
    assert (summary.accuracy, summary.baselines) == (golden.accuracy, golden.baselines)
    assert summary.records == golden.records


@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE])
@pytest.mark.parametrize("seed", range(4))
def test_several_crashes_leave_the_union_of_their_sets(pipeline: Pipeline, delivery: Delivery, seed: int) -> None:
    rng = random.Random(seed)
    pipeline.delivery, pipeline.save_every = delivery, rng.choice([1, 2, 4])
    pipeline.commit_every = 1 if delivery is Delivery.AT_MOST_ONCE else rng.choice([1, 2, 3])
    name = f"{delivery}-{seed}"
    crashes: list[CrashPoint] = []
    for _ in range(3):
        first = first_epoch_after(crashes, delivery, pipeline.save_every, pipeline.commit_every)
        if first >= EPOCHS - 1:
            break
        crashes.append(CrashPoint(rng.choice(list(Point)), rng.randrange(first, EPOCHS)))
        pipeline.crash(name, crashes[-1])
    expect(pipeline, name, crashes, "golden")


def test_a_crash_at_the_very_first_point_leaves_nothing_behind(pipeline: Pipeline) -> None:
    pipeline.delivery, pipeline.save_every, pipeline.commit_every = Delivery.EXACTLY_ONCE, 1, 1
    pipeline.crash("first", CrashPoint(Point.CUT, 0))
    summary, golden = pipeline.run("first"), pipeline.summary("golden")
    assert (summary.model, summary.state, summary.outputs) == (golden.model, golden.state, golden.outputs)


def test_the_same_crash_is_fired_once_in_a_run_directory(pipeline: Pipeline) -> None:
    pipeline.delivery, pipeline.save_every, pipeline.commit_every = Delivery.EXACTLY_ONCE, 1, 1
    point = CrashPoint(Point.DELIVER, 2)
    pipeline.crash("once", point)
    assert pipeline.run("once", crash=point).outputs == pipeline.summary("golden").outputs
