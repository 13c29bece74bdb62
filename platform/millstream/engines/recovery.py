"""Recovery by epochs: if a worker is lost, all of them start again from what is durable."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from millstream.engines.job import Job
from millstream.engines.workers.coordinator import StepsFailed, Workers, take_all
from millstream.engines.workers.messages import Message
from millstream.engines.workers.stages import stages_of
from millstream.errors import MillstreamError
from millstream.guarantees.delivery import Delivery
from millstream.steps.graph import Node

__all__ = ["WorkerLost", "WorkerPool", "run_with_workers"]

_MOST_LOSSES = 3


class WorkerLost(MillstreamError):
    """A worker died, or hangs."""


class WorkerPool(Protocol):
    """The workers of one start, as the coordinator sees them. Both methods may raise `WorkerLost`."""

    @property
    def names(self) -> Sequence[str]:
        """The roles, the sequencer last."""
        ...

    def post(self, name: str, message: Message) -> None:
        """Send a message; it does not wait for the worker."""
        ...

    def receive(self, seconds: float | None) -> Message | None:
        """The next message to the coordinator; None if nothing came within these seconds."""
        ...


def run_with_workers(
    job: Job, pool_of: Callable[[Job], AbstractContextManager[WorkerPool]], clock: Callable[[], float] = time.monotonic
) -> None:
    """Run a job with workers; when one is lost, with new ones. `pool_of` starts them, and as a context ends them.

    Where a step fails while epochs before that one are not yet delivered, they start again too, and take one epoch
    after the other: so it ends where it would end alone.
    """
    stages, losses, best = stages_of(job.graph), 0, (-1, -1)
    together = job.passage.plan.delivery is Delivery.EXACTLY_ONCE and job.passage.crash is None
    while True:
        try:
            with pool_of(job) as pool:
                take_all(job, Workers(pool.names[:-1], stages, pool.post, pool.receive), clock, together=together)
                return
        except StepsFailed as failed:
            if not together:
                raise failed.error from None
            together = False
            job.passage.abandon()
        except WorkerLost as lost:
            job.passage.abandon()
            came, in_hand = _came(job), job.throttle.first
            losses = 1 if came > best else losses + 1
            best = max(best, came)
            if in_hand is None:  # it was quiet: whatever ended the worker, it was not its work
                losses = 0
            elif losses == _MOST_LOSSES:
                message = (
                    f"{lost}; that was the {losses}rd time in a row that no epoch came through. {_told(job, in_hand)}; "
                    f"readers run {_named(stages.head, stages.keyed)}, the sequencer {_named(stages.rest, None)}: look "
                    "at what they do with these records, and at the memory"
                )
                raise WorkerLost(message) from lost
            job.restarted(f"{lost}; all workers start again from what is saved")


def _told(job: Job, epoch: int) -> str:
    """An epoch in hand, by its records."""
    partitions = job.epoch_log.totals.partitions
    cut = next(job.epoch_log.reader().epochs(epoch)).cut
    spans = [f"{partitions[rank].source}/{partitions[rank].name} {a:,} to {b - 1:,}" for rank, (a, b) in cut.items()]
    return f"The first in hand was epoch {epoch}: {', '.join(spans) or 'no records'}"


def _named(steps: Sequence[Node], keyed: Node | None) -> str:
    return ", ".join(node.name for node in (*steps, *([keyed] if keyed is not None else []))) or "none"


def _came(job: Job) -> tuple[int, int]:
    """How far a run has come: new epochs, and saves, which tell of epochs that were repeated."""
    save = job.passage.saves.newest()
    return job.epoch_log.totals.epochs, save.epoch if save is not None else -1
