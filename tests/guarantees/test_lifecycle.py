"""The lifecycle of epochs: the frequency of background checkpoints, groups, crashes and invariants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from millstream.guarantees.crash_point import Armed, CrashPoint
from millstream.guarantees.delivery import Delivery
from millstream.guarantees.lifecycle import DeliveryPlan, EpochLifecycle
from millstream.log.contracts import Progress
from millstream.log.epochs import Epoch, EpochLog, EpochReceipt, PartitionName, SinkAdded
from millstream.runs.watch.observer import Observer
from millstream.state.background import Background, Task, Work, finish
from millstream.state.checkpoints import Checkpoint, CheckpointStore
from millstream.state.layers import Layers, Sections
from millstream.state.stored_states import States
from millstream.steps.processor import EpochResult


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


_Made = TypeVar("_Made")


@dataclass
class Finished(Task[_Made]):
    """Work that is done, and took this long."""

    made: _Made
    seconds: float = 0.0
    done: bool = True

    def result(self) -> _Made:
        return self.made

    def leave(self) -> None: ...


class Immediate:
    """Work that is done at once and takes no time."""

    def start(self, work: Work[_Made]) -> Task[_Made]:
        return Finished(finish(work))


class Steps:
    """Steps that take 20 ms to process an epoch, and 10 ms to write their state."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def process(self, epoch: Epoch, attempt: int) -> EpochResult:
        self._clock.now += 0.02
        return EpochResult(
            epoch,
            {"rows": pa.table({"a": [epoch.number]})},
            EpochReceipt(epoch.number, attempt, 0, 0, {}, {}, {}),
        )

    def skip(self, epoch: Epoch) -> None:
        raise AssertionError

    def save(self, next_layer: Callable[[], str], background: Background) -> Task[Sections]:
        self._clock.now += 0.01
        return Finished({}, 0.01)

    def work_ahead(self) -> None:
        pass

    def restore(self, states: States, partitions: Sequence[PartitionName]) -> None:
        pass


class CheckpointObserver(Observer):
    """Collects the epochs after which a checkpoint was written."""

    def __init__(self, epochs: list[int]) -> None:
        self._epochs = epochs

    def checkpointed(self, checkpoint: Checkpoint, seconds: float) -> None:
        self._epochs.append(checkpoint.epoch)


@pytest.fixture
def checkpointed_epochs(tmp_path: Path) -> Callable[..., list[int]]:
    """Advances 13 epochs through their points; returns the epochs after which a checkpoint was written."""

    def take(*, delivery: Delivery = Delivery.EXACTLY_ONCE, checkpoint_every: int = 1, **given: Any) -> list[int]:
        clock, checkpoints = Clock(), list[int]()

        log = EpochLog(tmp_path / "epochs")
        lifecycle = EpochLifecycle(
            DeliveryPlan(delivery, checkpoint_every),
            log,
            CheckpointStore(tmp_path, {}, layers=Layers(tmp_path / "layers", background=Immediate())),
            {},
            {},
            observer=CheckpointObserver(checkpoints),
            clock=clock,
            **given,
        )
        lifecycle.start(Steps(clock))
        for number in range(13):
            epoch = Epoch(number, {})
            log.cut(epoch)
            lifecycle.take([epoch])
        lifecycle.save()
        lifecycle.end()
        log.close()
        return checkpoints

    return take


def test_background_checkpoints_take_a_tenth_of_the_time(checkpointed_epochs: Callable[..., list[int]]) -> None:
    assert checkpointed_epochs() == [0, 6, 12]  # the last checkpoint is that of the clean end


def test_background_checkpoints_are_at_least_checkpoint_every_epochs_apart(
    checkpointed_epochs: Callable[..., list[int]],
) -> None:
    assert checkpointed_epochs(checkpoint_every=7) == [6, 12]


