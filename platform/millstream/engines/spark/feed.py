"""The feed of a run on Spark: a Structured Streaming query brings the records of epochs to this process.

Spark reads the epoch log directly, so an epoch that is cut needs no message. Spark's own checkpoint is deleted at every
start: all durable state of a run is in the epoch log and the checkpoints of Millstream.
"""

from __future__ import annotations

import logging
import os
import queue
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from millstream.engines.driver_state import DriverState
from millstream.engines.job import Job
from millstream.engines.spark.failures import error_of
from millstream.engines.spark.placement import worker_steps
from millstream.engines.spark.source import EPOCH, RECORDS, EpochSource, open_once
from millstream.engines.spark.worker_setup import WorkerSetup
from millstream.errors import MillstreamError
from millstream.log.epochs import Epoch, PartitionName
from millstream.log.ranges import records_schema
from millstream.state.background import Background, Task
from millstream.state.layers import Sections
from millstream.state.stored_states import States
from millstream.steps.nodes import Node
from millstream.steps.outcome import Outcome
from millstream.steps.processor import EpochResult

__all__ = ["SparkFeed"]

_LOGGER = logging.getLogger(__name__)

_CHECK_SECONDS = 0.2
_LEAST_WAIT = 0.005
"""Seconds to wait for records of Spark at least: the logs are looked at no more often."""
_SOON_SECONDS = 0.3
"""The delay of Spark's start while there is no epoch, so that a run without new records ends without Spark."""


class SparkFeed:
    """Starts a query with the first epoch, or after a short delay. Some steps run in Spark's workers."""

    def __init__(self, job: Job, session: Callable[[], SparkSession], folder: Path) -> None:
        self._job, self._session, self._folder = job, session, folder
        self._processor = job.processor
        self._state = DriverState(job)
        self._ahead = worker_steps(job.graph, job.config.engine)
        self._processor.run_ahead(node.name for node in self._ahead)
        self._schema = _schema_after(self._ahead, records_schema(job.graph.fields))
        self._offered: deque[Epoch] = deque()
        self._arrived: dict[int, pa.Table] = {}
        """By epoch, the records that Spark has read and that are not processed yet."""
        self._query: _Query | None = None
        self._start_at = time.monotonic() + _SOON_SECONDS

    def wants(self, full: bool) -> bool:
        return True

    def offer(self, epoch: Epoch) -> None:
        self._offered.append(epoch)

    def ready(self, seconds: float) -> Sequence[Epoch]:
        if self._query is None:
            if not self._offered and time.monotonic() < self._start_at:
                self._job.stop.wait(seconds)
                return ()
            self._query = self._start()
        if not self._arrived:
            self._arrived = self._query.receive(max(seconds, _LEAST_WAIT))
        # Spark reads all epochs of the epoch log, so epochs that are repeated may arrive before they are offered.
        return [epoch for epoch in self._offered if epoch.number in self._arrived]

    def unfinished(self) -> Sequence[Epoch]:
        return ()

    def finish(self) -> Outcome:
        return self._processor.outcome()

    def close(self) -> None:
        if self._query is not None:
            self._query.stop()

    def restore(self, states: States, partitions: Sequence[PartitionName]) -> None:
        self._state.restore(states, partitions)

    def skip(self, epoch: Epoch) -> None:
        self._processor.skip(epoch)

    def process(self, epoch: Epoch, attempt: int) -> EpochResult:
        offered = self._offered.popleft()
        assert offered is epoch, (offered, epoch)
        return self._processor.process(epoch, self._arrived.pop(epoch.number), attempt)

    def save(self, next_layer: Callable[[], str], background: Background) -> Task[Sections]:
        return self._state.save(next_layer, background)

    def work_ahead(self) -> None:
        """Do nothing: all steps with state run in this process."""

    def _start(self) -> _Query:
        first = self._offered[0].number if self._offered else self._job.epoch_log.totals.next_epoch
        return _Query(self._session(), self._folder, _worker_setup(self._job, first, self._ahead), self._schema)


