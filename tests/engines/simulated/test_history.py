"""The effects of crashes, computed from the durable epochs and from the points of the crashes."""

from __future__ import annotations

from millstream.engines.simulated.run.history import Durable, History
from millstream.guarantees.delivery import Crash, Delivery, Point
from millstream.guarantees.lifecycle import DeliveryPlan


def test_a_crash_after_a_delivery_repeats_its_rows() -> None:
    history = History(DeliveryPlan(Delivery.AT_LEAST_ONCE), sinks=2)
    history.began(0, -1, -1)
    history.delivered(0, 0)
    history.crashed(Durable(checkpointed=-1, committed=-1, delivered=(0, -1)))
    assert history.crashes == [Crash(Point.DELIVER, 0, 0)]
    assert history.effects().rows_repeated == (frozenset({0}), frozenset())
    assert history.effects() == history.effects_by_points()


def test_a_commit_that_a_loss_of_power_undid_does_not_count() -> None:
    """The commit does not count although a start in between, which the loss of power ended too, continued from it."""
    history = History(DeliveryPlan(Delivery.AT_MOST_ONCE), sinks=1)
    history.began(0, -1, -1)
    history.committed(0)
    history.crashed(Durable(checkpointed=-1, committed=0, delivered=(-1,)))
    assert history.effects().lost == {0}
    history.began(1, -1, -1)
    history.crashed(Durable(checkpointed=-1, committed=0, delivered=(-1,)))
    history.lost_lines(-1, -1, -1)
    assert history.effects().lost == frozenset()
    assert history.effects() == history.effects_by_points()


def test_a_state_has_the_epochs_of_its_checkpoint_and_the_epochs_since() -> None:
    history = History(DeliveryPlan(Delivery.AT_LEAST_ONCE, checkpoint_every=2, commit_every=4), sinks=1)
    history.began(0, -1, -1)
    for epoch in range(3):
        history.delivered(0, epoch)
        if epoch == 1:
            history.checkpointed(0, epoch)
    history.crashed(Durable(checkpointed=1, committed=-1, delivered=(2,), checkpoint=0))
    history.began(0, 0, 1)
    assert history.met(1) == ((0, True), (1, True), (0, True), (1, True))
    assert history.effects().trained_twice == {0, 1}
    assert history.effects().rows_repeated == (frozenset({0, 1, 2}),)


def test_a_crash_in_a_clean_end_has_no_points() -> None:
    history = History(DeliveryPlan(Delivery.AT_LEAST_ONCE, checkpoint_every=4, commit_every=4), sinks=1)
    history.began(0, -1, -1)
    history.delivered(0, 0)
    history.checkpointed(0, 0)
    history.crashed(Durable(checkpointed=0, committed=-1, delivered=(0,)))
    assert not history.known
    assert history.effects().trained_twice == {0}
