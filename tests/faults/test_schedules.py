"""Difficult schedules: a new segment, lost progress, changed settings, replays over other cuts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.documents import EPOCH_RECORDS, EPOCHS, write_documents
from support.pipelines import Pipeline

from millstream.engines.local.engine import LocalEngine
from millstream.errors import AlteredLog, Contradiction
from millstream.guarantees.audit import OutputClass
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point
from millstream.log.epochs import Added, Epoch, EpochLog, EpochReader, PartitionName
from millstream_connectors.files.sink import PartFiles


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    write_documents(tmp_path / "documents")
    return Pipeline(tmp_path, LocalEngine())


def test_an_epoch_log_whose_newest_part_is_still_empty_opens(tmp_path: Path) -> None:
    log = EpochLog(tmp_path / "epochs")
    log.cut(Epoch(0, {0: (0, 5)}, (Added(PartitionName("source", "a", 0)),)))
    log.cut(Epoch(1, {0: (5, 9)}))
    log._journal.roll()  # and then the process dies
    log.close()
    again = EpochLog(tmp_path / "epochs")
    assert (again.totals.next_epoch, again.totals.positions) == (2, {0: 9})
    assert again.reader().totals() == again.totals
    again.cut(Epoch(2, {0: (9, 10)}))
    assert [epoch.number for epoch in again.reader().epochs()] == [0, 1, 2]


def test_a_clean_end_commits_although_its_last_checkpoint_is_an_older_start_s(pipeline: Pipeline) -> None:
    pipeline.delivery, pipeline.checkpoint_every, pipeline.commit_every = Delivery.AT_LEAST_ONCE, 2, 2
    pipeline.crash("run", CrashPoint(Point.CHECKPOINT, EPOCHS - 1))
    pipeline.checkpoint_every = 16
    once = pipeline.run("run").processed
    assert pipeline.run("run").processed == once
    assert pipeline.audit("run").trained_twice == 2 * EPOCH_RECORDS


def test_a_start_that_finds_everything_saved_commits_it(pipeline: Pipeline) -> None:
    pipeline.crash("run", CrashPoint(Point.CHECKPOINT, EPOCHS - 1))
    assert pipeline.run("run").processed == EPOCHS * EPOCH_RECORDS
    assert EpochReader(pipeline.folder / "runs/run/epochs").totals().committed == EPOCHS - 1
    assert pipeline.audit("run").output is OutputClass.PRECISE


def test_a_lost_mark_of_epochs_without_rows_costs_no_replay(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a loss of power: marks without rows are not synced."""
    append = PartFiles.append
    monkeypatch.setattr(
        PartFiles, "append", lambda sink, rows, progress: append(sink, rows, progress) if rows.num_rows else None
    )
    pipeline.crash("run", CrashPoint(Point.COMMIT, EPOCHS - 2))
    before = sum(1 for _ in EpochReader(pipeline.folder / "runs/run/epochs").receipts())
    summary = pipeline.run("run")
    assert summary.processed == sum(
        receipt.records for receipt in EpochReader(pipeline.folder / "runs/run/epochs").receipts()
    )
    assert before == EPOCHS - 1
    assert summary.processed == EPOCHS * EPOCH_RECORDS


def test_a_replay_over_other_cuts_is_refused(pipeline: Pipeline) -> None:
    pipeline.run("original")
    pipeline.run("other", records=EPOCH_RECORDS + 7)
    with pytest.raises(Contradiction, match="the cuts in this run directory differ from those of the run to replay"):
        pipeline.run("other", replay=pipeline.folder / "runs/original")


def test_a_crash_at_the_last_commit_of_at_most_once_can_be_audited(pipeline: Pipeline) -> None:
    pipeline.run("golden")
    pipeline.delivery = Delivery.AT_MOST_ONCE
    pipeline.crash("run", CrashPoint(Point.COMMIT, EPOCHS - 1))
    pipeline.run("run")
    found = pipeline.audit("run")
    assert (found.lost, found.state, found.output) == (EPOCH_RECORDS, OutputClass.GAP, OutputClass.GAP)


def test_an_audit_of_a_sink_that_was_added_says_that_it_is_not_compared(pipeline: Pipeline) -> None:
    pipeline.run("run", records=3 * EPOCH_RECORDS)
    pipeline.sinks = {"predictions": {"type": "files", "path": "elsewhere"}, "topics": {"type": "journal", "path": "t"}}
    pipeline.run("run")
    found = pipeline.audit("run")
    assert found.later == {"predictions": 3, "topics": 3}
    assert found.output is OutputClass.PRECISE


def test_a_late_file_keeps_its_number_without_the_cache(pipeline: Pipeline) -> None:
    pipeline.run("run")
    shutil.rmtree(pipeline.folder / "runs/run/cache")
    write_documents(pipeline.folder / "more", files=1, records=EPOCH_RECORDS, seed=9)
    shutil.copy(pipeline.folder / "more/part0.jsonl", pipeline.folder / "documents/early.jsonl")
    pipeline.run("run")
    partitions = EpochReader(pipeline.folder / "runs/run/epochs").totals().partitions
    assert [(p.name, p.number) for p in partitions] == [("part0.jsonl", 0), ("part1.jsonl", 1), ("early.jsonl", 2)]


def test_records_that_came_in_during_a_run_are_held_against_the_next(pipeline: Pipeline) -> None:
    late = pipeline.folder / "documents/late.jsonl"

    class Appending(LocalEngine):
        def run(self, job: object) -> None:
            late.write_text(json.dumps({"text": "harbour1", "label": "harbour"}) + "\n")
            super().run(job)  # type: ignore[arg-type]

    pipeline.engine = Appending()
    assert pipeline.run("run").records == EPOCHS * EPOCH_RECORDS + 1
    late.write_text(json.dumps({"text": "glacier1", "label": "harbour"}) + "\n")
    pipeline.engine = LocalEngine()
    with pytest.raises(AlteredLog, match=r"late\.jsonl was altered"):
        pipeline.run("run")
