"""The files with features: Parquet, one for each partition and block, whose rows are keyed by their position."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from millstream.history.folder import HistoryFolder
from millstream.history.order import EPOCH, MENDED, PHASE
from millstream.history.plan import Plan
from millstream.history.setup import Opened
from millstream.log.journal.durability import write_whole

__all__ = ["METADATA", "feature_files", "read_features", "write_features"]

METADATA = b"millstream"
"""The key of the metadata of a file: the steps with their versions and digests."""
_ORDER = pa.schema([pa.field(EPOCH, pa.int64()), pa.field(MENDED, pa.int64()), pa.field(PHASE, pa.int8())])


def write_features(
    opened: Opened,
    plan: Plan,
    name: str,
    rank: int,
    features: pa.Table,
    made_from: Mapping[str, Any],
) -> tuple[str, int]:
    """Write the records for the model that are within the bounds, with their order, durably.

    Returns the name of the file in the folder, and the number of its rows; the file counts once a note names it.
    """
    partition = plan.partitions[rank]
    features = opened.setup.bounds.within(features, partition)
    size = features.num_rows
    position = {
        "_source": _constant(partition.source, size),
        "_partition": pa.repeat(pa.scalar(partition.number, pa.int64()), size),
    }
    columns = dict(zip(features.column_names, features.columns, strict=True))
    table = pa.table({**position, **columns})
    about = {
        "source": partition.source,
        "partition": partition.name,
        "steps": opened.setup.steps,
        **made_from,
    }
    table = table.replace_schema_metadata({METADATA: json.dumps(about).encode()})
    packed = pa.BufferOutputStream()
    pq.write_table(table, packed, use_dictionary=["_source"])  # others are tried in vain, at a sixth of the time
    path = opened.folder.partition(rank, partition) / f"{name}.parquet"
    write_whole(path, packed.getvalue())
    return str(path.relative_to(opened.folder.path)), features.num_rows


def feature_files(folder: HistoryFolder, block: int) -> list[Path]:
    """The files with the features of a block, once all of its tasks are done."""
    return sorted(folder.features.glob(f"*/{block:06d}*.parquet"))


def read_features(files: Iterable[Path], columns: pa.Schema) -> pa.Table:
    """The records in these files, with these columns and those of their order; none without files."""
    parts: list[pa.Table] = []
    for file in files:
        with pq.ParquetFile(file) as opened:
            parts.append(opened.read([*columns.names, *_ORDER.names], use_threads=False))
    if not parts:  # in this block, no source of the model has records
        return pa.schema([*columns, *_ORDER]).empty_table()
    return pa.concat_tables(part.replace_schema_metadata(None) for part in parts)


def _constant(text: str, size: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int8()), size), pa.array([text]))
