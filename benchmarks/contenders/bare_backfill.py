"""A backfill by hand: one process reads a log, computes features and writes them as Parquet, block by block."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from millstream.log.contracts import OpenContext
from millstream.log.journal.durability import write_whole
from millstream.log.ranges import records_schema
from millstream.records import RANK
from millstream_connectors.files.source import FilesSource
from millstream_models.hashed_text import HashedText

__all__ = ["run_bare"]

_FIELDS = ("text", "label")


def run_bare(documents: str, folder: str, records: int, block: int) -> float:
    """The CPU seconds until all features are on the disk, by those of all blocks but the first one."""
    log = FilesSource(path=documents).open(OpenContext(Path(), Path(folder)))
    schema = records_schema(_FIELDS)
    step = HashedText().build(schema)
    step.process(schema.empty_table())
    name = Path(documents).name
    log.end(name)
    began, starts = 0.0, range(0, records, block)
    for number, start in enumerate(starts):
        if number == 1:
            began = time.process_time()
        batches = list(log.read(name, start, min(start + block, records)))
        table = pa.Table.from_batches(batches).drop_columns(["_reject"])
        table = table.add_column(0, RANK, pa.repeat(pa.scalar(0, pa.int32()), table.num_rows))
        packed = pa.BufferOutputStream()
        pq.write_table(step.process(table).records, packed)
        write_whole(Path(folder) / f"{number:06d}.parquet", packed.getvalue())
    return (time.process_time() - began) * len(starts) / (len(starts) - 1)
