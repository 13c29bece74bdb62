"""The runner of a step: checks the result and the state of the step; its errors name the step and the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from millstream.errors import MillstreamError, StepFailed
from millstream.log.epochs import PartitionTable
from millstream.records import OFFSET, PATH, RANK
from millstream.steps.contracts import Result, State
from millstream.steps.declarations import check_result, check_state
from millstream.steps.nodes import Node
from millstream.steps.path_text import path_text
from millstream.steps.sibling_order import in_sibling_order
from millstream.substreams import Watermark

__all__ = ["EpochPosition", "end_step", "process_batch", "save_state"]

_LONGEST = 80
"""The longest text of a path in a message."""


class _RecordPosition(Protocol):
    """Describes the position of records, for errors."""

    def of_record(self, rank: int, offset: int, path: bytes) -> str:
        """One record, as in "epoch 3, news/0 offset 17"."""
        ...

    def of_batch(self, records: pa.Table) -> str:
        """Several records, as in "in epoch 3, in records from news/0 offset 12 on"."""
        ...


@dataclass(frozen=True)
class EpochPosition:
    """Describes the position of records in an epoch.

    `windowed` has the names of the steps whose rows of windows may be records, by the rank of these.

    >>> from millstream.log.epochs import PartitionName
    >>> position = EpochPosition(3, PartitionTable([PartitionName("news", "a", 0)]), {-2: "counts"})
    >>> position.of_batch(pa.table({"_rank": [0], "_offset": [12]}))
    'in epoch 3, in records from news/a offset 12 on'
    >>> position.of_record(0, 12, bytes([0, 0, 0, 1])), position.of_record(-2, 17, b'["ann"]')
    ('epoch 3, news/a offset 12, path 1', 'epoch 3, the row of counts for window 17, path ["ann"]')
    """

    epoch: int
    partitions: PartitionTable
    windowed: Mapping[int, str] = field(default_factory=dict)

    def of_record(self, rank: int, offset: int, path: bytes) -> str:
        return f"epoch {self.epoch}, {self._described(rank, offset, path)}"

    def of_batch(self, records: pa.Table) -> str:
        if not records.num_rows:
            return f"in epoch {self.epoch}"
        rank, offset = (records[name][0].as_py() for name in (RANK, OFFSET))
        path = records[PATH][0].as_py() if PATH in records.column_names else None
        return f"in epoch {self.epoch}, in records from {self._described(rank, offset, path)} on"

    def _described(self, rank: int, offset: int, path: bytes | None) -> str:
        known = self.windowed.get(rank)
        position = f"the row of {known} for window {offset}" if known else self.partitions.position(rank, offset)
        if not path:
            return position
        [text] = path_text(pa.chunked_array([[path]])).to_pylist()
        return f"{position}, path {text if len(text) <= _LONGEST else f'{text[:_LONGEST]}...'}"


def process_batch(node: Node, records: pa.Table, position: _RecordPosition) -> Result:
    """Process records in a step; `StepFailed` if the step fails, or makes a result that it has not declared."""
    result = _checked(node, lambda: node.step.process(records), lambda: position.of_batch(records), position)
    if not node.has_paths:
        return result
    windows = {output.name for output in node.step.outputs if output.of == "window"}
    outputs = {name: rows if name in windows else in_sibling_order(rows) for name, rows in result.outputs.items()}
    return replace(result, records=in_sibling_order(result.records), outputs=outputs)


def end_step(node: Node, watermark: Watermark, position: EpochPosition) -> Result:
    """Let a step see that this watermark was reached; `StepFailed` as for `process_batch`."""
    return _checked(node, lambda: node.step.ended(watermark), lambda: f"at the end of epoch {position.epoch}", position)


def _checked(node: Node, call: Callable[[], Result], where: Callable[[], str], position: _RecordPosition) -> Result:
    """The result of this call of a step; errors name the step, and the record or `where` the call was."""
    try:
        result = call()
    except StepFailed as error:
        if error.rank is None or error.offset is None:
            raise
        message = f"{error} ({position.of_record(error.rank, error.offset, error.path)})"
        raise StepFailed(message, error.rank, error.offset, error.path) from error
    except MillstreamError:
        raise
    except Exception as error:
        message = f"step '{node.name}' failed {where()}: {type(error).__name__}: {error}"
        raise StepFailed(message) from error
    check_result(node.name, result, node.made, node.step.outputs)
    return result


def save_state(node: Node) -> State:
    """Return the state of a step; `StepFailed` if it has other values than arrays and bytes."""
    state = node.step.save()
    check_state(f"step {node.name!r} ({type(node.step).__name__})", state)
    return state
