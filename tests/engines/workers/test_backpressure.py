"""The number of epochs in flight among workers is limited, also for epochs that are repeated after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.documents import EPOCH_RECORDS, EPOCHS, write_documents
from support.pipelines import Pipeline

from millstream.engines.local.engine import LocalEngine
from millstream.engines.workers.feed import WorkersFeed
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point
from millstream.log.epochs import Epoch, planner


def test_repeated_epochs_are_sent_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_documents(tmp_path / "documents")
    pipeline = Pipeline(
        tmp_path, LocalEngine(), delivery=Delivery.AT_LEAST_ONCE, checkpoint_every=EPOCHS, engine_name="local-2"
    )
    pipeline.crash("run", CrashPoint(Point.DELIVER, EPOCHS - 1))
    monkeypatch.setattr(planner, "MOST_RECORDS", 3 * EPOCH_RECORDS)
    offer, in_flight = WorkersFeed.offer, []

    def counted(feed: WorkersFeed, epoch: Epoch) -> None:
        offer(feed, epoch)
        in_flight.append(epoch.number + 1 - feed.allowed)

    monkeypatch.setattr(WorkersFeed, "offer", counted)
    summary = pipeline.run("run")
    assert summary.processed == 2 * EPOCHS * EPOCH_RECORDS
    assert len(in_flight) == EPOCHS
    assert max(in_flight) == 3
