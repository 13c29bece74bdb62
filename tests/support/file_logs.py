"""Files in any format, and the log that a pipeline reads from them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from millstream.log.contracts import OpenContext
from millstream.records import log_schema
from millstream_connectors.files.source import FilesLog, FilesSource

__all__ = ["lines", "opened", "texts", "written"]


def lines(count: int, start: int = 0) -> bytes:
    return b"".join(b'{"text": "t%d", "label": "l%d"}\n' % (row, row % 3) for row in range(start, start + count))


def opened(folder: Path, path: str, **options: Any) -> FilesLog:
    return FilesSource(path=path, **options).open(OpenContext(folder=folder, cache=folder / "cache"))


def texts(log: FilesLog, partition: str, start: int = 0, stop: int | None = None) -> list[str | None]:
    found: list[str | None] = []
    for batch in log.read(partition, start, log.end(partition) if stop is None else stop):
        assert batch.schema == log_schema(log.fields)
        assert batch["_offset"].to_pylist() == list(range(start + len(found), start + len(found) + batch.num_rows))
        found += batch["text"].to_pylist()
    return found


def written(folder: Path, form: str, count: int) -> str:
    """Write a file with this number of records in a format; return its name."""
    name = f"news.{form}"
    if form == "parquet":
        table = pa.table(
            {"text": [f"t{row}" for row in range(count)], "label": [f"l{row % 3}" for row in range(count)]}
        )
        pq.write_table(table, folder / name, row_group_size=1000)
    else:
        (folder / name).write_bytes(gzip.compress(lines(count)) if form.endswith("gz") else lines(count))
    return name
