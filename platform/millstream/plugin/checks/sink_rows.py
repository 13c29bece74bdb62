"""The rows that the checks of a sink append: three rows an epoch, with every type of column that outputs have."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from millstream.digests import Digest
from millstream.log.contracts import Progress

__all__ = [
    "IDENTITY",
    "LOG",
    "OTHER_OUTPUT",
    "OUTPUT",
    "SCHEMA",
    "describe_epochs",
    "progress_of",
    "rows_of",
    "table_of_all",
]

OUTPUT, OTHER_OUTPUT = "predictions", "topics"
LOG = "the epoch log of the checks"
IDENTITY = ("_source", "_partition", "_offset")
SCHEMA = pa.schema(
    [
        ("_source", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("label", pa.string()),
        ("probability", pa.float64()),
        ("time", pa.timestamp("us", "UTC")),
    ]
)
_ROWS = 3
_APART = 10
"""The distance of the first offsets of two epochs."""


def rows_of(*epochs: int) -> pa.Table:
    """The rows of these epochs, one epoch after the other."""
    offsets = [epoch * _APART + row for epoch in epochs for row in range(_ROWS)]
    columns = {
        "_source": ["checks"] * len(offsets),
        "_partition": [0] * len(offsets),
        "_offset": offsets,
        "label": [None if offset % 7 == 0 else f'a "{offset}"\n\u2028\u00e9' for offset in offsets],
        "probability": [None if offset % 5 == 0 else offset / 7 for offset in offsets],
        "time": [1_700_000_000_000_000 + offset for offset in offsets],
    }
    return pa.table(columns, schema=SCHEMA)


def progress_of(epoch: int, rows: int | None = None) -> Progress:
    """The progress with the last rows of this epoch; `rows` is the number of all rows so far, by default from 0."""
    count = (epoch + 1) * _ROWS if rows is None else rows
    return Progress(LOG, epoch, 0, count, str(Digest(count, epoch, 7)))


def table_of_all(tables: Iterator[pa.Table]) -> pa.Table:
    """All rows that a sink yields; AssertionError if they do not have the schema of the output."""
    found = []
    for table in tables:
        if not table.schema.equals(SCHEMA):
            message = f"`read` yields the columns\n{table.schema}\nand the output has\n{SCHEMA}\ncast them to `schema`"
            raise AssertionError(message)
        found.append(table)
    return pa.concat_tables([SCHEMA.empty_table(), *found]).combine_chunks()


def describe_epochs(rows: pa.Table) -> str:
    """Describe rows by their epochs, with a number of rows for an epoch that is not whole.

    >>> describe_epochs(rows_of(0, 1, 2).slice(0, 8))
    'epochs 0, 1, 2 (2 of 3 rows)'
    """
    counts: dict[int, int] = {}
    for offset in rows["_offset"].to_pylist():
        epoch = -1 if offset is None else offset // _APART
        counts[epoch] = counts.get(epoch, 0) + 1
    if not counts:
        return "no rows"
    parts = [f"{epoch}" if count == _ROWS else f"{epoch} ({count} of {_ROWS} rows)" for epoch, count in counts.items()]
    shown = parts if len(parts) <= 8 else [*parts[:2], "...", *parts[-4:]]
    return f"epochs {', '.join(shown)}"
