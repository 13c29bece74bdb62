"""A task of a leg with state by key: one group of shards, through all epochs in their order."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.digests import Digest
from millstream.engines.workers.leg_runner import chain_of
from millstream.engines.workers.legs import BOUNDARY, LOG, RECORDS, Leg
from millstream.engines.workers.places import ORDER, Places
from millstream.history.exchange_files import exchange_files, read_group, write_exchange
from millstream.history.feature_files import write_features
from millstream.history.folder import Note
from millstream.history.order import EPOCH, MENDED, PHASE, in_stream_order
from millstream.history.plan import Plan
from millstream.history.setup import Opened, build_way
from millstream.history.watermarks import watermarks
from millstream.history.way import Way
from millstream.log.epochs import PartitionTable
from millstream.records import OFFSET, RANK, TIME, no_records
from millstream.steps.chain import Chain, EpochInProgress
from millstream.substreams import Watermark

__all__ = ["keyed_task_name", "run_keyed"]

_BEFORE_ALL = np.iinfo(np.int64).min
_Tables = Mapping[tuple[int, str], pa.Table]
"""Tables by phase and stream."""


def keyed_task_name(leg: int, group: int) -> str:
    return f"leg{leg}-{group:02d}"


def run_keyed(opened: Opened, plan: Plan, leg: int, group: int) -> None:
    """Run the steps of a leg on the records of one group of shards, and write the note of the task."""
    began, cpu = time.monotonic(), time.process_time()
    runner = _LegOfGroup(opened, plan, leg, group)
    times = watermarks(opened.folder, plan, opened.way.graph)
    for number, block in enumerate(plan.blocks):
        runner.run(number, itertools.islice(times, block.last - block.first + 1))
    opened.folder.finish(
        Note(
            task=keyed_task_name(leg, group),
            records=0,
            rejects=runner.rejects,
            rows=runner.rows,
            digests={name: str(digest) for name, digest in runner.digests.items()},
            files=tuple(runner.files),
            cpu=time.process_time() - cpu,
            seconds=time.monotonic() - began,
            process=os.getpid(),
            latest={},
        )
    )


@dataclass
class _Made:
    """The results of the epochs of a block: rows for other legs by phase and stream, and records for the model."""

    rows: dict[tuple[int, str], list[pa.Table]] = field(default_factory=dict)
    features: list[pa.Table] = field(default_factory=list)

    def add(self, phase: int, stream: str, rows: pa.Table) -> None:
        if rows.num_rows:
            self.rows.setdefault((phase, stream), []).append(rows)


class _LegOfGroup:
    """The steps of a leg with the state of one group of shards."""

    def __init__(self, opened: Opened, plan: Plan, index: int, group: int) -> None:
        self._opened, self._plan, self._group = opened, plan, group
        self._way: Way = build_way(opened.setup, opened.config)  # steps without the state of another task
        graph, legs = self._way.graph, self._way.legs
        self._leg: Leg = legs.all[index]
        self._chain: Chain = chain_of(graph, legs, self._leg)
        self._model = self._way.model.name if self._way.last.index == index else None
        self._names: PartitionTable = plan.names()
        self._streams = {
            (phase, stream): feeding
            for phase, reads in ((RECORDS, self._leg.reads), (BOUNDARY, self._leg.ends))
            for feeding, streams in reads.items()
            for stream in streams
        }
        self._fed = {
            (phase, stream)
            for phase in (RECORDS, BOUNDARY)
            for each in legs.fed_by(self._leg, phase)
            for stream in each.streams(index, phase) or ()
            if stream in graph.streams
        }
        self.digests: dict[str, Digest] = {}
        self.files: list[str] = []
        self.rows = self.rejects = 0

    def run(self, number: int, epochs: Iterator[tuple[int, Watermark | None]]) -> None:
        """Run the epochs of a block, each with the watermark of the sources if it has risen."""
        read = {key: self._read(number, *key, feeding) for key, feeding in self._streams.items()}
        numbers = {key: table[EPOCH].to_numpy() for key, table in read.items()}
        made = _Made()
        for epoch, watermark in epochs:
            tables: dict[tuple[int, str], pa.Table] = {}
            for key, table in read.items():
                start, stop = np.searchsorted(numbers[key], (epoch, epoch + 1)).tolist()
                tables[key] = table.slice(start, stop - start)
            if watermark is not None or any(table.num_rows for table in tables.values()):
                self._run_epoch(epoch, tables, watermark, made)
        self._write(number, made)

    def _read(self, number: int, phase: int, stream: str, feeding: int) -> pa.Table:
        """The records of a stream in a block, in the order of the stream."""
        files = exchange_files(self._opened.folder, self._leg.index, feeding, phase, stream, number)
        found = read_group(files, self._group)
        if found is None:
            graph = self._way.graph
            schema = graph.records if stream == LOG else graph.streams[stream].schema
            return no_records(_with_order(schema, phase))
        if phase == RECORDS:
            return in_stream_order(found)
        return found.take(pa.array(np.argsort(found[EPOCH].to_numpy(), kind="stable")))

    def _run_epoch(self, epoch: int, tables: _Tables, watermark: Watermark | None, made: _Made) -> None:
        order = _EpochOrder([table for (phase, _), table in tables.items() if phase == RECORDS])
        records = {s: _plain(table) for (phase, s), table in tables.items() if phase == RECORDS}
        running = EpochInProgress(epoch, records.pop(LOG, None), {}, {}, {}, tables=records, order=order.places.order)
        self._chain.run(running, self._names)
        for phase, stream in self._fed:
            if phase == RECORDS:
                made.add(RECORDS, stream, order.added(running.tables[stream], epoch))
        if self._model is not None:
            inputs = self._way.graph.inputs[self._model]
            features = inputs.records(running.records, running.tables, running.order, self._names)
            made.features.append(_in_phase(order.added(features, epoch), RECORDS))
        if self._leg.phases > BOUNDARY:
            running.at_end = {
                stream: [_plain(table)]
                for (phase, stream), table in tables.items()
                if phase == BOUNDARY and table.num_rows
            }
            self._end_epoch(epoch, running, watermark, made)
        for name, digest in running.streams.items():
            self.digests[name] = self.digests.get(name, Digest()) + digest
        self.rejects += sum(table.num_rows for table in running.outputs.get("rejects", ()))

    def _end_epoch(self, epoch: int, running: EpochInProgress, watermark: Watermark | None, made: _Made) -> None:
        running.records, running.tables = None, {}
        self._chain.end(running, watermark, self._names)
        for phase, stream in self._fed:
            if phase == BOUNDARY and stream in running.at_end:
                rows = pa.concat_tables(running.at_end[stream])
                made.add(BOUNDARY, stream, rows.append_column(EPOCH, _constant(epoch, rows.num_rows)))
        if self._model is not None:
            rows = self._way.graph.inputs[self._model].rows(running.at_end)
            if rows is not None:
                times = rows[TIME].fill_null(_BEFORE_ALL)
                rows = rows.append_column(EPOCH, _constant(epoch, rows.num_rows)).append_column(MENDED, times)
                made.features.append(_in_phase(rows, BOUNDARY))

    def _write(self, number: int, made: _Made) -> None:
        """Write what the epochs of a block have made, for the legs that read it and for the model."""
        for (phase, stream), tables in made.rows.items():
            maker = keyed_task_name(self._leg.index, self._group)
            self.files += write_exchange(
                self._opened, self._way, self._leg, phase, stream, pa.concat_tables(tables), number, maker
            )
        if self._model is None or not made.features:
            return
        features = pa.concat_tables(made.features)
        ranks = features[RANK].to_numpy()
        for rank in np.unique(ranks).tolist():
            mine = features.filter(pa.array(ranks == rank))
            name = f"{number:06d}-{self._group:02d}"
            about = {"block": number, "shards": self._group}
            file, rows = write_features(self._opened, self._plan, name, rank, mine, about)
            self.files.append(file)
            self.rows += rows


class _EpochOrder:
    """The places of the records of an epoch by their mended times, as far as a task knows them."""

    def __init__(self, tables: Sequence[pa.Table]) -> None:
        mended, ranks, offsets = (
            np.concatenate([table[name].to_numpy() for table in tables]) for name in (MENDED, RANK, OFFSET)
        )
        by_place = np.lexsort((offsets, ranks, mended))
        columns = [each[by_place] for each in (mended, ranks, offsets)]
        first = np.ones(len(by_place), bool)
        first[1:] = np.logical_or.reduce([each[1:] != each[:-1] for each in columns]) if len(by_place) else True
        places = np.empty(len(by_place), np.int64)
        places[by_place] = np.cumsum(first) - 1
        self._mended = columns[0][first]
        self.places = Places([pa.table({RANK: ranks, OFFSET: offsets, ORDER: places})])

    def added(self, made: pa.Table, epoch: int) -> pa.Table:
        """The records that steps made, with their epoch and mended time."""
        times: Array = self._mended[self.places.of(made)] if made.num_rows else np.zeros(0, np.int64)
        return made.append_column(EPOCH, _constant(epoch, made.num_rows)).append_column(MENDED, pa.array(times))


def _plain(records: pa.Table) -> pa.Table:
    return records.drop_columns([name for name in (EPOCH, MENDED) if name in records.column_names])


def _with_order(schema: pa.Schema, phase: int) -> pa.Schema:
    names = (EPOCH, MENDED) if phase == RECORDS else (EPOCH,)
    return pa.schema([*schema, *(pa.field(name, pa.int64()) for name in names)])


def _constant(value: int, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int64()), size)


def _in_phase(features: pa.Table, phase: int) -> pa.Table:
    return features.append_column(PHASE, pa.repeat(pa.scalar(phase, pa.int8()), features.num_rows))
