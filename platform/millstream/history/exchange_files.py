"""The files between legs: the records of one stream, a batch for each group of shards, in Arrow's file format."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from millstream.engines.workers.legs import LOG, Leg
from millstream.history.folder import HistoryFolder
from millstream.history.setup import Opened
from millstream.history.way import Way
from millstream.log.journal.durability import make_folder, write_whole
from millstream.steps.keys import keys_of, shards_of

__all__ = ["exchange_files", "groups_of", "read_group", "write_exchange"]

_MOST_GROUPS = 8


def groups_of(shards: int) -> int:
    """The number of groups of shards: each is a task of a leg with state by key."""
    return min(shards, _MOST_GROUPS)


def exchange_files(folder: HistoryFolder, leg: int, feeding: int, phase: int, stream: str, block: int) -> list[Path]:
    """The files with the records of a stream in a block that one leg has made for another."""
    return sorted(_folder(folder, leg, feeding, phase, stream).glob(f"{block:06d}-*.arrow"))


def write_exchange(
    opened: Opened,
    way: Way,
    made_by: Leg,
    phase: int,
    stream: str,
    records: pa.Table,
    block: int,
    maker: str,
    source: str = "",
) -> list[str]:
    """Write records for every leg that reads this stream of a leg; returns the names of the files in the folder.

    `source` is that of records of the log: a leg gets only those of the sources that its steps read.
    """
    files: list[str] = []
    for leg in way.keyed:
        if stream == LOG and source not in leg.sources:
            continue
        if stream in (leg.streams(made_by.index, phase) or ()):
            path = _folder(opened.folder, leg.index, made_by.index, phase, stream) / f"{block:06d}-{maker}.arrow"
            _write_groups(path, records, leg.key, opened.config.guarantee.shards)
            files.append(str(path.relative_to(opened.folder.path)))
    return files


def _folder(folder: HistoryFolder, leg: int, feeding: int, phase: int, stream: str) -> Path:
    return folder.legs / f"{leg}-from-{feeding}" / f"{phase}-{'log' if stream == LOG else stream}"


def _write_groups(path: Path, records: pa.Table, key: tuple[str, ...], shards: int) -> None:
    """Write records durably, divided by the groups of the shards of their keys; each part stays in its order."""
    groups = groups_of(shards)
    group = shards_of(keys_of(records, key), shards) % groups
    together = records.take(pa.array(np.argsort(group, kind="stable"))).unify_dictionaries().combine_chunks()
    bounds = np.searchsorted(np.sort(group), np.arange(groups + 1))
    packed = pa.BufferOutputStream()
    with pa.ipc.new_file(packed, records.schema) as writer:
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            part = together.slice(start, stop - start).combine_chunks()
            batches = part.to_batches()
            writer.write_batch(batches[0] if batches else _no_rows(records.schema))
    make_folder(path.parent)
    write_whole(path, packed.getvalue())


def read_group(files: Iterable[Path], group: int) -> pa.Table | None:
    """The records of one group in these files, as they are in them; None without files."""
    batches: list[pa.RecordBatch] = []
    for file in files:
        with pa.memory_map(str(file)) as mapped:
            batches.append(pa.ipc.open_file(mapped).get_batch(group))
    return pa.Table.from_batches(batches) if batches else None


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
