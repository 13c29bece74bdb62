"""The one function of deliveries, against a record-by-record enactment of every schedule."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from millstream.guarantees.delivery import Crash, Delivery, Effects, Point, due, effects, order

EPOCHS = 7
SINKS = 2


class Enactment:
    """A toy run: one record an epoch, durable parts as plain lists; it knows the orders, not the closed form."""

    def __init__(self, delivery: Delivery, save_every: int, commit_every: int) -> None:
        self.delivery, self.save_every, self.commit_every = delivery, save_every, commit_every
        self.saves: list[tuple[int, Counter[int]]] = []
        self.committed = -1
        self.rows: list[list[int]] = [[] for _ in range(SINKS)]
        self.first = 0

    def run(self, crash: Crash | None) -> None:
        trained = Counter(self.saves[-1][1]) if self.saves else Counter[int]()
        newest: int | None = None
        for epoch in range(self.committed + 1, EPOCHS):
            for point in order(self.delivery):
                if point is Point.PROCESS:
                    trained[epoch] += 1
                elif point is Point.SAVE and due(epoch, self.save_every):
                    self.saves.append((epoch, Counter(trained)))
                    newest = epoch
                elif point is Point.COMMIT and due(epoch, self.commit_every):
                    if self.delivery is Delivery.AT_MOST_ONCE:
                        self.committed = max(self.committed, epoch)
                    elif newest is not None:
                        self.committed = max(self.committed, min(epoch, newest))
                elif point is Point.DELIVER:
                    for place in range(SINKS):
                        self.rows[place].append(epoch)
                        if crash == Crash(point, epoch, place):
                            return
                if crash == Crash(point, epoch):
                    return
        self.saves.append((EPOCHS - 1, trained))  # a clean end saves

    def outcome(self) -> Effects:
        trained = self.saves[-1][1]
        every = range(EPOCHS)
        return Effects(
            frozenset(e for e in every if trained[e] > 1),
            frozenset(e for e in every if trained[e] == 0),
            tuple(frozenset(e for e in every if rows.count(e) > 1) for rows in self.rows),
            tuple(frozenset(e for e in every if e not in rows) for rows in self.rows),
        )


def crashes_of(enactment: Enactment) -> Iterator[Crash]:
    for epoch in range(enactment.committed + 1, EPOCHS):
        for point in Point:
            yield Crash(point, epoch)
            if point is Point.DELIVER:
                yield Crash(point, epoch, 0)


def enacted(delivery: Delivery, save_every: int, commit_every: int, crashes: list[Crash]) -> Enactment:
    enactment = Enactment(delivery, save_every, commit_every)
    for crash in crashes:
        enactment.run(crash)
    return enactment


@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE])
@pytest.mark.parametrize("save_every", [1, 2, 3, 4])
def test_the_function_agrees_with_every_schedule_of_up_to_two_crashes(delivery: Delivery, save_every: int) -> None:
    schedules = 0
    for commit_every in (1,) if delivery is Delivery.AT_MOST_ONCE else (1, 2, 3, 4):
        for first in crashes_of(Enactment(delivery, save_every, commit_every)):
            after_first = enacted(delivery, save_every, commit_every, [first])
            for crashes in ([first], *([first, second] for second in crashes_of(after_first))):
                enactment = enacted(delivery, save_every, commit_every, crashes)
                enactment.run(None)
                assert effects(delivery, save_every, commit_every, crashes, SINKS) == enactment.outcome(), crashes
                schedules += 1
    assert schedules > 500


@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE])
def test_the_function_agrees_with_every_schedule_of_three_crashes(delivery: Delivery) -> None:
    for save_every, commit_every in itertools.product((1, 3), (1, 2) if delivery is Delivery.AT_LEAST_ONCE else (1,)):
        for first in crashes_of(Enactment(delivery, save_every, commit_every)):
            two = enacted(delivery, save_every, commit_every, [first])
            for second in list(crashes_of(two))[::5]:
                three = enacted(delivery, save_every, commit_every, [first, second])
                for third in list(crashes_of(three))[::3]:
                    crashes = [first, second, third]
                    enactment = enacted(delivery, save_every, commit_every, crashes)
                    enactment.run(None)
                    assert effects(delivery, save_every, commit_every, crashes, SINKS) == enactment.outcome(), crashes


def test_exactly_once_gets_nothing_wrong() -> None:
    crashes = [Crash(Point.DELIVER, 3, 0), Crash(Point.CUT, 2), Crash(Point.COMMIT, 9)]
    assert effects(Delivery.EXACTLY_ONCE, 4, 4, crashes, SINKS) == Effects(
        rows_repeated=(frozenset(), frozenset()), rows_missing=(frozenset(), frozenset())
    )


def test_a_crash_before_the_restart_point_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot follow a restart at epoch 4"):
        effects(Delivery.AT_MOST_ONCE, 1, 1, [Crash(Point.COMMIT, 3), Crash(Point.CUT, 2)])
