"""The order of the points of an epoch: the effects on disk come in the order that each delivery promises.

This file states the orders a second time. Defects that the tests put into the code must be found.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from support.documents import EPOCH_RECORDS, write_documents
from support.engines import on_engines
from support.pipelines import Pipeline

from millstream.engines.job import Engine, Job
from millstream.guarantees import delivery as deliveries
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery
from millstream.guarantees.lifecycle import EpochLifecycle
from millstream.log.contracts import Progress, Sink
from millstream.log.epochs import EpochReader

EPOCHS = 3
EFFECTS = {
    Delivery.EXACTLY_ONCE: ["receipt", "sync", "append", "manifest", "checkpoint", "sync", "commit", "sync"],
    Delivery.AT_LEAST_ONCE: ["receipt", "sync", "append", "manifest", "checkpoint", "sync", "commit", "sync"],
    Delivery.AT_MOST_ONCE: ["commit", "sync", "receipt", "sync", "manifest", "checkpoint", "sync", "append"],
}
"""The effects of a group of epochs, when the effects of each point are durable before the next point."""
LATER = CrashPoint.parse("cut@100")
"""While a crash is armed, exactly_once waits for its checkpoints too."""


class Recording:
    """An engine whose effects are recorded; at each append it checks which receipts would survive a loss of power."""

    def __init__(self, engine: Engine) -> None:
        self.effects: list[tuple[str, int]] = []
        self._engine = engine
        self._synced: dict[str, int] = {}

    def run(self, job: Job) -> None:
        log, checkpoints = job.epoch_log, job.lifecycle.checkpoints
        job.lifecycle.sinks = {name: self._sink(sink, job) for name, sink in job.lifecycle.sinks.items()}
        with (
            mock.patch.object(log, "receipt", self._recorded("receipt", log.receipt, lambda receipt: receipt.epoch)),
            mock.patch.object(log, "commit", self._recorded("commit", log.commit, lambda epoch: epoch)),
            mock.patch.object(log, "sync", self._recorded("sync", log.sync)),
            mock.patch.object(job.lifecycle, "end", self._recorded("end", job.lifecycle.end)),
            mock.patch.object(
                checkpoints, "write", self._recorded("manifest", checkpoints.write, lambda epoch, *_: epoch)
            ),
            mock.patch.object(
                log, "checkpoint", self._recorded("checkpoint", log.checkpoint, lambda number, epoch, *_: epoch)
            ),
            mock.patch("os.fsync", self._syncing(os.fsync)),
            mock.patch("os.fdatasync", self._syncing(os.fdatasync)),
        ):
            self._engine.run(job)

    def _recorded(self, kind: str, do: Callable[..., Any], epoch: Callable[..., int] = lambda: -1) -> Any:
        def recorded(*given: Any) -> Any:
            self.effects.append((kind, epoch(*given)))
            return do(*given)

        return recorded

    def _syncing(self, sync: Callable[[int], None]) -> Callable[[int], None]:
        def synced(file: int) -> None:
            sync(file)
            self._synced[os.readlink(f"/proc/self/fd/{file}")] = os.fstat(file).st_size

        return synced

    def _sink(self, sink: Sink, job: Job) -> Sink:
        append = sink.append

        def appended(rows: pa.Table, progress: Progress) -> None:
            durable = self._durable_receipts(job.epoch_log.folder)
            assert set(range(progress.epoch + 1)) <= durable, (progress, durable)
            self.effects.append(("append", progress.epoch))
            append(rows, progress)

        sink.append = appended  # type: ignore[method-assign]
        return sink

    def _durable_receipts(self, folder: Path) -> set[int]:
        """The epochs whose receipts are in the log after the worst possible loss of power."""
        sizes = {file.name: self._synced.get(str(file.resolve()), 0) for file in folder.glob("*.journal")}
        if not any(sizes.values()):
            return set()
        left = folder.with_name("after-a-loss-of-power")
        shutil.rmtree(left, ignore_errors=True)
        shutil.copytree(folder, left)
        for name, size in sizes.items():
            os.truncate(left / name, size)
        return {receipt.epoch for receipt in EpochReader(left).receipts()}


@pytest.fixture
def pipeline(tmp_path: Path, engine: Engine, engine_name: str) -> Pipeline:
    write_documents(tmp_path / "documents", records=EPOCHS * EPOCH_RECORDS)
    return Pipeline(tmp_path, engine, engine_name=engine_name)


def run_in_order(pipeline: Pipeline, name: str) -> None:
    """Run a pipeline, and compare its effects with the order of its delivery."""
    plain, pipeline.engine = pipeline.engine, (recording := Recording(pipeline.engine))
    try:
        pipeline.run(name, crash=str(LATER))
    finally:
        pipeline.engine = plain
    before_the_end = itertools.takewhile(lambda effect: effect[0] != "end", recording.effects)
    effects = [(kind, [epoch for _, epoch in some]) for kind, some in itertools.groupby(before_the_end, _kind)]
    expected, reached = EFFECTS[pipeline.delivery], -1
    for start in range(0, len(effects), len(expected)):
        group = effects[start : start + len(expected)]
        assert [kind for kind, _ in group] == expected
        epochs = dict(group)
        last = epochs["receipt"][-1]
        assert epochs["receipt"] == list(range(reached + 1, last + 1))
        assert set(epochs["append"]) == set(epochs["checkpoint"]) == set(epochs["commit"]) == {last}
        reached = last
    assert reached == EPOCHS - 1


def _kind(effect: tuple[str, int]) -> str:
    return effect[0]


@on_engines("simulated", "local", "local-3", "spark")
@pytest.mark.parametrize("delivery", Delivery)
def test_effects_come_in_the_order_of_the_delivery(pipeline: Pipeline, delivery: Delivery) -> None:
    pipeline.delivery = delivery
    run_in_order(pipeline, "run")


@on_engines("simulated", "local-3")
@pytest.mark.parametrize("delivery", Delivery)
def test_two_points_that_are_swapped_are_found(
    pipeline: Pipeline, delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.delivery = delivery
    name = "_SKIPPING" if delivery is Delivery.AT_MOST_ONCE else "_REPLAYING"
    points = list(getattr(deliveries, name))
    for first in range(len(points) - 1):
        swapped = [*points[:first], points[first + 1], points[first], *points[first + 2 :]]
        monkeypatch.setattr(deliveries, name, tuple(swapped))
        with pytest.raises(AssertionError):
            run_in_order(pipeline, f"swapped-{first}")


@on_engines("simulated", "local-3")
@pytest.mark.parametrize("delivery", Delivery)
def test_receipts_that_are_not_synced_before_their_rows_are_delivered_are_found(
    pipeline: Pipeline, delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.delivery = delivery
    process = EpochLifecycle._process

    def unsynced(lifecycle: EpochLifecycle, group: Any) -> None:
        with mock.patch.object(lifecycle.log, "sync"):
            process(lifecycle, group)

    monkeypatch.setattr(EpochLifecycle, "_process", unsynced)
    with pytest.raises(AssertionError):
        run_in_order(pipeline, "unsynced")
