"""Another build: a start refuses to replay epochs under other versions of libraries, or notes them as an event."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from support.documents import EPOCH_RECORDS
from support.engines import Engines, on_engines
from support.golden import GoldenRuns
from support.pipelines import Pipeline, results

from millstream.errors import Contradiction
from millstream.guarantees.audit import OutputClass
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point
from millstream.guarantees.replay import compare_replay
from millstream.log.epochs import Build, EpochReader
from millstream.runs import versions

REFUSED = r"has processed the epochs \d to 4, .*: numpy was .*, is 9\.9; start the run once with the old build"

Upgraded = Callable[..., None]


@pytest.fixture
def upgraded(monkeypatch: pytest.MonkeyPatch) -> Upgraded:
    """A function that changes the version of NumPy as starts see it."""

    def change(version: str = "9.9") -> None:
        def upgraded(config: Any) -> Mapping[str, str]:
            return {**versions.versions(config), "numpy": version}

        monkeypatch.setattr("millstream.runs.start.versions", upgraded)

    return change


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The epochs of which a receipt is compared with an earlier one, and the attempt of that one."""
    epochs: list[tuple[int, int]] = []

    def note(first: Any, again: Any, **options: Any) -> None:
        epochs.append((again.epoch, first.attempt))
        compare_replay(first, again, **options)

    monkeypatch.setattr("millstream.guarantees.lifecycle.compare_replay", note)
    return epochs


def builds(pipeline: Pipeline, name: str) -> list[str]:
    """The versions of NumPy in the events of other builds."""
    epochs = EpochReader(pipeline.folder / "runs" / name / "epochs").epochs()
    return [event.versions["numpy"] for epoch in epochs for event in epoch.events if isinstance(event, Build)]


@on_engines("simulated", "local", "local-3")
def test_epochs_of_another_build_are_replayed_only_if_that_is_accepted(
    golden_runs: GoldenRuns, engines: Engines, engine_name: str, upgraded: Upgraded, compared: list[tuple[int, int]]
) -> None:
    golden = golden_runs["sgd"]
    pipeline, name = golden.on(engines, engine_name, checkpoint_every=4), f"build-{engine_name}"
    pipeline.crash(name, CrashPoint(Point.DELIVER, 4))
    upgraded()
    for _ in range(2):
        with pytest.raises(Contradiction, match=REFUSED):
            pipeline.run(name)
    pipeline.crash(name, CrashPoint(Point.DELIVER, 4, "rejects"), accept_build=True)
    assert builds(pipeline, name) == ["9.9"]
    assert compared == []
    summary = pipeline.run(name)  # the same build: what it has processed itself is compared
    assert compared == [(epoch, 2) for epoch in range(compared[0][0], 5)]
    assert builds(pipeline, name) == ["9.9"]
    assert results(summary) == results(golden.summary)
    audit = pipeline.audit(name)
    assert (audit.state, audit.output) == (OutputClass.PRECISE, OutputClass.PRECISE)


@on_engines("local")
@pytest.mark.parametrize("delivery", Delivery)
def test_a_start_with_nothing_to_replay_notes_another_build(
    golden_runs: GoldenRuns, engines: Engines, engine_name: str, upgraded: Upgraded, delivery: Delivery
) -> None:
    golden = golden_runs["sgd"]
    pipeline, name = golden.on(engines, engine_name, delivery=delivery), f"build-{delivery}-{engine_name}"
    pipeline.run(name, records=3 * EPOCH_RECORDS)
    upgraded()
    pipeline.run(name, records=2 * EPOCH_RECORDS)
    summary = pipeline.run(name)
    assert builds(pipeline, name) == ["9.9"]
    assert results(summary) == results(golden.summary)


def test_the_old_build_finishes_its_epochs(golden_runs: GoldenRuns, engines: Engines, upgraded: Upgraded) -> None:
    pipeline = golden_runs["sgd"].on(engines, "local", checkpoint_every=4)
    upgraded("1.0")
    pipeline.crash("build-old", CrashPoint(Point.DELIVER, 4))
    upgraded("9.9")
    with pytest.raises(Contradiction, match=REFUSED):
        pipeline.run("build-old")
    upgraded("1.0")
    pipeline.run("build-old", records=1)
    upgraded("9.9")
    assert results(pipeline.run("build-old")) == results(golden_runs["sgd"].summary)
    assert builds(pipeline, "build-old") == ["9.9"]


def test_another_engine_is_no_other_build(golden_runs: GoldenRuns, engines: Engines) -> None:
    pipeline = golden_runs["sgd"].on(engines, "local")
    pipeline.crash("build-engine", CrashPoint(Point.DELIVER, 4))
    other = dataclasses.replace(pipeline, engine_name="spark", engine=engines["local"])  # a config with `spark`
    assert results(other.run("build-engine")) == results(golden_runs["sgd"].summary)
    assert builds(pipeline, "build-engine") == []


def test_a_replay_of_a_run_notes_nothing(golden_runs: GoldenRuns, engines: Engines, upgraded: Upgraded) -> None:
    golden = golden_runs["sgd"]
    pipeline, run = golden.on(engines, "local", checkpoint_every=4), golden.pipeline.folder / "runs" / golden.run
    pipeline.crash("build-replay", CrashPoint(Point.DELIVER, 4), replay=run)
    upgraded()
    with pytest.raises(Contradiction, match="use the old build again, or start the replay over with --fresh"):
        pipeline.run("build-replay", replay=run)
    assert results(pipeline.run("build-replay", replay=run, accept_build=True)) == results(golden.summary)
    assert builds(pipeline, "build-replay") == []
