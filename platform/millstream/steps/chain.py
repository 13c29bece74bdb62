"""Chains of steps, and the epoch that passes through the steps. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.log.epochs import Baselines, PartitionTable
from millstream.records import OFFSET, RANK, REJECT, TIME, digest_of, in_step_order
from millstream.steps.contracts import Result
from millstream.steps.graph import Graph, Node
from millstream.steps.runner import EpochPosition, process_batch
from millstream.substreams.event_time import latest_times

__all__ = ["Chain", "EpochInProgress", "begin_epoch"]


@dataclass
class EpochInProgress:
    """An epoch between two steps: its records in step order, and the rows, counts and digests made so far.

    `inputs` has for each rank the count and the digest of the log's records, `latest` the greatest time.
    """

    epoch: int
    records: pa.Table
    inputs: dict[int, tuple[int, str]]
    latest: dict[int, int | None]
    outputs: dict[str, list[pa.Table]]
    steps: dict[str, str] = field(default_factory=dict)
    correct: int = 0
    labelled: int = 0
    baselines: Baselines = field(default_factory=Baselines)

    def collect(self, result: Result) -> None:
        """Add the rows and counts of a step's result."""
        self.correct += result.correct
        self.labelled += result.labelled
        self.baselines += result.baselines
        for name, table in result.outputs.items():
            if table.num_rows:
                self.outputs.setdefault(name, []).append(table)


def begin_epoch(epoch: int, records: pa.Table, graph: Graph) -> EpochInProgress:
    """Make an epoch before its first step. `records` has the log's columns and `_rank`; rows may be in any order."""
    records = in_step_order(records)
    inputs = _inputs(records, graph.log_columns)
    records, rejects = _split(records, graph.source_name)
    outputs = {"rejects": [rejects]} if rejects.num_rows else {}
    return EpochInProgress(epoch, records, inputs, latest_times(records), outputs)


class Chain:
    """Consecutive steps of a pipeline that run in one process.

    Another process runs the steps in `ahead` before. `whole`: the chain gets whole epochs, and digests their records.
    """

    def __init__(self, graph: Graph, steps: Sequence[Node], ahead: Iterable[str] = (), *, whole: bool = True) -> None:
        self.steps = tuple(steps)
        elsewhere = frozenset(ahead)
        self.here = tuple(node for node in steps if node.name not in elsewhere)
        made = graph.digested if whole else {}
        self._digested = {node.name: made.get(node.name, []) for node in steps}

    def run(self, epoch: EpochInProgress, partitions: PartitionTable) -> None:
        """Run the steps on an epoch."""
        position = EpochPosition(epoch.epoch, partitions)
        for node in self.steps:
            if node in self.here:
                result = process_batch(node, epoch.records, position)
                epoch.collect(result)
                epoch.records = result.records
            if self._digested[node.name]:
                epoch.steps[node.name] = digest_of([epoch.records.select(self._digested[node.name])])


def _inputs(records: pa.Table, columns: Sequence[str]) -> dict[int, tuple[int, str]]:
    """For each rank the record count and the digest of its records."""
    ranks = records[RANK].to_numpy()
    plain = records.select(columns)
    if len(ranks) and (ranks == ranks[0]).all():
        return {int(ranks[0]): (records.num_rows, digest_of([plain]))}
    present = np.unique(ranks).tolist()
    parts = {rank: plain.filter(pa.array(ranks == rank)) for rank in present}
    return {rank: (part.num_rows, digest_of([part])) for rank, part in parts.items()}


def _split(records: pa.Table, source_step: str) -> tuple[pa.Table, pa.Table]:
    """Split records into those that could be read, and reject rows for the others."""
    if records[REJECT].null_count < records.num_rows:
        rejected = records[REJECT].is_valid()
        bad = records.filter(rejected)
        step = pa.array([source_step] * bad.num_rows, pa.string())
        rejects = pa.table({RANK: bad[RANK], OFFSET: bad[OFFSET], TIME: bad[TIME], "step": step, "reason": bad[REJECT]})
        return records.filter(pc.invert(rejected)).drop_columns([REJECT]), rejects
    return records.drop_columns([REJECT]), pa.table({})
