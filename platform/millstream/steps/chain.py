"""Steps of a graph in one process, and the epoch that passes through the steps. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from millstream.digests import Digest, digest_of, digests_by
from millstream.log.epochs import PartitionTable, Scores
from millstream.records import OFFSET, RANK, REJECT, TIME, in_step_order
from millstream.steps.contracts import Result, ends_at
from millstream.steps.declarations import check_result
from millstream.steps.graph import Graph
from millstream.steps.nodes import Node
from millstream.steps.output_records import output_records
from millstream.steps.record_order import RecordOrder
from millstream.steps.runner import EpochPosition, process_batch
from millstream.substreams import Watermark
from millstream.substreams.event_time import latest_times, reject_ahead

__all__ = ["Chain", "EpochInProgress", "begin_epoch"]


@dataclass
class EpochInProgress:
    """An epoch between two steps: its live streams in step order, and the rows, counts and digests made so far.

    `records` are those of all sources, until the last step has read a source; `tables` are the records of the other
    streams that are still read. `inputs` has for each rank the digest of the log's records, `latest` the greatest time
    of its readable records; None without one. `streams` has for each step the digest of the records that it made here,
    and `scores` its scores. `order` is the order of the records, if a step merges streams. `at_end` has the rows of
    windows that steps read at the boundary of the epoch. `window_times` has the times of the rows of windows, for each
    of their tables in `outputs`.
    """

    epoch: int
    records: pa.Table | None
    inputs: dict[int, Digest]
    latest: dict[int, int | None]
    outputs: dict[str, list[pa.Table]]
    streams: dict[str, Digest] = field(default_factory=dict)
    scores: dict[str, Scores] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    order: RecordOrder | None = None
    at_end: dict[str, list[pa.Table]] = field(default_factory=dict)
    window_times: dict[str, list[pa.Array]] = field(default_factory=dict)


def begin_epoch(epoch: int, at: int, records: pa.Table, graph: Graph, partitions: PartitionTable) -> EpochInProgress:
    """Make an epoch, cut at the time `at`, before its first step.

    `records` has the log's columns and `_rank`; rows may be in any order.
    """
    latest = latest_times(records)
    ahead = {rank: graph.source(partitions[rank].source).ahead for rank in latest}
    records = in_step_order(reject_ahead(records, latest, at, ahead))
    inputs = digests_by(records.select([RANK, *graph.log_columns]), RANK)
    records, rejects = _split(records, graph.source_name)
    order = RecordOrder.of(records) if graph.needs_order else None
    if not rejects.num_rows:
        return EpochInProgress(epoch, records, inputs, latest, {}, order=order)
    readable = dict.fromkeys(latest) | latest_times(records)
    return EpochInProgress(epoch, records, inputs, readable, {"rejects": [rejects]}, order=order)


class Chain:
    """Steps of a graph that run in one process, in the order of the graph.

    Another process runs the steps in `ahead` before, each for the same records, to which it adds columns; other
    processes run the steps in `after` later. The chain digests the records of its steps, unless the other process has
    digested them.
    """

    def __init__(
        self, graph: Graph, steps: Sequence[Node], ahead: Iterable[str] = (), after: Iterable[Node] = ()
    ) -> None:
        self.steps = tuple(steps)
        elsewhere = frozenset(ahead)
        self.here = tuple(node for node in steps if node.name not in elsewhere)
        self._here = frozenset(node.name for node in self.here)
        self._graph = graph
        self._digested = {node.name: graph.digested[node.name] for node in steps}
        self._after = tuple(after)
        self._drops = self._plan_drops()
        self._reads = frozenset(stream for node in (*steps, *self._after) for stream in node.reads)
        """The streams that a step reads here or later."""
        self._outputs_read = {
            node.name: [each for each in node.step.outputs if f"{node.name}.{each.name}" in self._reads]
            for node in self.here
        }

    def _plan_drops(self) -> Mapping[str, tuple[bool, Sequence[str]]]:
        """For each step, if nobody reads a source after it, and the other streams that nobody reads after it."""
        drops: dict[str, tuple[bool, Sequence[str]]] = {}
        for index, node in enumerate(self.steps):
            left = {stream for each in (*self.steps[index + 1 :], *self._after) for stream in each.reads}
            sources = any(self._graph.streams[stream].maker is None for stream in left)
            drops[node.name] = (not sources, [stream for stream in node.reads if stream not in left])
        return drops

    def run(self, epoch: EpochInProgress, partitions: PartitionTable) -> None:
        """Run the steps on the records of an epoch."""
        position = EpochPosition(epoch.epoch, partitions)
        for node in self.steps:
            records = self._graph.inputs[node.name].records(epoch.records, epoch.tables, epoch.order, partitions)
            if node.name in self._here:
                result = process_batch(node, records, position)
                self._collect(node, result, epoch, epoch.tables)
                records = result.records
            if self._digested[node.name] and node.name not in epoch.streams:
                epoch.streams[node.name] = digest_of(records.select(self._digested[node.name]))
            if node.name in self._reads:
                epoch.tables[node.name] = records
            without_sources, dropped = self._drops[node.name]
            epoch.records = None if without_sources else epoch.records
            for stream in dropped:
                epoch.tables.pop(stream, None)

    def end(self, epoch: EpochInProgress, watermark: Watermark | None, partitions: PartitionTable) -> None:
        """Run the steps at the boundary of an epoch, where `watermark` is that of the sources, if it has risen.

        Each step first gets the rows that steps before it made at this boundary; then the windows end.
        """
        if watermark is None and not epoch.at_end:
            return
        position = EpochPosition(epoch.epoch, partitions)
        for node in self.here:
            rows = self._graph.inputs[node.name].rows(epoch.at_end)
            if rows is not None:
                result = process_batch(node, rows, position)
                self._collect_at_end(node, result, epoch)
                if self._digested[node.name]:
                    digest = digest_of(result.records.select(self._digested[node.name]))
                    epoch.streams[node.name] = epoch.streams.get(node.name, Digest()) + digest
            if watermark is None:
                continue
            behind = watermark.held_back(self._graph.held_back[node.name])
            if ends_at(node.traits, behind):
                result = node.step.ended(behind)
                check_result(node.name, result, node.made, node.step.outputs)
                self._collect_at_end(node, result, epoch)

    def _collect_at_end(self, node: Node, result: Result, epoch: EpochInProgress) -> None:
        self._collect(node, result, epoch, made := {})
        if node.name in self._reads:
            made[node.name] = result.records
        for stream, table in made.items():
            if table.num_rows:
                epoch.at_end.setdefault(stream, []).append(table)

    def _collect(self, node: Node, result: Result, epoch: EpochInProgress, tables: dict[str, pa.Table]) -> None:
        """Add the rows and counts of a result to the epoch, and the outputs that steps read to `tables`."""
        if result.labelled:
            made = Scores(result.labelled, result.correct, result.baselines)
            epoch.scores[node.name] = epoch.scores.get(node.name, Scores()) + made
        for name, rows in self._graph.made.of(node.name, result.outputs).items():
            epoch.outputs.setdefault(name, []).append(rows)
        for short, windows in result.windows.items():
            if len(windows.times):
                epoch.window_times.setdefault(self._graph.made.names[node.name, short], []).append(windows.times)
        if node.name in self._graph.made.records and result.records.num_rows:
            epoch.outputs.setdefault(node.name, []).append(result.records)
        for output in self._outputs_read[node.name]:
            name = f"{node.name}.{output.name}"
            rows = output_records(node, output, result, self._graph.streams[name].schema)
            if output.of == "window" and tables is epoch.tables:  # rows of windows are read at the boundary
                epoch.at_end.setdefault(name, []).append(rows)
                rows = rows.slice(0, 0)
            tables[name] = rows


def _split(records: pa.Table, source_step: str) -> tuple[pa.Table, pa.Table]:
    """Split records into those that could be read, and reject rows for the others."""
    if records[REJECT].null_count < records.num_rows:
        rejected = records[REJECT].is_valid()
        bad = records.filter(rejected)
        step = pa.array([source_step] * bad.num_rows, pa.string())
        rejects = pa.table({RANK: bad[RANK], OFFSET: bad[OFFSET], TIME: bad[TIME], "step": step, "reason": bad[REJECT]})
        return records.filter(pc.invert(rejected)).drop_columns([REJECT]), rejects
    return records.drop_columns([REJECT]), pa.table({})
