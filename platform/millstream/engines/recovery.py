"""Recovery from lost workers: all workers start again from the newest checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from millstream.engines.driver import Feed, run_epochs
from millstream.engines.job import Job
from millstream.errors import WorkerLost
from millstream.guarantees.delivery import Delivery
from millstream.log.epochs import PartitionTable
from millstream.log.ranges import ranges_of

__all__ = ["StepsFailed", "run_with_recovery"]

_MOST_LOSSES = 3
_SOON_SECONDS = 60.0
"""A loss within this time after a start may have the cause of the loss before; a later loss follows successful work."""


class StepsFailed(Exception):
    """A step failed in an epoch that is perhaps not the first one in progress."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def run_with_recovery(
    job: Job,
    open_feed: Callable[[bool], AbstractContextManager[Feed]],
    advice: str,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run a job; after the loss of a worker, run it again with a new feed.

    `open_feed` starts the workers and returns a context manager that ends them. Its argument is True if epochs may
    change state before earlier epochs are delivered. When a step fails in such an epoch, the workers start again and
    process one epoch at a time, so that the run ends at the same epoch as in one process. `advice` is the end of the
    error message when workers are lost repeatedly.
    """
    losses, best = 0, (-1, -1)
    ahead = job.lifecycle.plan.delivery is Delivery.EXACTLY_ONCE
    while True:
        started_at = clock()
        try:
            with open_feed(ahead) as feed:
                run_epochs(job, feed, clock)
                return
        except StepsFailed as failed:
            if not ahead:
                raise failed.error from None
            ahead = False
            job.lifecycle.abandon()
        except WorkerLost as lost:
            job.lifecycle.abandon()
            reached, first = _reached(job), job.backpressure.first
            losses = 1 if reached > best else losses + 1
            best = max(best, reached)
            if first is None and not (lost.counts_when_idle and clock() - started_at < _SOON_SECONDS):
                losses = 0
            elif losses == _MOST_LOSSES:
                where = "" if first is None else f". The first epoch in progress was {_describe_epoch(job, first)}"
                message = f"{lost}; that was the {losses}rd time in a row that no epoch was finished{where}; {advice}"
                raise type(lost)(message) from lost
            job.lifecycle.observer.restarted(f"{lost}; all workers start again from the newest checkpoint")


def _describe_epoch(job: Job, number: int) -> str:
    """Describe an epoch by its number and the offsets of its records."""
    epoch = next(job.epoch_log.reader().epochs(number))
    partitions = PartitionTable(job.epoch_log.totals.partitions)
    spans = [f"{partitions.label(r.rank)} {r.start:,} to {r.stop - 1:,}" for r in ranges_of(epoch, partitions)]
    return f"epoch {number}: {', '.join(spans) or 'no records'}"


def _reached(job: Job) -> tuple[int, int]:
    """The progress of a run: its epochs, and its newest checkpoint, which shows progress among repeated epochs."""
    checkpoint = job.lifecycle.checkpoints.newest()
    return job.epoch_log.totals.epochs, checkpoint.epoch if checkpoint is not None else -1
