"""The scheduler allows any order between channels, and keeps the order within each channel."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from millstream.engines.simulated.world.scheduler import Ready, Scheduler, Stuck


class Channels:
    """Two channels with three messages each, and the messages in the order of their delivery."""

    def __init__(self) -> None:
        self.waiting = {"a": [1, 2, 3], "b": [1, 2, 3]}
        self.delivered: list[tuple[str, int]] = []

    def ready(self) -> Iterator[Ready]:
        for name, messages in self.waiting.items():
            if messages:
                yield name, lambda name=name: self._deliver(name)  # type: ignore[misc]

    def _deliver(self, name: str) -> None:
        self.delivered.append((name, self.waiting[name].pop(0)))


def delivered(seed: int) -> list[tuple[str, int]]:
    channels, scheduler = Channels(), Scheduler(random.Random(seed))
    scheduler.join(channels)
    while scheduler.step():
        pass
    return channels.delivered


def test_every_order_between_channels_occurs_and_each_channel_keeps_its_own() -> None:
    orders = [delivered(seed) for seed in range(600)]
    for order in orders:
        for name in "ab":
            assert [message for channel, message in order if channel == name] == [1, 2, 3]
    assert len({tuple(order) for order in orders}) == 20  # all ways to merge three with three


def test_time_advances_with_every_step_and_jumps_to_the_next_timer_when_no_action_is_possible() -> None:
    channels, scheduler = Channels(), Scheduler(random.Random(0))
    scheduler.join(channels)
    scheduler.at(9.0, lambda: channels.waiting["a"].append(4))
    times = []
    while scheduler.step():
        times.append(scheduler.now)
    assert times == sorted(times)
    assert times[5] < 1.0 < times[6] == 9.0
    assert channels.delivered[-1] == ("a", 4)


def test_too_many_steps_without_progress_are_an_error() -> None:
    scheduler = Scheduler(random.Random(0), stall_limit=10)
    for _ in range(10):
        scheduler.idle(1.0)
    with pytest.raises(Stuck, match="10 steps were taken without progress"):
        scheduler.idle(1.0)
