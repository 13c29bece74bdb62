"""The records of a block in the order of the stream, and a model that learns them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from millstream.history.feature_files import feature_files, read_features
from millstream.history.order import in_stream_order
from millstream.history.plan import Block, Plan
from millstream.history.setup import Opened
from millstream.log.epochs import PartitionTable
from millstream.records import OFFSET, RANK
from millstream.steps.runner import process_batch

__all__ = ["NO_SCORES", "block_columns", "block_records", "learn_records"]

_ROWS_AT_ONCE = 10_000
NO_SCORES = {"learned": 0, "labelled": 0, "correct": 0}
"""The counts of a model that has learned nothing."""


def block_records(opened: Opened, number: int) -> pa.Table:
    """The records of a block as the model gets them."""
    schema = opened.way.records
    records = block_columns(opened, number, schema.names)
    return records if records.schema.equals(schema) else records.cast(schema)


def block_columns(opened: Opened, number: int, columns: Sequence[str]) -> pa.Table:
    """These columns of the records of a block; the position has to be among them."""
    schema = pa.schema([opened.way.records.field(name) for name in columns])
    return in_stream_order(read_features(feature_files(opened.folder, number), schema)).select(columns)


def learn_records(opened: Opened, plan: Plan, number: int, records: pa.Table, scores: dict[str, int]) -> None:
    """Let the model predict and learn records of a block, and add the counts to `scores`."""
    position = _Position(plan.blocks[number], plan.names())
    for start in range(0, records.num_rows, _ROWS_AT_ONCE):
        batch = records.slice(start, _ROWS_AT_ONCE)
        result = process_batch(opened.way.model, batch, position)
        counts = {"learned": batch.num_rows, "labelled": result.labelled, "correct": result.correct}
        for name, count in counts.items():
            scores[name] += count


@dataclass(frozen=True)
class _Position:
    """The position of records in a block, for errors."""

    block: Block
    partitions: PartitionTable

    def of_record(self, rank: int, offset: int, path: bytes = b"") -> str:
        return self.partitions.position(rank, offset)

    def of_batch(self, records: pa.Table) -> str:
        epochs = f"in the epochs {self.block.first} to {self.block.last}"
        if not records.num_rows:
            return epochs
        return f"{epochs}, in records from {self.of_record(records[RANK][0].as_py(), records[OFFSET][0].as_py())} on"
