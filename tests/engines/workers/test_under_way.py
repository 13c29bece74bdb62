"""How much is under way among workers at a time: also of what is repeated, however long ago the last checkpoint was."""

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


def test_epochs_that_are_repeated_are_sent_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_documents(tmp_path / "documents")
    pipeline = Pipeline(
        tmp_path, LocalEngine(), delivery=Delivery.AT_LEAST_ONCE, checkpoint_every=EPOCHS, engine_name="local-2"
    )
    pipeline.crash("run", CrashPoint(Point.DELIVER, EPOCHS - 1))
    monkeypatch.setattr(planner, "MOST_RECORDS", 3 * EPOCH_RECORDS)
    offer, under_way = WorkersFeed.offer, []

    def counted(feed: WorkersFeed, epoch: Epoch) -> None:
        offer(feed, epoch)
        under_way.append(epoch.number + 1 - feed.allowed)

    monkeypatch.setattr(WorkersFeed, "offer", counted)
    summary = pipeline.run("run")
    assert summary.processed == 2 * EPOCHS * EPOCH_RECORDS
    assert len(under_way) == EPOCHS
    assert max(under_way) == 3
