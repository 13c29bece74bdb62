"""What an engine is given: everything about one start of a run, built and ready."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from millstream.config.models import Config
from millstream.engines.cutter import Cutter, Throttle
from millstream.guarantees.passage import Passage
from millstream.log.contracts import Log, Place
from millstream.log.epochs import Epoch, EpochLog, PartitionName
from millstream.records import RANK, log_schema
from millstream.steps.graph import Graph

__all__ = ["Engine", "Job", "read_epoch", "records_schema"]


@dataclass
class Job:
    """One start of a run. `stop` asks for an end after the epoch in hand."""

    config: Config
    graph: Graph
    sources: Mapping[str, Any]
    places: Mapping[str, Place]
    logs: Mapping[str, Log]
    epoch_log: EpochLog
    epoch_folder: Path
    cutter: Cutter
    throttle: Throttle
    passage: Passage
    folder: Path
    stop: threading.Event = field(default_factory=threading.Event)


class Engine(Protocol):
    """Takes a job's epochs in order through its passage, until the cutter is done or `stop` is set."""

    def run(self, job: Job) -> None: ...


def records_schema(fields: list[str]) -> pa.Schema:
    """What an epoch's records look like when they reach the steps: the log's columns behind the rank."""
    return log_schema(fields).insert(0, pa.field(RANK, pa.int32()))


def read_epoch(
    epoch: Epoch, logs: Mapping[str, Log], partitions: list[PartitionName], schema: pa.Schema
) -> list[pa.RecordBatch]:
    """The records of an epoch, read here and now; fields that a source does not have are null."""
    batches = []
    for rank, (start, stop) in epoch.cut.items():
        partition = partitions[rank]
        for batch in logs[partition.source].read(partition.name, start, stop):
            batches.append(fitted(batch, rank, schema))
    return batches


def fitted(batch: pa.RecordBatch, rank: int, schema: pa.Schema) -> pa.RecordBatch:
    """A log's batch with its rank and with exactly the schema's columns."""
    columns: list[pa.Array] = []
    for column in schema:
        if column.name == RANK:
            columns.append(pa.repeat(pa.scalar(rank, pa.int32()), batch.num_rows))
        elif column.name in batch.schema.names:
            columns.append(batch.column(column.name))
        else:
            columns.append(pa.nulls(batch.num_rows, column.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
