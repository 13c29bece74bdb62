"""The Spark engine: a streaming query reads what the planner has cut, the driver takes epochs through their points.

Three hands work side by side: a thread cuts epochs, Spark's query reads them and brings them to the driver, and the
caller's thread processes and delivers. Spark's checkpoint is thrown away: what matters is in the epoch log and saves.
"""

from __future__ import annotations

import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from millstream.engines.job import Job
from millstream.engines.spark.failures import failure
from millstream.engines.spark.handover import Handover
from millstream.engines.spark.placement import worker_steps
from millstream.engines.spark.session import close_session, open_session
from millstream.engines.spark.source import EPOCH, RECORDS, EpochSource, opened
from millstream.errors import MillstreamError
from millstream.log.epochs import Epoch
from millstream.log.reading import records_schema
from millstream.steps.graph import Node

__all__ = ["SparkEngine"]

_IDLE_SECONDS = 0.005
_LOOK_SECONDS = 0.2
_SOON_SECONDS = 0.3


class SparkEngine:
    """Runs a job as one Structured Streaming query; `keep_session` leaves Spark running for the next job."""

    def __init__(self, *, keep_session: bool = False) -> None:
        self._keep_session = keep_session

    def run(self, job: Job) -> None:
        first = job.passage.start()
        cutting = _Cutting(job, first)
        try:
            if cutting.has_work():
                self._run_on_spark(job, first, cutting)
        finally:
            cutting.stop()
        cutting.check()
        job.passage.end()

    def _run_on_spark(self, job: Job, first: int, cutting: _Cutting) -> None:
        folder = job.folder / "spark"
        with ThreadPoolExecutor(1, "millstream-spark") as opening:  # off the main thread, whose signals PySpark takes
            session = opening.submit(open_session, folder / "spark.log").result()
        try:
            self._take_all(job, first, cutting, session, folder)
        finally:
            if not self._keep_session:
                close_session(session)

    def _take_all(self, job: Job, first: int, cutting: _Cutting, session: SparkSession, folder: Path) -> None:
        ahead = worker_steps(job.graph, job.config.engine)
        job.processing.run_ahead(node.name for node in ahead)
        schema = records_schema(job.graph.fields)
        for node in ahead:
            schema = node.step.process(schema.empty_table()).records.schema
        arrived: queue.Queue[pa.Table] = queue.Queue(maxsize=1)
        closing = threading.Event()
        _write_handover(job, first, ahead, folder / "handover.json")
        warming = threading.Thread(target=_warm, args=(session, folder / "handover.json"), name="millstream-warm")
        warming.start()
        query = _start_query(session, folder, _hand_over(arrived, closing))
        try:
            while not job.stop.is_set() and not cutting.over:
                try:
                    table = arrived.get(timeout=_LOOK_SECONDS)
                except queue.Empty:
                    cutting.check()
                    _check(query)
                    job.passage.rest()
                    continue
                parts = _by_epoch(table, schema)
                job.passage.take([(cutting.pop(number), records) for number, records in parts])
                job.throttle.through(parts[-1][0])
        finally:
            closing.set()
            query.stop()
            warming.join()
            (folder / "handover.json").unlink()  # options in it may come from the environment


def _warm(session: SparkSession, handover: Path) -> None:
    """Let Spark's workers import and open what they will need while the query is still being planned."""

    def touch(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        opened(handover, Handover.read(handover))
        yield from batches

    tasks = os.cpu_count() or 1
    with suppress(PySparkException, Py4JError):  # the query meets the same, and tells it
        session.range(0, tasks, 1, tasks).mapInArrow(touch, "id long").collect()


def _write_handover(job: Job, first: int, ahead: Sequence[Node], path: Path) -> None:
    Handover(
        epoch_log=str(job.epoch_folder),
        first=first,
        places={name: (str(place.base), str(place.cache), place.pipeline) for name, place in job.places.items()},
        sources={name: source.model_dump(mode="json") for name, source in job.sources.items()},
        worker_steps=[(node.name, node.config.model_dump(mode="json")) for node in ahead],
        fields=list(job.graph.fields),
        tasks=os.cpu_count() or 1,
    ).write(path)


def _start_query(session: SparkSession, folder: Path, hand_over: Callable[[DataFrame, int], None]) -> StreamingQuery:
    checkpoint = folder / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    session.dataSource.register(EpochSource)
    stream = session.readStream.format(EpochSource.name()).option("handover", str(folder / "handover.json")).load()
    return stream.writeStream.foreachBatch(hand_over).option("checkpointLocation", str(checkpoint)).start()


def _hand_over(arrived: queue.Queue[pa.Table], closing: threading.Event) -> Callable[[DataFrame, int], None]:
    """What Spark calls with a micro-batch: brings it to the driver and lets Spark read on at once."""

    def hand_over(frame: DataFrame, _: int) -> None:
        table = frame.toArrow()
        while not closing.is_set():
            try:
                arrived.put(table, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return

    return hand_over


def _by_epoch(table: pa.Table, schema: pa.Schema) -> list[tuple[int, pa.Table]]:
    """The epochs of a micro-batch in order, each with its records; markers tell of those without any."""
    parts: dict[int, list[pa.Table]] = {}
    for number, packed in zip(table[EPOCH].to_pylist(), table[RECORDS], strict=True):
        batches = parts.setdefault(number, [schema.empty_table()])
        if packed.is_valid:
            batches.append(pa.ipc.open_stream(packed.as_buffer()).read_all())
    return [(number, pa.concat_tables(parts[number])) for number in sorted(parts)]


def _check(query: StreamingQuery) -> None:
    """A query that failed is a crash of the run."""
    if query.isActive:
        return
    error = query.exception()
    if error is None:
        message = "Spark's query ended by itself"
        raise MillstreamError(message)
    raise failure(str(error)) from error


class _Cutting:
    """The planner's thread, and the epochs that are cut and not yet through. What goes wrong there ends the run."""

    def __init__(self, job: Job, first: int) -> None:
        self._job = job
        self._halt = threading.Event()
        self._error: BaseException | None = None
        self._finished = False
        self._waiting = {epoch.number: epoch for epoch in job.waiting(first)}
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="millstream-planner", daemon=True)
        self._thread.start()

    def has_work(self) -> bool:
        """False if nothing is left to do: Spark need not start for that. Does not wait for what may come."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._finished, _SOON_SECONDS)
        return not self.over

    @property
    def over(self) -> bool:
        """Whether nothing is left, and nothing more will come."""
        return self._finished and not self._waiting

    def pop(self, number: int) -> Epoch:
        """An epoch that Spark has read; the log may have shown it to Spark a moment before it is noted here."""
        with self._changed:
            self._changed.wait_for(lambda: number in self._waiting)
            return self._waiting.pop(number)

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self._halt.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._halt.is_set() and not self._job.cutter.done:
                epoch = self._job.cutter.cut(time.monotonic())
                if epoch is None:
                    self._halt.wait(_IDLE_SECONDS)
                    continue
                with self._changed:
                    self._waiting[epoch.number] = epoch
                    self._changed.notify()
        except BaseException as error:  # told to the run's thread
            self._error = error
        with self._changed:
            self._finished = True
            self._changed.notify()
