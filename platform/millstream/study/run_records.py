"""The records of a real run as a stream for trials: in the order in which its steps got them, cut into its epochs."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.config.load import Loaded
from millstream.errors import MillstreamError
from millstream.log.checked_source import open_log
from millstream.log.contracts import Log, OpenContext
from millstream.log.epochs import EpochReader, PartitionTable
from millstream.log.ranges import ranges_of, read_table, records_schema
from millstream.records import OFFSET, RANK, REJECT, in_step_order
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import graph_of
from millstream.steps.graph import Graph

__all__ = ["RunRecords", "read_records"]


@dataclass(frozen=True)
class RunRecords:
    """The records of a run, with the columns that its model reads.

    Epoch `e` has the records [edges[e], edges[e + 1]); `places` has the partition's number and the offset of each.
    `classify` is the config of the step that predicts; each label is an index of `names`.
    """

    columns: pa.Table
    places: Array
    labels: Array
    names: list[str]
    edges: Array
    classify: Any


def read_records(directory: RunDirectory, loaded: Loaded) -> RunRecords:
    """Read all records of a run whose epoch log begins with its first epoch; each of them must have a label."""
    graph = graph_of(loaded)
    index = next(index for index, node in enumerate(graph.steps) if hasattr(node.step, "ask"))
    classify = graph.steps[index].config
    partitions, epochs = _read_epochs(directory, loaded, graph)
    records = pa.concat_tables(epochs)
    if records[REJECT].null_count < records.num_rows or records[classify.label].null_count:
        message = f"{directory.path} has records without a label, and a trial has none"
        raise MillstreamError(message)
    records = records.select(graph.records.names)
    for node in graph.steps[:index]:
        records = node.step.process(records).records
    coded = records[classify.label].combine_chunks().cast(pa.string()).dictionary_encode()
    numbers = np.array([partition.number for partition in partitions])
    return RunRecords(
        columns=records,
        places=np.stack([numbers[records[RANK].to_numpy()], records[OFFSET].to_numpy()], axis=1),
        labels=coded.indices.to_numpy().astype(np.int64),
        names=coded.dictionary.to_pylist(),
        edges=np.cumsum([0, *(epoch.num_rows for epoch in epochs)]),
        classify=classify,
    )


def _read_epochs(directory: RunDirectory, loaded: Loaded, graph: Graph) -> tuple[PartitionTable, list[pa.Table]]:
    """Return the partitions of a run, and the records of each epoch in step order."""
    reader = EpochReader(directory.epochs)
    partitions, schema = PartitionTable(reader.totals().partitions), records_schema(graph.fields)
    with ExitStack() as stack:
        caches = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="millstream-records-")))
        logs: dict[str, Log] = {}
        for source in loaded.config.logs:
            (caches / source.name).mkdir()
            context = OpenContext(loaded.folder, caches / source.name, loaded.config.name, fail_fast=True)
            logs[source.name] = stack.enter_context(closing(open_log(source.config, context)))
            logs[source.name].partitions()
        return partitions, [
            in_step_order(read_table(ranges_of(epoch, partitions), logs.__getitem__, schema))
            for epoch in reader.epochs(0)
        ]
