"""A run whose base moves forward: its results, its audit and its replay, on every engine."""

from __future__ import annotations

import dataclasses

import pytest
from support.documents import EPOCH_RECORDS, EPOCHS
from support.engines import Engines, on_engines
from support.golden import Golden, GoldenRuns
from support.pipelines import Pipeline, results

from millstream.errors import AlteredLog, Contradiction, Truncated
from millstream.guarantees.audit import OutputClass
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point
from millstream.log.epochs import Base, EpochReader, Totals
from millstream.log.journal import JournalReader


@pytest.fixture
def golden(golden_runs: GoldenRuns) -> Golden:
    return golden_runs["sgd"]


def interrupted(pipeline: Pipeline, name: str) -> EpochReader:
    """Run with crashes and clean ends up to epoch 5; with a `keep` of 1 us the base follows the commits."""
    pipeline.crash(name, CrashPoint(Point.DELIVER, 1), records=3 * EPOCH_RECORDS)
    for _ in range(2):
        pipeline.run(name, records=EPOCH_RECORDS)
    pipeline.crash(name, CrashPoint(Point.CHECKPOINT, 5), records=3 * EPOCH_RECORDS)
    return EpochReader(pipeline.folder / "runs" / name / "epochs")


@on_engines("simulated", "local", "local-3", "spark")
def test_a_base_that_moves_changes_no_result_and_a_replay_begins_there(
    golden: Golden, engines: Engines, engine_name: str
) -> None:
    pipeline, name = dataclasses.replace(golden.on(engines, engine_name), keep="1us"), f"base-{engine_name}"
    epochs = interrupted(pipeline, name)
    summary = pipeline.run(name)
    assert results(summary) == results(golden.summary)
    assert 2 <= epochs.base.epoch < EPOCHS - 1
    for first in (0, epochs.base.epoch):
        with pytest.raises(
            Truncated, match=f"epoch {first} was dropped: the log begins after epoch {epochs.base.epoch}"
        ):
            epochs.epochs(first)
    with JournalReader(pipeline.folder / "runs" / name / "epochs") as journal:
        assert journal.segment_start(epochs.beginning)[0] == journal.first_index  # older segments are gone
    keeping_all = dataclasses.replace(pipeline, keep=None)
    again = keeping_all.run(f"{name}-replay", replay=pipeline.folder / "runs" / name)
    assert (again.state, again.model) == (summary.state, summary.model)
    assert again.records < summary.records
    for against in (None, f"{name}-replay", golden.run):
        audit = pipeline.audit(name, against)
        assert (audit.state, audit.output) == (OutputClass.PRECISE, OutputClass.PRECISE)
        assert audit.records == again.records


@on_engines("simulated", "local")
def test_an_audit_since_the_base_counts_the_effects_of_later_crashes(
    golden: Golden, engines: Engines, engine_name: str
) -> None:
    pipeline = golden.on(engines, engine_name, delivery=Delivery.AT_LEAST_ONCE, checkpoint_every=1)
    pipeline, name = dataclasses.replace(pipeline, keep="1us"), f"base-repeats-{engine_name}"
    epochs = interrupted(pipeline, name)
    pipeline.crash(name, CrashPoint(Point.DELIVER, 7))
    pipeline.run(name)
    base = epochs.base.epoch
    assert 1 < base < 7  # one crash before the base, and one after it
    audit, counts = pipeline.audit(name), pipeline.counts(golden.run)
    assert audit.records == sum(counts[epoch]["records"] for epoch in range(base + 1, EPOCHS))
    assert audit.outputs["predictions"].repeated == counts[7]["predictions"]
    assert audit.rows_missing == audit.rows_changed == 0


def test_other_steps_cannot_continue_from_the_base_of_a_replayed_run(golden: Golden, engines: Engines) -> None:
    pipeline, name = dataclasses.replace(golden.on(engines, "local"), keep="1us"), "base-other-steps"
    interrupted(pipeline, name)
    pipeline.run(name)
    other = dataclasses.replace(pipeline, model={"type": "naive_bayes"})
    with pytest.raises(Contradiction, match=r"begins after epoch \d, its base, and only the same steps can continue"):
        other.run("base-other-model", replay=pipeline.folder / "runs" / name)


@pytest.mark.parametrize("gone", [False, True])
def test_a_replay_begins_at_the_base_that_it_has_copied_also_if_the_base_moves_meanwhile(
    golden: Golden, engines: Engines, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    pipeline, name = dataclasses.replace(golden.on(engines, "local"), keep="1us"), f"base-moves-{gone}"
    run, read, bases = pipeline.folder / "runs" / name, EpochReader.base_totals, list[Base]()
    interrupted(pipeline, name)

    def read_and_move(reader: EpochReader) -> Totals:
        totals = read(reader)
        bases.append(totals.base)
        if len(bases) == 1:
            if not gone:
                pipeline.run(name)
            (run / f"checkpoints/{totals.base.checkpoint:010d}.json").unlink(missing_ok=True)
        return totals

    monkeypatch.setattr(EpochReader, "base_totals", read_and_move)
    keeping_all = dataclasses.replace(pipeline, keep=None)
    if gone:
        with pytest.raises(
            AlteredLog, match=r"checkpoint \d, with the state at its base, is incomplete: .* No such file"
        ):
            keeping_all.run(f"{name}-replay", replay=run)
        return
    again = keeping_all.run(f"{name}-replay", replay=run)
    assert bases[0].epoch < bases[1].epoch
    assert again.state == golden.summary.state
