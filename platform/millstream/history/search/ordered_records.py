"""The records that all candidates of a search get: in the order of the stream, in Arrow files that tasks map."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from millstream.engines.spark.background_session import BackgroundSession
from millstream.history.features import Progress
from millstream.history.folder import HistoryFolder
from millstream.history.how.block_records import block_records
from millstream.history.plan import Plan
from millstream.history.setup import Opened
from millstream.history.spark_tasks import opened_setup
from millstream.log.journal.durability import make_folder, write_whole

__all__ = ["order_records", "ordered_batches", "ordered_folder"]


def ordered_folder(folder: HistoryFolder) -> Path:
    """The folder with the ordered records of a history."""
    return folder.path / "ordered"


def order_records(
    spark: BackgroundSession, setup: str, folder: HistoryFolder, plan: Plan, watch: Callable[[Progress], None]
) -> int:
    """Write the records of all blocks in the order of the stream; returns their number."""
    place, blocks, sizes = ordered_folder(folder), range(len(plan.blocks)), [block.size for block in plan.blocks]
    make_folder(place)

    def done() -> list[int]:
        return [number for number in blocks if _facts(place, number).exists()]

    before = set(done())

    def report() -> None:
        there = done()
        watch(Progress("ordered", len(there), len(blocks), len(before), sum(sizes[n] for n in there), "blocks"))

    missing = [str(number) for number in blocks if number not in before]
    spark.run(functools.partial(_order_blocks, setup), missing, report)
    return sum(json.loads(_facts(place, number).read_text())["records"] for number in blocks)


def _order_blocks(setup: str, partition: Iterable[list[str]]) -> None:
    """Write the records of blocks in their order, in a process of Spark."""
    for blocks in partition:
        with opened_setup(setup) as opened:
            for number in map(int, blocks):
                _order_block(opened, number)


def _order_block(opened: Opened, number: int) -> None:
    records, place = block_records(opened, number), ordered_folder(opened.folder)
    packed = pa.BufferOutputStream()
    with pa.ipc.new_file(packed, records.schema) as writer:
        writer.write_table(records)
    write_whole(place / f"{number:06d}.arrow", packed.getvalue())
    write_whole(_facts(place, number), json.dumps({"records": records.num_rows}))


def ordered_batches(place: Path, start: int, stop: int, size: int) -> Iterator[pa.Table]:
    """The records [start, stop) of all, in the order of the stream; none of the tables has more than `size` records.

    A table ends where the number of records up to there is a multiple of `size`, so tables of two calls fit together.
    """
    position = 0
    for file in sorted(place.glob("*.arrow")):
        if position >= stop:
            return
        with pa.memory_map(str(file)) as mapped:
            block = pa.ipc.open_file(mapped).read_all()
        end = position + block.num_rows
        first = max(position, start)
        while first < min(end, stop):
            last = min((first // size + 1) * size, end, stop)
            yield block.slice(first - position, last - first)
            first = last
        position = end


def _facts(place: Path, number: int) -> Path:
    return place / f"{number:06d}.json"