def test_until_an_armed_crash_comes_no_checkpoint_is_delayed(checkpointed_epochs: Callable[..., list[int]]) -> None:
    armed = Armed(CrashPoint.parse("process@3"), lambda: None)
    assert checkpointed_epochs(crash=armed) == [0, 1, 2, 3, 8, 12]


def test_after_a_checkpoint_that_the_epoch_waits_for_there_is_no_pause(
    checkpointed_epochs: Callable[..., list[int]],
) -> None:
    assert checkpointed_epochs(delivery=Delivery.AT_LEAST_ONCE, checkpoint_every=2) == [1, 3, 5, 7, 9, 11, 12]


class Rows:
    """A sink that keeps the last epoch of each append."""

    keeps = True

    def __init__(self) -> None:
        self.appends: list[int] = []

    def progress(self) -> Progress | None:
        return None

    def fence(self, term: int) -> Progress | None:
        return None

    def append(self, rows: pa.Table, progress: Progress) -> None:
        self.appends.append(progress.epoch)

    def read(self) -> Iterator[pa.Table]:
        return iter(())

    def close(self) -> None: ...

    def abandon(self) -> None: ...


class Crash(Exception):
    pass


def fire() -> None:
    raise Crash


def lifecycle_in(
    folder: Path, delivery: Delivery = Delivery.EXACTLY_ONCE, crash: str | None = None
) -> tuple[EpochLifecycle, Rows, list[Epoch]]:
    """A lifecycle with one sink, and eight epochs that are cut."""
    log, sink = EpochLog(folder / "epochs"), Rows()
    epochs = [Epoch(number, {}, (SinkAdded("rows"),) if number == 0 else ()) for number in range(8)]
    for epoch in epochs:
        log.cut(epoch)
    armed = Armed(CrashPoint.parse(crash), fire) if crash is not None else None
    checkpoints = CheckpointStore(folder, {})
    lifecycle = EpochLifecycle(DeliveryPlan(delivery), log, checkpoints, {"rows": sink}, {"rows": "rows"}, armed)
    assert lifecycle.start(Steps(Clock())) == 0
    return lifecycle, sink, epochs


@pytest.mark.parametrize(
    ("crash", "processed", "delivered", "checkpointed", "committed"),
    [
        ("cut@5", 0, [], -1, -1),
        ("process@5", 6, [], -1, -1),
        ("deliver.rows@5", 6, [5], -1, -1),
        ("deliver@5", 6, [5], -1, -1),
        ("checkpoint@5", 6, [5], 5, -1),
        ("commit@5", 6, [5], 5, 5),
    ],
)
def test_a_crash_comes_when_its_whole_group_has_passed_the_point(
    tmp_path: Path, crash: str, processed: int, delivered: list[int], checkpointed: int, committed: int
) -> None:
    lifecycle, sink, epochs = lifecycle_in(tmp_path, crash=crash)
    with pytest.raises(Crash):
        lifecycle.take(epochs)
    newest = lifecycle.checkpoints.newest()
    assert sink.appends == delivered
    assert (newest.epoch if newest else -1, lifecycle.log.totals.committed) == (checkpointed, committed)
    assert len(list(lifecycle.log.reader().receipts())) == processed


@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE])
def test_without_exactly_once_each_epoch_is_a_group(tmp_path: Path, delivery: Delivery) -> None:
    lifecycle, sink, epochs = lifecycle_in(tmp_path, delivery)
    assert lifecycle.group_size(epochs) == 1
    lifecycle.take(epochs)
    assert sink.appends == list(range(8))


def test_an_epoch_that_is_left_out_is_refused(tmp_path: Path) -> None:
    lifecycle, _, epochs = lifecycle_in(tmp_path)
    with pytest.raises(AssertionError):
        lifecycle.take([epochs[0], epochs[2]])


def test_an_epoch_that_is_not_in_the_log_is_refused(tmp_path: Path) -> None:
    lifecycle, _, epochs = lifecycle_in(tmp_path)
    with pytest.raises(AssertionError, match="cut is in the log"):
        lifecycle.take([*epochs, Epoch(8, {})])
