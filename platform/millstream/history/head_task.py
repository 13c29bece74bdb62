"""A task of the first leg: reads one partition of a block, runs the steps without state, and writes their records."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from millstream.digests import Digest, digest_of
from millstream.engines.workers.leg_runner import chain_of
from millstream.engines.workers.legs import LOG, RECORDS
from millstream.errors import StepFailed
from millstream.history.exchange_files import write_exchange
from millstream.history.feature_files import write_features
from millstream.history.folder import Note
from millstream.history.order import PHASE, PartitionOrder
from millstream.history.plan import Block, Plan
from millstream.history.setup import Opened
from millstream.log.epochs import Epoch, EpochReader, PartitionTable
from millstream.log.ranges import Range, read_table, records_schema
from millstream.records import OFFSET, REJECT
from millstream.steps.chain import EpochInProgress
from millstream.steps.record_order import RecordOrder
from millstream.substreams.event_time import latest_times, reject_ahead

__all__ = ["head_task_name", "run_head", "sums"]


def head_task_name(block: int, rank: int) -> str:
    return f"{block:06d}-{rank:05d}"


def run_head(opened: Opened, plan: Plan, number: int, rank: int) -> None:
    """Compute the features of one partition in a block, and write the note of the task."""
    began, cpu = time.monotonic(), time.process_time()
    block, partitions = plan.blocks[number], plan.names()
    epochs = [epoch for epoch in _epochs(opened, block) if rank in epoch.cut]
    schema = records_schema(opened.way.graph.fields)
    log = read_table(_ranges(epochs, rank, partitions), opened.logs.__getitem__, schema)
    log = _reject_ahead(opened, log, rank, epochs, partitions)
    order = PartitionOrder(log, rank, epochs)
    readable = log
    if log[REJECT].null_count < log.num_rows:
        readable = log.filter(log[REJECT].is_null())
    rejected = log.num_rows - readable.num_rows
    running = _run_steps(opened, readable.drop_columns([REJECT]), partitions, block)
    digests = {name: str(digest) for name, digest in running.streams.items()}
    if not digests:
        digests = {partitions[rank].source: str(digest_of(log))}
    files = _write_exchange(opened, running, order, number, partitions[rank].source, head_task_name(number, rank))
    rows = 0
    if opened.way.last is opened.way.legs.head:
        features = order.added(_model_input(opened, running, partitions))
        features = features.append_column(PHASE, pa.repeat(pa.scalar(RECORDS, pa.int8()), features.num_rows))
        about = {"block": number, "epochs": [block.first, block.last], "digests": digests}
        file, rows = write_features(opened, plan, f"{number:06d}", rank, features, about)
        files.append(file)
    opened.folder.finish(
        Note(
            task=head_task_name(number, rank),
            records=log.num_rows,
            rejects=rejected + _rejects(running),
            rows=rows,
            digests=digests,
            files=tuple(files),
            cpu=time.process_time() - cpu,
            seconds=time.monotonic() - began,
            process=os.getpid(),
            latest=order.latest(),
        )
    )


def _write_exchange(
    opened: Opened, running: EpochInProgress, order: PartitionOrder, block: int, source: str, maker: str
) -> list[str]:
    """Write the streams of the first leg for the legs that read them."""
    way, files = opened.way, list[str]()
    read = {stream for leg in way.keyed for stream in leg.reads.get(way.legs.head.index, ())}
    for stream in sorted(read):
        records = running.records if stream == LOG else running.tables[stream]
        files += write_exchange(
            opened, way, way.legs.head, RECORDS, stream, order.added(records), block, maker, source=source
        )
    return files


def _epochs(opened: Opened, block: Block) -> Iterator[Epoch]:
    for epoch in EpochReader(opened.folder.epochs).epochs(block.first):
        if epoch.number > block.last:
            return
        yield epoch


def _ranges(epochs: Sequence[Epoch], rank: int, partitions: PartitionTable) -> list[Range]:
    """The offsets of one partition in these epochs; ranges that follow each other are one."""
    ranges: list[Range] = []
    for epoch in epochs:
        start, stop = epoch.cut[rank]
        if ranges and ranges[-1].stop == start:
            start = ranges.pop().start
        ranges.append(Range(rank, partitions[rank], start, stop))
    return ranges


def _reject_ahead(
    opened: Opened, log: pa.Table, rank: int, epochs: Sequence[Epoch], partitions: PartitionTable
) -> pa.Table:
    """Reject the records whose time is too far ahead of the clock of their epoch."""
    limit = opened.way.graph.source(partitions[rank].source).ahead
    latest = latest_times(log)
    most = latest.get(rank)
    if limit is None or most is None or most <= epochs[0].at + limit:
        return log
    offsets, parts = log[OFFSET].to_numpy(), []
    for epoch in epochs:
        first, last = offsets.searchsorted(epoch.cut[rank])
        part = log.slice(first, last - first)
        parts.append(reject_ahead(part, latest_times(part), epoch.at, {rank: limit}) if part.num_rows else part)
    return pa.concat_tables(parts)


def _run_steps(opened: Opened, records: pa.Table, partitions: PartitionTable, block: Block) -> EpochInProgress:
    """Run the steps of the first leg on the readable records of one partition."""
    graph, legs = opened.way.graph, opened.way.legs
    order = RecordOrder.of(records) if graph.needs_order else None
    running = EpochInProgress(block.first, records, {}, {}, {}, order=order)
    try:
        chain_of(graph, legs, legs.head).run(running, partitions)
    except StepFailed as error:  # its epoch is the first one of the block
        where = f"in the epochs {block.first} to {block.last}"
        raise StepFailed(f"{error}, {where}", error.rank, error.offset) from error
    return running


def _model_input(opened: Opened, running: EpochInProgress, partitions: PartitionTable) -> pa.Table:
    way = opened.way
    return way.graph.inputs[way.model.name].records(running.records, running.tables, running.order, partitions)


def _rejects(running: EpochInProgress) -> int:
    return sum(table.num_rows for table in running.outputs.get("rejects", ()))


def sums(digests: Sequence[Mapping[str, str]]) -> dict[str, Digest]:
    """The sums of digests by name."""
    found: dict[str, Digest] = {}
    for each in digests:
        for name, text in each.items():
            found[name] = found.get(name, Digest()) + Digest.parse(text)
    return found
