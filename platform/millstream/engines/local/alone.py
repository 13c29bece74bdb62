"""A run with one worker: one process, one loop, no channel."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa

from millstream.engines.job import Job
from millstream.log.epochs import Epoch
from millstream.log.reading import read_epoch, records_schema

__all__ = ["run_alone"]

_LEAST_WAIT, _MOST_WAIT, _OF_QUIET = 0.0003, 0.002, 0.1
"""Seconds until the log is looked at again: a tenth of how long it has been quiet, within these bounds."""


def run_alone(job: Job, clock: Callable[[], float] = time.monotonic) -> None:
    """Read, process and deliver epoch after epoch in this process."""
    first = job.passage.start()
    schema = records_schema(job.graph.fields)

    def take(epoch: Epoch) -> None:
        batches = read_epoch(epoch, job.logs, job.epoch_log.totals.partitions, schema)
        job.passage.take([(epoch, pa.Table.from_batches(batches, schema))])
        job.throttle.through(epoch.number)

    for epoch in job.waiting(first):
        if job.stop.is_set():
            break
        take(epoch)
    came = clock()
    while not job.stop.is_set() and not job.cutter.done:
        now = clock()
        cut = job.cutter.cut(now)
        if cut is not None:
            take(cut)
            came = clock()
        elif not job.cutter.done:
            job.stop.wait(min(max(_LEAST_WAIT, (now - came) * _OF_QUIET), _MOST_WAIT))
    job.passage.end()
