"""The function `effects`, compared with a run, record by record, of every schedule of crashes."""

from __future__ import annotations

import itertools

import pytest
from support.reference_runs import SINKS, ReferenceRun, possible_crashes, run_with

from millstream.guarantees.delivery import Crash, Delivery, Effects, Point, effects


@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE])
@pytest.mark.parametrize("checkpoint_every", [1, 2, 3, 4])
def test_effects_are_those_of_the_reference_for_all_schedules_of_up_to_two_crashes(
    delivery: Delivery, checkpoint_every: int
) -> None:
    schedules = 0
    for commit_every in (1,) if delivery is Delivery.AT_MOST_ONCE else (1, 2, 3, 4):
        for first in possible_crashes(ReferenceRun(delivery, checkpoint_every, commit_every)):
            after_first = run_with(delivery, checkpoint_every, commit_every, [first])
            for crashes in ([first], *([first, second] for second in possible_crashes(after_first))):
                reference = run_with(delivery, checkpoint_every, commit_every, crashes)
                reference.run(None)
                assert effects(delivery, checkpoint_every, commit_every, crashes, SINKS) == reference.outcome(), crashes
                schedules += 1
    assert schedules > 500


@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE])
def test_effects_are_those_of_the_reference_for_schedules_of_three_crashes(delivery: Delivery) -> None:
    for checkpoint_every, commit_every in itertools.product(
        (1, 3), (1, 2) if delivery is Delivery.AT_LEAST_ONCE else (1,)
    ):
        for first in possible_crashes(ReferenceRun(delivery, checkpoint_every, commit_every)):
            two = run_with(delivery, checkpoint_every, commit_every, [first])
            for second in list(possible_crashes(two))[::5]:
                three = run_with(delivery, checkpoint_every, commit_every, [first, second])
                for third in list(possible_crashes(three))[::3]:
                    crashes = [first, second, third]
                    reference = run_with(delivery, checkpoint_every, commit_every, crashes)
                    reference.run(None)
                    assert effects(delivery, checkpoint_every, commit_every, crashes, SINKS) == reference.outcome(), (
                        crashes
                    )


def test_exactly_once_has_no_effects() -> None:
    crashes = [Crash(Point.DELIVER, 3, 0), Crash(Point.CUT, 2), Crash(Point.COMMIT, 9)]
    assert effects(Delivery.EXACTLY_ONCE, 4, 4, crashes, SINKS) == Effects(
        rows_repeated=(frozenset(), frozenset()), rows_missing=(frozenset(), frozenset())
    )


def test_a_crash_before_the_restart_point_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot follow a restart at epoch 4"):
        effects(Delivery.AT_MOST_ONCE, 1, 1, [Crash(Point.COMMIT, 3), Crash(Point.CUT, 2)])
