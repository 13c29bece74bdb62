"""An epoch that could not be read is raised in its turn: the epochs before it are delivered first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from millstream.engines.workers.feed import WorkersFeed
from millstream.engines.workers.legs import Legs
from millstream.engines.workers.messages import Done, Failed, Message
from millstream.log.epochs import Epoch, EpochReceipt
from millstream.steps.processor import EpochResult


class Pool:
    """A pool whose roles send these messages, whatever they receive."""

    names = ("reader 0", "sequencer")

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = list(messages)

    def send(self, name: str, message: Message) -> None: ...

    def receive(self, seconds: float | None) -> Message | None:
        return self._messages.pop(0) if self._messages else None


def done(epoch: Epoch) -> Done:
    receipt = EpochReceipt(epoch.number, 1, 0, 0, {}, {}, {})
    return Done(EpochResult(epoch, {}, receipt))


@pytest.mark.parametrize("failed_first", [False, True])
def test_the_epochs_before_a_failed_one_are_a_group_of_their_own(failed_first: bool) -> None:
    epochs = [Epoch(0, {}), Epoch(1, {})]
    messages: list[Any] = [done(epochs[0]), Failed(ValueError("unreadable"), 1)]
    feed = WorkersFeed(
        Pool(messages[::-1] if failed_first else messages),
        Legs(()),
        group_size=len,
    )
    for epoch in epochs:
        feed.offer(epoch)
    groups = [group for _ in range(3) if (group := feed.ready(0.0))]
    assert [epoch.number for epoch in groups[0]] == [0]
