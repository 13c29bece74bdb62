"""Chains of steps, and the epoch that passes through the steps. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from millstream.digests import Digest, digest_of, digests_by
from millstream.log.epochs import PartitionTable, Scores
from millstream.records import OFFSET, RANK, REJECT, TIME, in_step_order
from millstream.steps.contracts import Result
from millstream.steps.graph import Graph, Node
from millstream.steps.runner import EpochPosition, process_batch
from millstream.substreams.event_time import latest_times, reject_ahead

__all__ = ["Chain", "EpochInProgress", "begin_epoch"]


@dataclass
class EpochInProgress:
    """An epoch between two steps: its records in step order, and the rows, counts and digests made so far.

    `inputs` has for each rank the digest of the log's records, `latest` the greatest time of its readable records; None
    without one. `streams` has for each step the digest of the records that it made here, and `scores` its scores.
    """

    epoch: int
    records: pa.Table
    inputs: dict[int, Digest]
    latest: dict[int, int | None]
    outputs: dict[str, list[pa.Table]]
    streams: dict[str, Digest] = field(default_factory=dict)
    scores: dict[str, Scores] = field(default_factory=dict)

    def collect(self, step: str, result: Result) -> None:
        """Add the rows and counts of a step's result."""
        if result.labelled:
            made = Scores(result.labelled, result.correct, result.baselines)
            self.scores[step] = self.scores.get(step, Scores()) + made
        for name, table in result.outputs.items():
            if table.num_rows:
                self.outputs.setdefault(name, []).append(table)


def begin_epoch(epoch: int, at: int, records: pa.Table, graph: Graph, partitions: PartitionTable) -> EpochInProgress:
    """Make an epoch, cut at the time `at`, before its first step.

    `records` has the log's columns and `_rank`; rows may be in any order.
    """
    latest = latest_times(records)
    ahead = {rank: graph.source(partitions[rank].source).ahead for rank in latest}
    records = in_step_order(reject_ahead(records, latest, at, ahead))
    inputs = digests_by(records.select([RANK, *graph.log_columns]), RANK)
    records, rejects = _split(records, graph.source_name)
    if not rejects.num_rows:
        return EpochInProgress(epoch, records, inputs, latest, {})
    readable = dict.fromkeys(latest) | latest_times(records)
    return EpochInProgress(epoch, records, inputs, readable, {"rejects": [rejects]})


class Chain:
    """Consecutive steps of a pipeline that run in one process. Another process runs the steps in `ahead` before.

    The chain digests the records of its steps, unless the other process has digested them.
    """

    def __init__(self, graph: Graph, steps: Sequence[Node], ahead: Iterable[str] = ()) -> None:
        self.steps = tuple(steps)
        elsewhere = frozenset(ahead)
        self.here = tuple(node for node in steps if node.name not in elsewhere)
        self._digested = {node.name: graph.digested[node.name] for node in steps}

    def run(self, epoch: EpochInProgress, partitions: PartitionTable) -> None:
        """Run the steps on an epoch."""
        position = EpochPosition(epoch.epoch, partitions)
        for node in self.steps:
            if node in self.here:
                result = process_batch(node, epoch.records, position)
                epoch.collect(node.name, result)
                epoch.records = result.records
            if self._digested[node.name] and node.name not in epoch.streams:
                epoch.streams[node.name] = digest_of(epoch.records.select(self._digested[node.name]))


def _split(records: pa.Table, source_step: str) -> tuple[pa.Table, pa.Table]:
    """Split records into those that could be read, and reject rows for the others."""
    if records[REJECT].null_count < records.num_rows:
        rejected = records[REJECT].is_valid()
        bad = records.filter(rejected)
        step = pa.array([source_step] * bad.num_rows, pa.string())
        rejects = pa.table({RANK: bad[RANK], OFFSET: bad[OFFSET], TIME: bad[TIME], "step": step, "reason": bad[REJECT]})
        return records.filter(pc.invert(rejected)).drop_columns([REJECT]), rejects
    return records.drop_columns([REJECT]), pa.table({})
