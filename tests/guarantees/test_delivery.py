"""The function `effects`, compared with a run, record by record, of every schedule of crashes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from millstream.guarantees.delivery import Crash, Delivery, Effects, Point, due, effects, order

EPOCHS = 7
SINKS = 2


class ReferenceRun:
    """A minimal run with one record an epoch and lists as durable storage. It follows `order`, without a formula."""

    def __init__(self, delivery: Delivery, checkpoint_every: int, commit_every: int) -> None:
        self.delivery, self.checkpoint_every, self.commit_every = delivery, checkpoint_every, commit_every
        self.checkpoints: list[tuple[int, Counter[int]]] = []
        self.committed = -1
        self.rows: list[list[int]] = [[] for _ in range(SINKS)]
        self.first = 0

    def run(self, crash: Crash | None) -> None:
        trained = Counter(self.checkpoints[-1][1]) if self.checkpoints else Counter[int]()
        newest: int | None = None
        for epoch in range(self.committed + 1, EPOCHS):
            for point in order(self.delivery):
                if point is Point.PROCESS:
                    trained[epoch] += 1
                elif point is Point.CHECKPOINT and due(epoch, self.checkpoint_every):
                    self.checkpoints.append((epoch, Counter(trained)))
                    newest = epoch
                elif point is Point.COMMIT and due(epoch, self.commit_every):
                    if self.delivery is Delivery.AT_MOST_ONCE:
                        self.committed = max(self.committed, epoch)
                    elif newest is not None:
                        self.committed = max(self.committed, min(epoch, newest))
                elif point is Point.DELIVER:
                    for index in range(SINKS):
                        self.rows[index].append(epoch)
                        if crash == Crash(point, epoch, index):
                            return
                if crash == Crash(point, epoch):
                    return
        self.checkpoints.append((EPOCHS - 1, trained))  # a clean end writes a checkpoint

    def outcome(self) -> Effects:
        trained = self.checkpoints[-1][1]
        epochs = range(EPOCHS)
        return Effects(
            frozenset(e for e in epochs if trained[e] > 1),
            frozenset(e for e in epochs if trained[e] == 0),
            tuple(frozenset(e for e in epochs if rows.count(e) > 1) for rows in self.rows),
            tuple(frozenset(e for e in epochs if e not in rows) for rows in self.rows),
        )


def possible_crashes(reference: ReferenceRun) -> Iterator[Crash]:
    for epoch in range(reference.committed + 1, EPOCHS):
        for point in Point:
            yield Crash(point, epoch)
            if point is Point.DELIVER:
                yield Crash(point, epoch, 0)


def run_with(delivery: Delivery, checkpoint_every: int, commit_every: int, crashes: list[Crash]) -> ReferenceRun:
    reference = ReferenceRun(delivery, checkpoint_every, commit_every)
    for crash in crashes:
        reference.run(crash)
    return reference


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