class _Query:
    """A running query. The records of a micro-batch wait in a queue while Spark reads the next one."""

    def __init__(self, session: SparkSession, folder: Path, worker_setup: WorkerSetup, schema: pa.Schema) -> None:
        self._path, self._schema = folder / "worker_setup.json", schema
        worker_setup.write(self._path)
        self._tables: queue.Queue[pa.Table] = queue.Queue(maxsize=1)
        self._closing = threading.Event()
        self._checked = time.monotonic()
        self._warming = threading.Thread(target=_warm, args=(session, self._path), name="millstream-warm")
        self._warming.start()
        try:
            self._query = _start_query(session, folder, self._put)
        except BaseException as error:
            self._end()
            if isinstance(error, PySparkException | Py4JError):
                raise error_of(str(error)) from error
            raise

    def receive(self, seconds: float) -> dict[int, pa.Table]:
        """Return the epochs of the next micro-batch in order, each with its records; none if no micro-batch arrives."""
        try:
            return _by_epoch(self._tables.get(timeout=seconds), self._schema)
        except queue.Empty:
            if time.monotonic() - self._checked >= _CHECK_SECONDS:
                _raise_if_ended(self._query)
                self._checked = time.monotonic()
            return {}

    def stop(self) -> None:
        self._closing.set()  # Spark's call of `_put` returns, so that the query can stop
        try:
            self._query.stop()
        except (PySparkException, Py4JError) as error:  # no result depends on this query any more
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            _LOGGER.warning("Spark's query cannot be stopped, and perhaps still reads: %s", reason)
        finally:
            self._end()

    def _end(self) -> None:
        self._closing.set()
        self._warming.join()
        self._path.unlink()  # options in this file may hold secrets from the environment

    def _put(self, frame: DataFrame, _: int) -> None:
        """Queue the records of a micro-batch; called by Spark."""
        table = frame.toArrow()
        while not self._closing.is_set():
            try:
                self._tables.put(table, timeout=_CHECK_SECONDS)
            except queue.Full:
                continue
            return


def _warm(session: SparkSession, worker_setup: Path) -> None:
    """Let Spark's workers import the steps and open the logs while the query is still being planned."""

    def touch(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        open_once(worker_setup, WorkerSetup.read(worker_setup))
        yield from batches

    tasks = os.cpu_count() or 1
    with suppress(PySparkException, Py4JError):  # the query fails in the same way and reports the error
        session.range(0, tasks, 1, tasks).mapInArrow(touch, "id long").collect()


def _schema_after(steps: Sequence[Node], records: pa.Schema) -> pa.Schema:
    """The columns of the records that Spark's workers return, among them the column for unreadable records."""
    for node in steps:
        records = node.step.process(records.empty_table()).records.schema
    return records


def _worker_setup(job: Job, first: int, ahead: Sequence[Node]) -> WorkerSetup:
    return WorkerSetup(
        epoch_log=str(job.epoch_log.folder),
        first=first,
        contexts={
            name: (str(opened.folder), str(opened.cache), opened.pipeline) for name, opened in job.contexts.items()
        },
        sources={source.name: source.config.model_dump(mode="json") for source in job.config.logs},
        worker_steps=[(node.name, node.config.model_dump(mode="json")) for node in ahead],
        fields=list(job.graph.fields),
        tasks=os.cpu_count() or 1,
        import_path=[os.path.abspath(folder) for folder in sys.path],
        secrets=dict(job.secrets.values),
    )


def _start_query(session: SparkSession, folder: Path, put: Callable[[DataFrame, int], None]) -> StreamingQuery:
    checkpoint = folder / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    session.dataSource.register(EpochSource)
    stream = (
        session.readStream.format(EpochSource.name()).option("worker_setup", str(folder / "worker_setup.json")).load()
    )
    return stream.writeStream.foreachBatch(put).option("checkpointLocation", str(checkpoint)).start()


def _by_epoch(table: pa.Table, schema: pa.Schema) -> dict[int, pa.Table]:
    """Split a micro-batch by epoch, in order; an epoch without records has only its announcement."""
    parts: dict[int, list[pa.Table]] = {}
    for number, packed in zip(table[EPOCH].to_pylist(), table[RECORDS], strict=True):
        batches = parts.setdefault(number, [schema.empty_table()])
        if packed.is_valid:
            batches.append(pa.ipc.open_stream(packed.as_buffer()).read_all())
    return {number: pa.concat_tables(parts[number]) for number in sorted(parts)}


def _raise_if_ended(query: StreamingQuery) -> None:
    """Raise the error of a query that has ended."""
    if query.isActive:
        return
    error = query.exception()
    if error is None:
        message = "Spark's query ended by itself"
        raise MillstreamError(message)
    raise error_of(str(error)) from error
