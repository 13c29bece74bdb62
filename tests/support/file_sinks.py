"""Sinks that write to a folder, and the rows of epochs for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from millstream.log.contracts import OpenContext, Progress, Sink
from millstream_connectors.files.sink import FilesSink
from millstream_connectors.journal import JournalSink

__all__ = ["KINDS", "LOG", "SCHEMA", "at", "deliver", "epoch", "of_epochs", "rows"]

SCHEMA = pa.schema(
    [
        ("_source", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("label", pa.string()),
        ("probability", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
LOG = "an epoch log"

KINDS: dict[str, FilesSink | JournalSink] = {
    "parquet": FilesSink(path="out", roll_bytes=3000),
    "jsonl": FilesSink(path="out", format="jsonl", roll_bytes=3000),
    "journal": JournalSink(path="out"),
}


def epoch(number: int, count: int = 3) -> pa.Table:
    """The rows of an epoch."""
    offsets = range(number * 10, number * 10 + count)
    return pa.table(
        {
            "_source": ["news"] * count,
            "_partition": [0] * count,
            "_offset": list(offsets),
            "label": [None if offset % 7 == 0 else f'a "{offset}"\n' for offset in offsets],
            "probability": [offset / 7 for offset in offsets],
            "at": [1_644_336_511_000_000 + offset for offset in offsets],
        },
        schema=SCHEMA,
    )


def at(folder: Path) -> OpenContext:
    return OpenContext(folder=folder, cache=folder / "run")


def rows(tables: Iterator[pa.Table]) -> pa.Table:
    found = list(tables)
    assert all(table.schema.equals(SCHEMA) for table in found)
    return pa.concat_tables(found).combine_chunks() if found else SCHEMA.empty_table()


def of_epochs(*numbers: int) -> pa.Table:
    return pa.concat_tables([SCHEMA.empty_table(), *map(epoch, numbers)]).combine_chunks()


def deliver(sink: Sink, first: int, last: int, appended: list[int]) -> None:
    for number in range(first, last):
        if number % 5 == 4:
            sink.append(SCHEMA.empty_table(), Progress(LOG, number))
        else:
            sink.append(epoch(number), Progress(LOG, number))
            appended.append(number)
    sink.close()
