"""The driver loop of every engine: cuts epochs, offers them to a feed, and advances ready epochs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from millstream.engines.job import Job
from millstream.guarantees.contracts import Steps
from millstream.log.epochs import Epoch, has_room
from millstream.steps.outcome import Outcome

__all__ = ["Feed", "run_epochs"]

_LEAST_WAIT, _MOST_WAIT, _SHARE_OF_QUIET = 0.0003, 0.002, 0.1
"""The wait before the logs are checked again: a tenth of the time since the last epoch, within these bounds."""


class Feed(Steps, Protocol):
    """An engine behind the driver loop: reads the records of the offered epochs, and runs the steps.

    The driver offers epochs in order, and processes the epochs that `ready` returns next, in order.
    """

    def wants(self, full: bool) -> bool:
        """True if another epoch may be offered. `full`: the next epoch has the maximum size."""
        ...

    def offer(self, epoch: Epoch) -> None:
        """Add an epoch after those offered before."""
        ...

    def ready(self, seconds: float) -> Sequence[Epoch]:
        """Return the epochs that can be processed now; without such epochs, wait for at most `seconds`."""
        ...

    def unfinished(self) -> Sequence[Epoch]:
        """Return the epochs to finish before a stopped run ends: they have changed state, or cost little to finish."""
        ...

    def finish(self) -> Outcome:
        """Return the outcome of all steps; a clean end then needs no other process."""
        ...


def run_epochs(job: Job, feed: Feed, clock: Callable[[], float] = time.monotonic) -> None:
    """Run a job from its durable state to a clean end: advance every epoch through its points."""
    driver = _Driver(job, feed, clock)
    while not job.stop.is_set():
        driver.offer()
        if not driver.in_progress:
            if job.cutter.done:
                break
            job.lifecycle.on_idle()
        driver.take(feed.ready(driver.wait))
    while epochs := feed.unfinished():
        driver.take(epochs)
    job.lifecycle.save()
    job.outcome = feed.finish()
    job.lifecycle.end()


class _Driver:
    def __init__(self, job: Job, feed: Feed, clock: Callable[[], float]) -> None:
        self._job, self._feed, self._clock = job, feed, clock
        self._repeated = job.cut_epochs(job.lifecycle.start(feed))
        """The epochs that an earlier start has cut, after the next one of them."""
        self._next_repeated = next(self._repeated, None)
        self.in_progress: deque[Epoch] = deque()
        """The epochs that are offered and not finished."""
        self._taken_at = clock()

    def offer(self) -> None:
        """Offer epochs to the feed while it wants more and there are more."""
        while self._feed.wants(self._full) and (epoch := self._next()) is not None:
            self.in_progress.append(epoch)
            self._feed.offer(epoch)

    def take(self, epochs: Sequence[Epoch]) -> None:
        if not epochs:
            return
        self._job.lifecycle.take(epochs)
        self._job.backpressure.release(epochs[-1].number)
        for epoch in epochs:
            first = self.in_progress.popleft()
            assert first is epoch, (first, epoch)
        self._taken_at = self._clock()

    @property
    def wait(self) -> float:
        """The seconds to wait for the feed before the logs are checked again."""
        if self.in_progress:
            return _MOST_WAIT
        return min(max(_LEAST_WAIT, (self._clock() - self._taken_at) * _SHARE_OF_QUIET), _MOST_WAIT)

    @property
    def _full(self) -> bool:
        return (
            self._next_repeated is not None
            or (self._job.cutter.behind or 0) >= self._job.config.engine.epoch.max_records
        )

    def _next(self) -> Epoch | None:
        epoch = self._next_repeated
        if epoch is None:
            return self._job.cutter.cut(self._clock())
        records = sum(each.size for each in self.in_progress)
        if not has_room(len(self.in_progress), records, epoch.size):
            return None
        self._next_repeated = next(self._repeated, None)
        return epoch
