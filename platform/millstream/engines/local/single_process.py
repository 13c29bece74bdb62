"""The feed of a run in one process: no channels, and at most one thread, which reads ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType

import pyarrow as pa

from millstream.engines.driver_state import DriverState
from millstream.engines.job import Job
from millstream.log.checked_source import open_log
from millstream.log.contracts import Log
from millstream.log.epochs import Epoch, PartitionName
from millstream.log.ranges import ranges_of, read_table, records_schema
from millstream.state.background import Background, Task
from millstream.state.layers import Sections
from millstream.state.stored_states import States
from millstream.steps.outcome import Outcome
from millstream.steps.processor import EpochResult

__all__ = ["SingleProcessFeed"]


class SingleProcessFeed:
    """Reads and processes one epoch after the other in this process.

    With `read_ahead`, a thread reads the next epoch in the meantime if that epoch is full.
    """

    def __init__(self, job: Job, *, read_ahead: bool = False) -> None:
        self._job, self._processor = job, job.processor
        self._state = DriverState(job)
        self._read_ahead = read_ahead
        self._reader = _Reader(job)
        self._offered: deque[tuple[Epoch, Future[pa.Table] | None]] = deque()
        self._records: pa.Table = None

    def wants(self, full: bool) -> bool:
        """True if no epoch is offered, or one, and the next is full. A small epoch waits, because it may still grow."""
        return not self._offered or (self._read_ahead and full and len(self._offered) == 1)

    def offer(self, epoch: Epoch) -> None:
        self._offered.append((epoch, self._reader.read_ahead(epoch) if self._offered else None))

    def ready(self, seconds: float) -> Sequence[Epoch]:
        if not self._offered:
            self._job.stop.wait(seconds)
            return ()
        epoch, reading = self._offered[0]
        self._records = reading.result() if reading is not None else self._reader.read(epoch)
        return (epoch,)

    def unfinished(self) -> Sequence[Epoch]:
        return self.ready(0.0) if self._offered else ()

    def finish(self) -> Outcome:
        return self._processor.outcome()

    def restore(self, states: States, partitions: Sequence[PartitionName]) -> None:
        self._state.restore(states, partitions)

    def skip(self, epoch: Epoch) -> None:
        self._processor.skip(epoch)

    def process(self, epoch: Epoch, attempt: int) -> EpochResult:
        offered, _ = self._offered.popleft()
        assert offered is epoch, (offered, epoch)
        return self._processor.process(epoch, self._records, attempt)

    def save(self, next_layer: Callable[[], str], background: Background) -> Task[Sections]:
        return self._state.save(next_layer, background)

    def work_ahead(self) -> None:
        """Do nothing: there are no other workers."""

    def __enter__(self) -> SingleProcessFeed:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._reader.close()


class _Reader:
    """Reads epochs: at once from the logs of the job, or ahead in a thread from logs of its own."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._schema = records_schema(job.graph.fields)
        self._ending = ExitStack()
        self._thread: ThreadPoolExecutor | None = None
        self._logs: dict[str, Log] = {}

    def read(self, epoch: Epoch) -> pa.Table:
        return self._read(epoch, self._job.logs)

    def read_ahead(self, epoch: Epoch) -> Future[pa.Table]:
        if self._thread is None:
            for source in self._job.config.logs:
                log = open_log(source.config, self._job.contexts[source.name])
                self._ending.callback(log.close)  # also if the next source cannot be opened
                self._logs[source.name] = log
            self._thread = self._ending.enter_context(ThreadPoolExecutor(1, "millstream-read"))
        return self._thread.submit(self._read, epoch, self._logs)

    def close(self) -> None:
        self._ending.close()

    def _read(self, epoch: Epoch, logs: Mapping[str, Log]) -> pa.Table:
        ranges = ranges_of(epoch, self._job.epoch_log.totals.partitions)
        return read_table(ranges, logs.__getitem__, self._schema)
