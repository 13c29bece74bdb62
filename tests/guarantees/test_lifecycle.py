"""Background saves: how often they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millstream.guarantees.crash import Armed, CrashPoint
from millstream.guarantees.delivery import Delivery
from millstream.guarantees.lifecycle import DeliveryPlan, EpochLifecycle
from millstream.log.epochs import Epoch, EpochLog, Note, PartitionName
from millstream.runs.observer import Observer
from millstream.state.applied import Applied
from millstream.state.saver import Saver
from millstream.state.saves import Save, SaveStore, States
from millstream.steps.processor import EpochResult


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Steps:
    """Steps that take 20 ms for an epoch, and 10 ms to say what they remember."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def process(self, epoch: Epoch, attempt: int) -> EpochResult:
        self._clock.now += 0.02
        return EpochResult(epoch, {}, Note(epoch.number, attempt, 0, 0, 0, 0, {}, {}, {}))

    def skip(self, epoch: Epoch) -> None:
        raise AssertionError

    def request_states(self) -> Callable[[], States]:
        def asked() -> States:
            self._clock.now += 0.01
            return {"step": {"state": np.zeros(1)}}

        return asked

    def work_ahead(self) -> None:
        pass

    def restore(self, states: States, partitions: Sequence[PartitionName]) -> None:
        pass


class AtOnce(Saver):
    def start(self, epoch: int, applied: Applied, states: States) -> None:
        super().start(epoch, applied, states)
        self.wait()


class Saves(Observer):
    """Notes the epochs after which there was a save."""

    def __init__(self, epochs: list[int]) -> None:
        self._epochs = epochs

    def checkpointed(self, save: Save, seconds: float) -> None:
        self._epochs.append(save.epoch)


@pytest.fixture
def saved_epochs(tmp_path: Path) -> Callable[..., list[int]]:
    """Takes 13 epochs through their points; the epochs after which there was a save."""

    def take(*, delivery: Delivery = Delivery.EXACTLY_ONCE, save_every: int = 1, **given: Any) -> list[int]:
        clock, saves = Clock(), list[int]()

        log = EpochLog(tmp_path / "epochs")
        lifecycle = EpochLifecycle(
            DeliveryPlan(delivery, save_every),
            log,
            SaveStore(tmp_path / "saves", {}),
            {},
            {},
            observer=Saves(saves),
            clock=clock,
            saver_of=AtOnce,
            **given,
        )
        lifecycle.start(Steps(clock))
        for number in range(13):
            epoch = Epoch(number, {})
            log.cut(epoch)
            lifecycle.take([epoch])
        lifecycle.end()
        log.close()
        return saves

    return take


def test_background_saves_take_a_tenth_of_the_time(saved_epochs: Callable[..., list[int]]) -> None:
    assert saved_epochs() == [0, 5, 10, 12]  # the last at the end


def test_they_are_no_closer_than_save_every(saved_epochs: Callable[..., list[int]]) -> None:
    assert saved_epochs(save_every=7) == [6, 12]


def test_none_is_put_off_until_an_armed_crash_has_come(saved_epochs: Callable[..., list[int]]) -> None:
    armed = Armed(CrashPoint.parse("process@3"), lambda: None)
    assert saved_epochs(crash=armed) == [0, 1, 2, 3, 8, 12]


def test_saves_that_are_waited_for_do_not_pause(saved_epochs: Callable[..., list[int]]) -> None:
    assert saved_epochs(delivery=Delivery.AT_LEAST_ONCE, save_every=2) == [1, 3, 5, 7, 9, 11, 12]
