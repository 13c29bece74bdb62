"""The simulator finds defects that a test puts into the code: a simulator that finds nothing proves nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.simulated_pipeline import SHARED, PipelineFactory, SimulatedPipeline

from millstream.engines.cutter import ReplayCutter
from millstream.engines.simulated.simulation import Simulation
from millstream.engines.simulated.world.disk import SimulatedEpochLog
from millstream.engines.simulated.world.scheduler import Scheduler
from millstream.engines.workers import reader
from millstream.engines.workers.exchange import Exchange
from millstream.engines.workers.feed import WorkersFeed, _Saving
from millstream.engines.workers.gather import Gather
from millstream.engines.workers.legs import BOUNDARY
from millstream.engines.workers.messages import Allow, Boundary, EpochPart
from millstream.guarantees import lifecycle
from millstream.guarantees.checkpointer import Checkpointer
from millstream.guarantees.delivery import Delivery, order
from millstream.guarantees.lifecycle import EpochLifecycle
from millstream.guarantees.sink_guard import SinkGuard
from millstream.log.contracts import Progress
from millstream.log.epochs import Epoch, Totals, merged_receipts
from millstream.state import checkpoints, layer_writer
from millstream.state.background import Work
from millstream.state.checkpoints import CheckpointReader
from millstream.state.files import Files
from millstream.state.stored_states import States
from millstream.steps.nodes import Node
from millstream.substreams.event_time import EventTime

SEEDS = range(120)
Break = Callable[[pytest.MonkeyPatch], None]


def effects_before_their_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedEpochLog, "sync", lambda log: None)


def epochs_in_order_of_arrival(patch: pytest.MonkeyPatch) -> None:
    def ready(exchange: Exchange[Any]) -> tuple[int, int, list[Any]] | None:
        for (epoch, phase), parts in exchange._held.items():
            if len(parts) >= exchange._parts[phase] and epoch in exchange.allowed._epochs:
                exchange.allowed._epochs.remove(epoch)
                return epoch, phase, exchange._held.pop((epoch, phase))
        return None

    patch.setattr(Exchange, "ready", ready)


def state_that_changes_before_it_is_allowed(patch: pytest.MonkeyPatch) -> None:
    take = Exchange.take

    def take_at_once(exchange: Exchange[Any], epoch: int, phase: int, part: Any) -> None:
        if epoch not in exchange.allowed._epochs:
            exchange.allowed.allow(Allow(epoch, epoch + 1))
        take(exchange, epoch, phase, part)

    patch.setattr(Exchange, "take", take_at_once)


def a_manifest_of_an_earlier_epoch_than_its_sections(patch: pytest.MonkeyPatch) -> None:
    start = Checkpointer.start

    def start_earlier(checkpointer: Checkpointer, epoch: int, *others: Any) -> None:
        start(checkpointer, max(0, epoch - 1), *others)

    patch.setattr(Checkpointer, "start", start_earlier)


def _unsynced(files: Files, path: Path, chunks: Iterable[bytes | memoryview]) -> Work[None]:
    files.write(path, chunks)
    yield


def a_manifest_before_an_owner_has_synced_its_layer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(layer_writer, "write_durably", _unsynced)


def a_line_before_its_manifest_is_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checkpoints, "write_durably", _unsynced)


def a_manifest_without_the_sections_of_one_owner(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Saving, "done", property(lambda saving: bool(saving._sections)))
    patch.setattr(_Saving, "result", lambda saving: saving._sections)


def a_manifest_that_counts_without_its_line(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CheckpointReader, "numbers", CheckpointReader._on_disk)


def a_guard_that_is_off_by_one(patch: pytest.MonkeyPatch) -> None:
    last_epoch = SinkGuard._last_epoch

    def earlier(guard: SinkGuard, name: str, progress: Progress | None) -> int:
        return last_epoch(guard, name, progress) - 1

    patch.setattr(SinkGuard, "_last_epoch", earlier)


def a_guard_that_trusts_the_first_epoch_of_a_merged_receipt(patch: pytest.MonkeyPatch) -> None:
    def before_rows(guard: SinkGuard, name: str, held: int) -> int:
        reader = guard._log.reader()
        made = (receipt.rows.get(name, (-1, -1)) for receipt in reader.receipts(max(held, reader.base.epoch) + 1))
        return next(first for first, last in made if last > held) - 1

    patch.setattr(SinkGuard, "_before_rows", before_rows)


def a_commit_of_epochs_in_no_checkpoint(patch: pytest.MonkeyPatch) -> None:
    def commit(self: EpochLifecycle, epoch: int) -> bool:
        if epoch > self.log.totals.committed:
            self.log.commit(epoch)
        return True

    patch.setattr(EpochLifecycle, "_commit_covered", commit)


def lost_epochs_that_the_workers_do_not_skip(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WorkersFeed, "skip", lambda workers, epoch: workers._partitions.follow(epoch))


def receipts_that_are_not_synced_before_their_rows_are_delivered(patch: pytest.MonkeyPatch) -> None:
    process = EpochLifecycle._process

    def unsynced(self: EpochLifecycle, group: Any) -> None:
        with mock.patch.object(self.log, "sync"):
            process(self, group)

    patch.setattr(EpochLifecycle, "_process", unsynced)


def a_checkpoint_before_its_rows_are_delivered(patch: pytest.MonkeyPatch) -> None:
    cut, process, deliver, checkpoint, commit = order(Delivery.EXACTLY_ONCE)
    patch.setattr(lifecycle, "order", lambda delivery: (cut, process, checkpoint, deliver, commit))


def digests_of_one_share_only(patch: pytest.MonkeyPatch) -> None:
    take = Gather.take

    def take_without_digests(gather: Gather, part: EpochPart) -> None:
        if part.report is not None and part.sender > 0:
            part = replace(part, report=replace(part.report, streams={}))
        take(gather, part)

    patch.setattr(Gather, "take", take_without_digests)


def ends_before_the_rows_of_all_owners(patch: pytest.MonkeyPatch) -> None:
    ready = Exchange.ready

    def ready_early(exchange: Exchange[Any]) -> tuple[int, int, list[Any]] | None:
        epoch = exchange.allowed.first
        held = exchange._held.get((-1 if epoch is None else epoch, BOUNDARY), [])
        if exchange._phase == BOUNDARY and any(isinstance(part, Boundary) for part in held):
            with mock.patch.object(exchange, "_parts", [exchange._parts[0], len(held)]):
                return ready(exchange)
        return ready(exchange)

    def take(exchange: Exchange[Any], epoch: int, phase: int, part: Any) -> None:
        exchange._held.setdefault((epoch, phase), []).append(part)

    patch.setattr(Exchange, "ready", ready_early)
    patch.setattr(Exchange, "take", take)


def restarted_readers_that_do_not_know_the_watermark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reader, "restore_steps", lambda graph, steps, states: restore_states(steps, states))


def restore_states(steps: Iterable[Node], states: States) -> None:
    for node in steps:
        node.step.restore(states[node.name])


def idle_partitions_by_a_clock_instead_of_the_event(patch: pytest.MonkeyPatch) -> None:
    """A role stops waiting for a partition that it has not seen for 300 us of the simulated clock."""
    worlds: list[Scheduler] = []
    made, observe, leave = Scheduler.__init__, EventTime.observe, EventTime.leave
    seen: dict[int, float] = {}

    def make(scheduler: Scheduler, *arguments: Any) -> None:
        made(scheduler, *arguments)
        worlds[:] = [scheduler]
        seen.clear()

    def observe_at(clock: EventTime, latest: Mapping[int, int | None]) -> None:
        seen.update(dict.fromkeys(latest, worlds[0].now))
        observe(clock, latest)

    def leave_silent(clock: EventTime, ended: Iterable[int], idle: Iterable[int]) -> None:
        leave(clock, ended, [rank for rank, at in seen.items() if worlds[0].now - at > 300e-6])

    patch.setattr(Scheduler, "__init__", make)
    patch.setattr(EventTime, "observe", observe_at)
    patch.setattr(EventTime, "leave", leave_silent)


def records_that_are_ahead_of_the_clock_of_their_replay(patch: pytest.MonkeyPatch) -> None:
    cut = ReplayCutter.cut

    def cut_later(cutter: ReplayCutter, now: float) -> Epoch | None:
        cutter._epochs = (replace(epoch, at=epoch.at + 3_600_000_000) for epoch in cutter._epochs)
        return cut(cutter, now)

    patch.setattr(ReplayCutter, "cut", cut_later)


def headers_without_the_last_epoch_of_rows(patch: pytest.MonkeyPatch) -> None:
    header = Totals.header

    def forgetful(totals: Totals) -> bytes:
        return header(dataclasses.replace(totals, last_rows={}))

    patch.setattr(Totals, "header", forgetful)


def segments_that_are_dropped_although_they_are_needed(patch: pytest.MonkeyPatch) -> None:
    def drop(log: SimulatedEpochLog) -> bool:
        if log._journal.second_index is None:
            return False
        log._journal.drop_oldest()
        return True

    patch.setattr(SimulatedEpochLog, "drop_oldest", drop)


def merged_receipts_that_lose_an_epoch(patch: pytest.MonkeyPatch) -> None:
    merged = merged_receipts._merged
    patch.setattr(merged_receipts, "_merged", lambda group: merged(group[1:] or group))


def found(simulated: SimulatedPipeline, folder: Path, likely: int) -> bool:
    """True if a seed shows the defect; the first seed is the one that showed it when the test was written."""
    simulation = Simulation(simulated.config, simulated.records, folder)
    return any(simulation.run(seed).wrong for seed in (likely, *SEEDS))


@pytest.mark.parametrize(
    ("defect", "delivery", "likely"),
    [
        (effects_before_their_sync, "exactly_once", 17),
        (effects_before_their_sync, "at_most_once", 6),
        (receipts_that_are_not_synced_before_their_rows_are_delivered, "exactly_once", 17),
        (a_checkpoint_before_its_rows_are_delivered, "exactly_once", 0),
        (epochs_in_order_of_arrival, "exactly_once", 0),
        (state_that_changes_before_it_is_allowed, "exactly_once", 0),
        (a_manifest_of_an_earlier_epoch_than_its_sections, "exactly_once", 0),
        (a_manifest_before_an_owner_has_synced_its_layer, "exactly_once", 0),
        (a_line_before_its_manifest_is_synced, "exactly_once", 24),
        (a_manifest_without_the_sections_of_one_owner, "exactly_once", 0),
        (a_manifest_that_counts_without_its_line, "at_least_once", 0),
        (a_guard_that_is_off_by_one, "exactly_once", 0),
        (a_guard_that_trusts_the_first_epoch_of_a_merged_receipt, "exactly_once", 62),
        (headers_without_the_last_epoch_of_rows, "exactly_once", 11),
        (segments_that_are_dropped_although_they_are_needed, "exactly_once", 0),
        (merged_receipts_that_lose_an_epoch, "exactly_once", 13),
        (digests_of_one_share_only, "exactly_once", 0),
        (a_commit_of_epochs_in_no_checkpoint, "at_least_once", 0),
        (lost_epochs_that_the_workers_do_not_skip, "at_most_once", 0),
        (idle_partitions_by_a_clock_instead_of_the_event, "exactly_once", 0),
        (idle_partitions_by_a_clock_instead_of_the_event, "at_least_once", 4),
        (records_that_are_ahead_of_the_clock_of_their_replay, "exactly_once", 21),
    ],
)
def test_some_schedule_shows_the_defect(
    keyed: PipelineFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defect: Break, delivery: str, likely: int
) -> None:
    made = keyed(delivery, checkpoint_every=1 if delivery == "exactly_once" else 2)
    defect(monkeypatch)
    assert found(made, tmp_path / "disks", likely)


@pytest.mark.parametrize(
    ("defect", "likely"),
    [(ends_before_the_rows_of_all_owners, 0), (restarted_readers_that_do_not_know_the_watermark, 62)],
)
def test_some_schedule_of_keyed_steps_behind_windows_shows_the_defect(
    graph: PipelineFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defect: Break, likely: int
) -> None:
    made = graph("exactly_once", steps=SHARED)
    defect(monkeypatch)
    assert found(made, tmp_path / "disks", likely)
