"""The runner of a step: checks the result and the state of the step; its errors name the step and the record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from millstream.errors import MillstreamError, StepFailed
from millstream.log.epochs import PartitionTable
from millstream.records import OFFSET, RANK
from millstream.steps.contracts import Result, State
from millstream.steps.declarations import check_result, check_state
from millstream.steps.nodes import Node
from millstream.steps.sibling_order import in_sibling_order

__all__ = ["EpochPosition", "process_batch", "save_state"]


class _RecordPosition(Protocol):
    """Describes the position of records, for errors."""

    def of_record(self, rank: int, offset: int) -> str:
        """One record, as in "epoch 3, news/0 offset 17"."""
        ...

    def of_batch(self, records: pa.Table) -> str:
        """Several records, as in "in epoch 3, in records from news/0 offset 12 on"."""
        ...


@dataclass(frozen=True)
class EpochPosition:
    """Describes the position of records in an epoch.

    >>> EpochPosition(3, PartitionTable()).of_batch(pa.table({"_rank": [0], "_offset": [12]}))
    'in epoch 3, in records from partition 0 offset 12 on'
    """

    epoch: int
    partitions: PartitionTable

    def of_record(self, rank: int, offset: int) -> str:
        return f"epoch {self.epoch}, {self.partitions.position(rank, offset)}"

    def of_batch(self, records: pa.Table) -> str:
        if not records.num_rows:
            return f"in epoch {self.epoch}"
        first = self.partitions.position(records[RANK][0].as_py(), records[OFFSET][0].as_py())
        return f"in epoch {self.epoch}, in records from {first} on"


def process_batch(node: Node, records: pa.Table, position: _RecordPosition) -> Result:
    """Process records in a step; `StepFailed` if the step fails, or makes a result that it has not declared."""
    try:
        result = node.step.process(records)
    except StepFailed as error:
        if error.rank is None or error.offset is None:
            raise
        message = f"{error} ({position.of_record(error.rank, error.offset)})"
        raise StepFailed(message, error.rank, error.offset) from error
    except MillstreamError:
        raise
    except Exception as error:
        message = f"step '{node.name}' failed {position.of_batch(records)}: {type(error).__name__}: {error}"
        raise StepFailed(message) from error
    check_result(node.name, result, node.made, node.step.outputs)
    records = in_sibling_order(result.records)
    return result if records is result.records else replace(result, records=records)


def save_state(node: Node) -> State:
    """Return the state of a step; `StepFailed` if it has other values than arrays and bytes."""
    state = node.step.save()
    check_state(f"step {node.name!r} ({type(node.step).__name__})", state)
    return state
