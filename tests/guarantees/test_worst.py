"""The worst that `explain` tells is the worst over all epochs, not only over those it looks at."""

from __future__ import annotations

import math

import pytest

from millstream.guarantees.delivery import Crash, Delivery, effects, order
from millstream.guarantees.explain import outcomes

SINKS = ["a", "b"]


@pytest.mark.parametrize("delivery", Delivery)
@pytest.mark.parametrize("save_every", range(1, 6))
@pytest.mark.parametrize("commit_every", range(1, 6))
def test_no_epoch_is_worse(delivery: Delivery, save_every: int, commit_every: int) -> None:
    if delivery is Delivery.AT_MOST_ONCE and commit_every > 1:
        return
    told = {(outcome.point, outcome.sink): outcome for outcome in outcomes(delivery, save_every, commit_every, SINKS)}
    assert [point for point, sink in told if sink is None] == list(order(delivery))
    for (point, sink), worst in told.items():
        place = None if sink is None else SINKS.index(sink)
        found = [
            effects(delivery, save_every, commit_every, [Crash(point, epoch, place)], len(SINKS))
            for epoch in range(3 * math.lcm(save_every, commit_every))
        ]
        assert worst.trained_twice == max(len(one.trained_twice) for one in found)
        assert worst.lost == max(len(one.lost) for one in found)
        for number, name in enumerate(SINKS):
            assert worst.rows_repeated[name] == max(len(one.rows_repeated[number]) for one in found)
            assert worst.rows_missing[name] == max(len(one.rows_missing[number]) for one in found)
