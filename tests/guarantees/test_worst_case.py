"""The worst effects that `explain` reports are the worst over all epochs, not only over the epochs it computes."""

from __future__ import annotations

import math

import pytest

from millstream.guarantees.delivery import Crash, Delivery, effects, order
from millstream.guarantees.explain import outcomes

SINKS = ["a", "b"]


@pytest.mark.parametrize("delivery", Delivery)
@pytest.mark.parametrize("checkpoint_every", range(1, 6))
@pytest.mark.parametrize("commit_every", range(1, 6))
def test_no_epoch_has_worse_effects_than_reported(delivery: Delivery, checkpoint_every: int, commit_every: int) -> None:
    if delivery is Delivery.AT_MOST_ONCE and commit_every > 1:
        return
    reported = {
        (outcome.point, outcome.sink): outcome for outcome in outcomes(delivery, checkpoint_every, commit_every, SINKS)
    }
    assert [point for point, sink in reported if sink is None] == list(order(delivery))
    for (point, sink), worst in reported.items():
        index = None if sink is None else SINKS.index(sink)
        all_effects = [
            effects(delivery, checkpoint_every, commit_every, [Crash(point, epoch, index)], len(SINKS))
            for epoch in range(3 * math.lcm(checkpoint_every, commit_every))
        ]
        assert worst.trained_twice == max(len(one.trained_twice) for one in all_effects)
        assert worst.lost == max(len(one.lost) for one in all_effects)
        for position, name in enumerate(SINKS):
            assert worst.rows_repeated[name] == max(len(one.rows_repeated[position]) for one in all_effects)
            assert worst.rows_missing[name] == max(len(one.rows_missing[position]) for one in all_effects)
