"""A run with one worker: one process, one loop, no channel."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pyarrow as pa

from millstream.engines.job import Job
from millstream.log.contracts import Log
from millstream.log.epochs import Epoch
from millstream.log.reading import read_epoch, records_schema

__all__ = ["run_alone"]

_LEAST_WAIT, _MOST_WAIT, _OF_QUIET = 0.0003, 0.002, 0.1
"""Seconds until the log is looked at again: a tenth of how long it has been quiet, within these bounds."""


def run_alone(job: Job, clock: Callable[[], float] = time.monotonic, *, read_ahead: bool = False) -> None:
    """Read, process and deliver epoch after epoch in this process.

    `read_ahead`: where there is much to read, a thread reads the next epoch meanwhile.
    """
    waiting = deque(job.waiting(job.passage.start()))
    with ExitStack() as ending:
        reader = _Reader(job, ending)
        came = clock()
        following: tuple[Epoch, Future[pa.Table]] | None = None
        while following is not None or not job.stop.is_set():
            if following is not None:
                epoch, records = following[0], following[1].result()
            else:
                now = clock()
                cut = waiting.popleft() if waiting else job.cutter.cut(now)
                if cut is None:
                    if job.cutter.done:
                        break
                    job.passage.rest()
                    job.stop.wait(min(max(_LEAST_WAIT, (now - came) * _OF_QUIET), _MOST_WAIT))
                    continue
                epoch, records = cut, reader.read(cut)
            if read_ahead and not job.stop.is_set() and (cut := _next_of_many(job, waiting, clock)) is not None:
                following = cut, reader.ahead(cut)
            else:
                following = None
            job.passage.take([(epoch, records)])
            job.throttle.through(epoch.number)
            came = clock()
    job.passage.end()


def _next_of_many(job: Job, waiting: deque[Epoch], clock: Callable[[], float]) -> Epoch | None:
    """The next epoch, if it is there already, and full: a small one would be larger after the one in hand."""
    if waiting:
        return waiting.popleft()
    if (job.cutter.behind or 0) < job.config.engine.epoch.max_records:
        return None
    return job.cutter.cut(clock())


class _Reader:
    """Reads epochs: here and now, or ahead in a thread, from logs of its own."""

    def __init__(self, job: Job, ending: ExitStack) -> None:
        self._job, self._ending = job, ending
        self._schema = records_schema(job.graph.fields)
        self._thread: ThreadPoolExecutor | None = None
        self._logs: Mapping[str, Log] = {}

    def read(self, epoch: Epoch) -> pa.Table:
        return self._read(epoch, self._job.logs)

    def ahead(self, epoch: Epoch) -> Future[pa.Table]:
        if self._thread is None:
            self._logs = {name: source.open(self._job.places[name]) for name, source in self._job.sources.items()}
            for log in self._logs.values():
                self._ending.callback(log.close)
            self._thread = self._ending.enter_context(ThreadPoolExecutor(1, "millstream-read"))
        return self._thread.submit(self._read, epoch, self._logs)

    def _read(self, epoch: Epoch, logs: Mapping[str, Log]) -> pa.Table:
        batches = read_epoch(epoch, logs, self._job.epoch_log.totals.partitions, self._schema)
        return pa.Table.from_batches(batches, self._schema)
