"""A minimal run with one record an epoch, and all places in which it may crash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from millstream.guarantees.delivery import Crash, Delivery, Effects, Point, due, order

__all__ = ["EPOCHS", "SINKS", "ReferenceRun", "possible_crashes", "run_with"]

EPOCHS = 7
SINKS = 2


class ReferenceRun:
    """A minimal run with one record an epoch and lists as durable storage. It follows `order`, without a formula."""

    def __init__(self, delivery: Delivery, checkpoint_every: int, commit_every: int) -> None:
        self.delivery, self.checkpoint_every, self.commit_every = delivery, checkpoint_every, commit_every
        self.checkpoints: list[tuple[int, list[int]]] = []
        self.committed = -1
        self.rows: list[list[int]] = [[] for _ in range(SINKS)]
        self.first = 0

    def run(self, crash: Crash | None) -> None:
        trained = [*self.checkpoints[-1][1]] if self.checkpoints else []
        newest: int | None = None
        for epoch in range(self.committed + 1, EPOCHS):
            for point in order(self.delivery):
                if point is Point.PROCESS:
                    trained.append(epoch)
                elif point is Point.CHECKPOINT and due(epoch, self.checkpoint_every):
                    self.checkpoints.append((epoch, [*trained]))
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

    @property
    def trained(self) -> list[int]:
        """The epochs in the newest checkpoint, in the order in which the state got them."""
        return self.checkpoints[-1][1]

    def outcome(self) -> Effects:
        trained = Counter(self.trained)
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


def run_with(delivery: Delivery, checkpoint_every: int, commit_every: int, crashes: Sequence[Crash]) -> ReferenceRun:
    reference = ReferenceRun(delivery, checkpoint_every, commit_every)
    for crash in crashes:
        reference.run(crash)
    return reference
