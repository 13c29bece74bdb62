"""The driver loop of every engine: epochs are cut, offered to a feed, and taken through their lifecycle when ready."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from millstream.engines.job import Job
from millstream.guarantees.lifecycle import Steps
from millstream.log.epochs import Epoch
from millstream.log.epochs.planner import room

__all__ = ["Feed", "run_epochs"]

_LEAST_WAIT, _MOST_WAIT, _SHARE_OF_QUIET = 0.0003, 0.002, 0.1
"""Seconds until the logs are looked at again: a tenth of how long they have been quiet, within these bounds."""


class Feed(Steps, Protocol):
    """An engine behind the driver loop: reads the records of epochs that it is offered, and has the steps.

    Epochs are offered in order, and each one that `ready` returns is processed next, in order.
    """

    def wants(self, full: bool) -> bool:
        """True if another epoch may be offered; `full`: the next one is as large as it may be."""
        ...

    def offer(self, epoch: Epoch) -> None:
        """An epoch follows."""
        ...

    def ready(self, seconds: float) -> Sequence[Epoch]:
        """The epochs that can be taken now; if there are none, waits for at most so many seconds."""
        ...

    def unfinished(self) -> Sequence[Epoch]:
        """The epochs to take before a run ends that was stopped: work on them has changed state, or costs little."""
        ...

    def finish(self) -> None:
        """Bring the state to this process: from here on no other process is needed for a clean end."""
        ...


def run_epochs(job: Job, feed: Feed, clock: Callable[[], float] = time.monotonic) -> None:
    """Take a job's epochs through its lifecycle, from what is durable to a clean end."""
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
    feed.finish()
    job.lifecycle.end()


class _Driver:
    def __init__(self, job: Job, feed: Feed, clock: Callable[[], float]) -> None:
        self._job, self._feed, self._clock = job, feed, clock
        self._repeated = deque(job.cut_epochs(job.lifecycle.start(feed)))
        """The epochs that an earlier start has cut, as far as they are not offered yet."""
        self.in_progress: deque[Epoch] = deque()
        """The epochs that are offered and not taken yet."""
        self._taken_at = clock()

    def offer(self) -> None:
        """Offer the feed as many epochs as there are, and as it wants."""
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
        """The seconds to wait for the feed before the logs are looked at again."""
        if self.in_progress:
            return _MOST_WAIT
        return min(max(_LEAST_WAIT, (self._clock() - self._taken_at) * _SHARE_OF_QUIET), _MOST_WAIT)

    @property
    def _full(self) -> bool:
        return bool(self._repeated) or (self._job.cutter.behind or 0) >= self._job.config.engine.epoch.max_records

    def _next(self) -> Epoch | None:
        if not self._repeated:
            return self._job.cutter.cut(self._clock())
        records = sum(epoch.size for epoch in self.in_progress)
        return self._repeated.popleft() if room(len(self.in_progress), records, self._repeated[0].size) else None
