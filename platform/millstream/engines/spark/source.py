"""Spark's Python data source over the epoch log: offsets are epochs, partitions their cuts, rows carry the epoch.

A row holds a batch of records in Arrow's stream format, which Spark carries from the workers to the driver unchanged.
Records as rows of Spark would cost twice as much without a benefit, because every step runs before or after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from millstream.engines.spark.worker_log import print_log_messages
from millstream.engines.spark.worker_setup import WorkerSetup
from millstream.log.contracts import Log
from millstream.log.epochs import Epoch, EpochReader, PartitionTable
from millstream.log.ranges import Range, ranges_of, read_ranges, records_schema
from millstream.redaction import Secrets

if TYPE_CHECKING:
    from millstream.steps.nodes import Node

__all__ = ["EPOCH", "RECORDS", "EpochSource"]

EPOCH = "epoch"
RECORDS = "records"
"""Null in the announcement, a row that every epoch sends before its records: an epoch may have none."""

_SCHEMA = pa.schema([pa.field(EPOCH, pa.int64()), pa.field(RECORDS, pa.binary())])
_MOST_RECORDS = 50_000
"""The maximum of records in a micro-batch, unless a single epoch has more."""


@dataclass
class Slice(InputPartition):
    """The work of one task: ranges, each with its epoch, and the epochs that the task announces."""

    ranges: Sequence[tuple[int, Range]]
    announced: Sequence[int]

    def __init__(
        self, ranges: Sequence[tuple[int, Range]], announced: Sequence[int]
    ) -> None:  # InputPartition has a constructor of its own
        super().__init__(None)
        self.ranges = ranges
        self.announced = announced


class EpochSource(DataSource):
    """`spark.readStream.format("millstream")`, with the path of the worker setup as its only option."""

    @classmethod
    def name(cls) -> str:
        return "millstream"

    def schema(self) -> str:
        return f"{EPOCH} bigint, {RECORDS} binary"

    def streamReader(self, schema: Any) -> EpochStreamReader:  # noqa: N802 (Spark's name)
        return EpochStreamReader(Path(self.options["worker_setup"]))


class EpochStreamReader(DataSourceStreamReader):
    """Plans micro-batches from the epoch log, and reads their cuts in Spark's workers."""

    def __init__(self, worker_setup: Path) -> None:
        self._path = worker_setup
        self._worker_setup = WorkerSetup.read(worker_setup)
        self._log: EpochReader | None = None
        self._epochs: dict[int, Epoch] = {}
        self._partitions = PartitionTable()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"epoch": self._worker_setup.first}

    def latestOffset(self, start: Mapping[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        """The end of the next micro-batch: as many epochs as fit 50,000 records, at least one. `limit` is not used."""
        self._follow_log()
        stop, records = start["epoch"], 0
        while stop in self._epochs and (records == 0 or records + self._epochs[stop].size <= _MOST_RECORDS):
            records += self._epochs[stop].size
            stop += 1
        return {"epoch": stop}

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[Slice]:
        """The cuts of these epochs, divided among as many tasks as their size is worth."""
        self._follow_log()
        numbers = range(start["epoch"], end["epoch"])
        ranges = [
            (number, wanted) for number in numbers for wanted in ranges_of(self._epochs[number], self._partitions)
        ]
        for past in [number for number in self._epochs if number < start["epoch"]]:
            del self._epochs[past]
        slices = [Slice(part, []) for part in _divide(ranges, self._worker_setup.tasks)]
        slices[0].announced = list(numbers)
        return slices

    def _follow_log(self) -> None:
        if self._log is None:
            self._log = EpochReader(Path(self._worker_setup.epoch_log))
            self._partitions = PartitionTable(self._log.totals().partitions)
        for epoch in self._log.follow(self._worker_setup.first):
            self._epochs[epoch.number] = epoch
            self._partitions.follow(epoch)

    def read(self, partition: Slice) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        with Secrets(self._worker_setup.secrets).redacting():  # Spark prints errors to its log
            yield from self._read(partition)

    def _read(self, partition: Slice) -> Iterator[pa.RecordBatch]:
        logs, steps = open_once(self._path, self._worker_setup)
        schema = records_schema(self._worker_setup.fields)
        if partition.announced:
            yield pa.record_batch([partition.announced, [None] * len(partition.announced)], schema=_SCHEMA)
        for number, wanted in partition.ranges:
            for batch in read_ranges([wanted], logs.__getitem__, schema):
                yield pa.record_batch([[number], [_run_worker_steps(batch, steps, number, wanted)]], schema=_SCHEMA)


_OPEN: dict[tuple[Path, int], tuple[Mapping[str, Log], Sequence[Node]]] = {}
"""The logs and steps of this worker for the present start of the run; a worker serves many micro-batches."""


def open_once(path: Path, worker_setup: WorkerSetup) -> tuple[Mapping[str, Log], Sequence[Node]]:
    """The logs and steps of a start, opened once in each worker."""
    key = (path, path.stat().st_mtime_ns)
    if key not in _OPEN:
        for logs, _ in _OPEN.values():
            for log in logs.values():
                log.close()
        _OPEN.clear()
        secrets = Secrets(worker_setup.secrets)
        print_log_messages(secrets)
        with secrets.redacting():
            _OPEN[key] = (worker_setup.logs(), worker_setup.steps())
    return _OPEN[key]


def _divide(ranges: Sequence[tuple[int, Range]], tasks: int) -> list[list[tuple[int, Range]]]:
    """Divide ranges into up to `tasks` parts of about equal size; small ranges stay whole, large ones are split."""
    total = sum(wanted.stop - wanted.start for _, wanted in ranges)
    parts = max(1, min(tasks, total // 4_000))
    shared: list[list[tuple[int, Range]]] = [[] for _ in range(parts)]
    share, at, filled = -(-total // parts), 0, 0
    for number, wanted in ranges:
        start = wanted.start
        while start < wanted.stop:
            if filled >= share and at + 1 < parts:
                at, filled = at + 1, 0
            stop = wanted.stop if at + 1 == parts else min(wanted.stop, start + share - filled)
            shared[at].append((number, replace(wanted, start=start, stop=stop)))
            filled += stop - start
            start = stop
    return shared


def _run_worker_steps(batch: pa.RecordBatch, steps: Sequence[Node], epoch: int, wanted: Range) -> bytes:
    """Run the worker steps on a batch; return the result in Arrow's stream format."""
    # Not at the top: the planning process does not need it.
    from millstream.steps.runner import EpochPosition, process_batch

    table = pa.Table.from_batches([batch])
    partitions = PartitionTable()
    partitions.learn({wanted.rank: wanted.partition})
    for node in steps:
        table = process_batch(node, table, EpochPosition(epoch, partitions)).records
    packed = pa.BufferOutputStream()
    with pa.ipc.new_stream(packed, table.schema) as stream:
        stream.write_table(table)
    content: bytes = packed.getvalue().to_pybytes()
    return content
