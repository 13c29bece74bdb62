"""Steps of a graph in one process, and the epoch that passes through the steps. No I/O."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from millstream.digests import Digest, digest_of, digests_by
from millstream.log.epochs import PartitionTable, Scores
from millstream.records import OFFSET, PATH, RANK, REJECT, TIME, in_step_order, no_records
from millstream.steps.boundary_order import in_boundary_order, in_window_order, key_of_rows
from millstream.steps.contracts import Result, Scope, WindowRows, ends_at
from millstream.steps.cycles import Cycle, RecordsSentBack
from millstream.steps.graph import Graph
from millstream.steps.inputs import in_order
from millstream.steps.nodes import Node
from millstream.steps.output_records import output_records
from millstream.steps.record_order import RecordOrder
from millstream.steps.runner import EpochPosition, end_step, process_batch
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
    windows that steps read at the boundary of the epoch. `window_order` has, for each table of rows of windows in
    `outputs`, the times of the rows, or the positions of the records with which their windows closed. `rounds` is the
    number of rounds of each cycle. `round` is the present one, if a chain runs the steps of a cycle by round.
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
    window_order: dict[str, list[pa.Table]] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)
    round: int = 0


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
        self,
        graph: Graph,
        steps: Sequence[Node],
        ahead: Iterable[str] = (),
        after: Iterable[Node] = (),
        *,
        by_round: bool = False,
    ) -> None:
        self.steps = tuple(steps)
        elsewhere = frozenset(ahead)
        self.here = tuple(node for node in steps if node.name not in elsewhere)
        self._here = frozenset(node.name for node in self.here)
        self._graph = graph
        self._digested = {node.name: graph.digested[node.name] for node in steps}
        self._after = tuple(after)
        here_or_elsewhere = {node.name for node in steps}
        units = [unit for unit in graph.units if unit[0].name in here_or_elsewhere]
        alone = [(node,) for node in graph.steps if node.name in here_or_elsewhere]
        self._units = alone if by_round else units
        self._cycles = {} if by_round else graph.cycles
        self._drops = self._plan_drops()
        self._waiting = frozenset(node.name for node in self.here if node.traits.ends)
        """The steps that wait for the ends of substreams."""
        self._reads = frozenset(stream for node in (*steps, *self._after) for stream in node.reads)
        """The streams that a step reads here or later."""
        self._outputs_read = {
            node.name: [each for each in node.step.outputs if f"{node.name}.{each.name}" in self._reads]
            for node in self.here
        }

    def _plan_drops(self) -> Mapping[str, tuple[bool, Sequence[str]]]:
        """After each step or cycle: if nobody reads a source after it, and the other streams that nobody reads then."""
        drops: dict[str, tuple[bool, Sequence[str]]] = {}
        for index, unit in enumerate(self._units):
            later = [node for each in self._units[index + 1 :] for node in each]
            left = {stream for node in (*later, *self._after) for stream in node.reads}
            sources = any(self._graph.streams[stream].maker is None for stream in left)
            drops[unit[0].name] = (not sources, [name for node in unit for name in node.reads if name not in left])
        return drops

    def _input_of(self, node: Node, epoch: EpochInProgress, partitions: PartitionTable) -> pa.Table:
        """The records of an epoch, or of a round, for a step."""
        inputs = self._graph.inputs[node.name]
        if not epoch.round:
            return inputs.records(epoch.records, epoch.tables, epoch.order, partitions)
        found = inputs.of_round(epoch.tables, epoch.order)
        return no_records(node.records) if found is None else found

    def run(self, epoch: EpochInProgress, partitions: PartitionTable) -> None:
        """Run the steps on the records of an epoch."""
        position = EpochPosition(epoch.epoch, partitions, self._graph.windowed)
        for unit in self._units:
            if cycle := self._cycles.get(unit[0].cycle):
                self._go_round(cycle, epoch, position)
            else:
                self._visit(unit[0], epoch, position)
            without_sources, dropped = self._drops[unit[0].name]
            epoch.records = None if without_sources else epoch.records
            for stream in dropped:
                epoch.tables.pop(stream, None)

    def _visit(self, node: Node, epoch: EpochInProgress, position: EpochPosition) -> None:
        """Run a step that is in no cycle, or in the present round."""
        records = self._input_of(node, epoch, position.partitions)
        if node.name in self._here:
            result = process_batch(node, records, position)
            self._collect(node, result, epoch, epoch.tables, given=records)
            records = result.records
        if self._digested[node.name] and node.name not in epoch.streams:
            epoch.streams[node.name] = digest_of(records.select(self._digested[node.name]))
        if node.name in self._reads:
            epoch.tables[node.name] = records

    def _go_round(self, cycle: Cycle, epoch: EpochInProgress, position: EpochPosition) -> None:
        """Run the steps of a cycle until nothing is sent back, and put its streams in order for the steps behind it."""

        def first(node: Node, tables: Mapping[str, pa.Table]) -> pa.Table:
            given = {**epoch.tables, **tables}
            return self._graph.inputs[node.name].records(epoch.records, given, epoch.order, position.partitions)

        assert epoch.order is not None, "the order of the epoch is known where there is a cycle"
        for stream, tables in self._rounds(cycle, epoch, position, first, epoch.order).items():
            together = pa.concat_tables(tables)
            epoch.tables[stream] = in_order(together, epoch.order) if len(tables) > 1 else together

    def _rounds(
        self,
        cycle: Cycle,
        epoch: EpochInProgress,
        position: EpochPosition,
        first: Callable[[Node, Mapping[str, pa.Table]], pa.Table | None],
        order: RecordOrder | None,
    ) -> dict[str, list[pa.Table]]:
        """Run a cycle in rounds, of which each holds what the round before it sent back; the tables of its streams.

        `first` returns the records for a step in the first round; None without any. `order` is None at the boundary.
        The rows of outputs are in the order of the steps, those of one step in the order of the rounds.
        """
        made: dict[str, list[pa.Table]] = {}
        sent: dict[str, pa.Table] = {}
        before, outputs = epoch.outputs, [dict[str, list[pa.Table]]() for _ in cycle.steps]
        kept = self._reads.difference(self._drops[cycle.name][1])
        total = 0
        for number in itertools.count(1):
            tables: dict[str, pa.Table] = {}
            for node, made_by in zip(cycle.steps, outputs, strict=True):
                epoch.outputs = made_by
                given = {**tables, **{stream: sent[stream] for stream in node.back if stream in sent}}
                later = self._graph.inputs[node.name].of_round
                records = first(node, given) if number == 1 else later(given, order)
                if records is not None:
                    self._visit_in_round(node, records, epoch, tables, position, at_end=order is None)
            for stream in tables.keys() & kept:
                made.setdefault(stream, []).append(tables[stream])
            epoch.rounds[cycle.name] = epoch.rounds.get(cycle.name, 0) + 1
            sent = {stream: tables[stream] for stream in cycle.back if stream in tables and tables[stream].num_rows}
            if not sent:
                break
            rank, offset = (next(iter(sent.values()))[name][0].as_py() for name in (RANK, OFFSET))
            records = sum(table.num_rows for table in sent.values())
            total += records
            record = position.partitions.position(rank, offset)
            going_on = RecordsSentBack(epoch.epoch, number, records, total, rank, offset, record)
            cycle.check(going_on, self._graph.limits)
        epoch.outputs = before
        for made_by in outputs:
            for name, rows in made_by.items():
                if order is not None and len(rows) > 1 and self._graph.outputs[name].of != "window":
                    rows = [in_order(pa.concat_tables(rows), order)]
                epoch.outputs.setdefault(name, []).extend(rows)
        return made

    def _visit_in_round(
        self,
        node: Node,
        records: pa.Table,
        epoch: EpochInProgress,
        tables: dict[str, pa.Table],
        position: EpochPosition,
        *,
        at_end: bool,
    ) -> None:
        result = process_batch(node, records, position)
        self._collect(node, result, epoch, tables, given=records, at_end=at_end)
        if self._digested[node.name]:
            self._add_digest(node, result.records, epoch)
        tables[node.name] = result.records

    def _add_digest(self, node: Node, records: pa.Table, epoch: EpochInProgress) -> None:
        digest = digest_of(records.select(self._digested[node.name]))
        epoch.streams[node.name] = epoch.streams.get(node.name, Digest()) + digest

    def end(self, epoch: EpochInProgress, watermark: Watermark | None, partitions: PartitionTable) -> None:
        """Run the steps at the boundary of an epoch, where `watermark` is that of the sources, if it has risen.

        Each step first gets the rows that steps before it made at this boundary; then the windows end.
        """
        if watermark is None and not epoch.at_end:
            return
        position = EpochPosition(epoch.epoch, partitions, self._graph.windowed)
        for unit in self._units:
            if cycle := self._cycles.get(unit[0].cycle):
                self._go_round_at_end(cycle, epoch, position)
            elif unit[0].name in self._waiting or (epoch.at_end and unit[0].name in self._here):
                self._end_step(unit[0], epoch, watermark, position)

    def _end_step(
        self, node: Node, epoch: EpochInProgress, watermark: Watermark | None, position: EpochPosition
    ) -> None:
        before, epoch.outputs = epoch.outputs, {}
        rows = self._graph.inputs[node.name].rows(epoch.at_end)
        if rows is not None:
            self._collect_at_end(node, process_batch(node, rows, position), epoch, rows)
        behind = None if watermark is None else watermark.held_back(self._graph.held_back[node.name])
        if behind is not None and ends_at(node.traits, behind):
            self._collect_at_end(node, end_step(node, behind, position), epoch)
        for name, tables in epoch.outputs.items():
            before.setdefault(name, []).extend(self._in_order_at_end(node, name, tables, epoch))
        epoch.outputs = before

    def _in_order_at_end(
        self, node: Node, name: str, tables: Sequence[pa.Table], epoch: EpochInProgress
    ) -> Sequence[pa.Table]:
        """The rows that a step made at a boundary in the order that several owners of keys keep.

        Rows of windows whose times are known are in this order already.
        """
        if node.traits.scope is Scope.GLOBAL or name in epoch.window_order:
            return tables
        rows, output = pa.concat_tables(tables), self._graph.outputs[name]
        key = key_of_rows(node.traits, output)
        return [in_window_order(rows, key) if output.of == "window" else in_boundary_order(rows)]

    def _go_round_at_end(self, cycle: Cycle, epoch: EpochInProgress, position: EpochPosition) -> None:
        """Run a cycle on the rows that steps before it made at this boundary. No step of a cycle waits for an end."""

        def first(node: Node, tables: Mapping[str, pa.Table]) -> pa.Table | None:
            given = epoch.at_end | {stream: [table] for stream, table in tables.items()}
            return self._graph.inputs[node.name].rows(given)

        if any(stream in epoch.at_end for node in cycle.steps for stream in node.reads):
            for stream, tables in self._rounds(cycle, epoch, position, first, None).items():
                epoch.at_end.setdefault(stream, []).extend(tables)

    def _collect_at_end(
        self, node: Node, result: Result, epoch: EpochInProgress, given: pa.Table | None = None
    ) -> None:
        self._collect(node, result, epoch, made := {}, given=given, at_end=True)
        if node.name in self._reads:
            made[node.name] = result.records
        if self._digested[node.name]:
            self._add_digest(node, result.records, epoch)
        for stream, table in made.items():
            if table.num_rows:
                epoch.at_end.setdefault(stream, []).append(table)

    def _collect(
        self,
        node: Node,
        result: Result,
        epoch: EpochInProgress,
        tables: dict[str, pa.Table],
        *,
        given: pa.Table | None,
        at_end: bool = False,
    ) -> None:
        """Add the rows and counts of a result to the epoch, and the outputs that steps read to `tables`.

        `given` are the records of which the step made the result; None at an end.
        """
        if result.labelled:
            made = Scores(result.labelled, result.correct, result.baselines)
            epoch.scores[node.name] = epoch.scores.get(node.name, Scores()) + made
        for name, rows in self._graph.made.of(node.name, result.outputs).items():
            output = self._graph.outputs[name]
            if output.of == "window" and node.traits.scope is not Scope.GLOBAL and not result.windows:
                rows = in_window_order(rows, key_of_rows(node.traits, output))
            epoch.outputs.setdefault(name, []).append(rows)
        for short, windows in result.windows.items():
            if len(windows.times):
                order = _window_order(windows, given)
                epoch.window_order.setdefault(self._graph.made.names[node.name, short], []).append(order)
        if node.name in self._graph.made.records and result.records.num_rows:
            epoch.outputs.setdefault(node.name, []).append(result.records)
        for output in self._outputs_read[node.name]:
            name = f"{node.name}.{output.name}"
            rows = output_records(node, output, result, self._graph.streams[name].schema)
            if output.of == "window" and not at_end:  # rows of windows are read at the boundary
                epoch.at_end.setdefault(name, []).append(rows)
                rows = rows.slice(0, 0)
            tables[name] = rows


def _window_order(windows: WindowRows, given: pa.Table | None) -> pa.Table:
    """The positions of the records with which these windows closed; if they closed at an end, the times of the rows."""
    if windows.closed_by is None or given is None:
        return pa.table({TIME: windows.times})
    position = given.select([name for name in (RANK, OFFSET, TIME, PATH) if name in given.column_names])
    return position.take(windows.closed_by)


def _split(records: pa.Table, source_step: str) -> tuple[pa.Table, pa.Table]:
    """Split records into those that could be read, and reject rows for the others."""
    if records[REJECT].null_count < records.num_rows:
        rejected = records[REJECT].is_valid()
        bad = records.filter(rejected)
        step = pa.array([source_step] * bad.num_rows, pa.string())
        rejects = pa.table({RANK: bad[RANK], OFFSET: bad[OFFSET], TIME: bad[TIME], "step": step, "reason": bad[REJECT]})
        return records.filter(pc.invert(rejected)).drop_columns([REJECT]), rejects
    return records.drop_columns([REJECT]), pa.table({})
