"""The labelled records of a study in one file, which all tasks map into memory; texts are hashed once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrays import Array
from millstream.log.contracts import Log, OpenContext
from millstream.records import REJECT, TIME
from millstream.study.study_file import LoadedStudy
from millstream.study.trial import canonical_json

__all__ = ["Collection", "data_identity", "open_collection", "write_collection"]

_ROWS_AT_ONCE = 50_000
_IDENTITY = b"identity"


@dataclass(frozen=True)
class Collection:
    """The records in the order of time: the columns that learners read, and the label of each, an index of `names`."""

    columns: pa.Table
    labels: Array
    names: Sequence[str]


def data_identity(loaded: LoadedStudy, folder: Path) -> str:
    """Return a digest of everything that the collection depends on; `folder` is for the source's own files."""
    data = loaded.study.data
    for name in ("text", data.label):
        if name not in data.source.fields:
            message = f"the source has no field {name!r}, only {', '.join(data.source.fields)}"
            loaded.refuse(["data", "source"], f"{message}; name it in `fields`, or in `data.label`")
    if not data.source.bounded:
        loaded.refuse(["data", "source"], "the source does not end; a study needs a source that ends, such as a file")
    options = data.model_dump(mode="json", exclude={"records", "holdout"})
    with _opened(loaded, folder) as log:
        ends = [(partition.name, log.end(partition.name)) for partition in log.partitions()]
        depends = [options, [(name, end, log.identity(name, end)) for name, end in ends]]
    return hashlib.blake2b(canonical_json(depends).encode(), digest_size=12).hexdigest()


def write_collection(
    loaded: LoadedStudy, path: Path, identity: str, check: Callable[[Collection], None] = lambda _: None
) -> None:
    """Write the records of a study's source to a file, unless the file has them already.

    `check` is called before texts are hashed, with columns that have no rows unless they are in the file.
    """
    if path.exists() and _identity_in(path) == identity:
        check(open_collection(path))
        return
    with _opened(loaded, path.parent) as log:
        records = _labelled(loaded, log)
    table = _hashed(loaded, records, check).replace_schema_metadata({_IDENTITY: identity.encode()})
    partial = path.with_name(f"{path.name}.tmp")
    with partial.open("wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table.combine_chunks())  # one record batch: every column is one array of the mapped file
    partial.rename(path)


def open_collection(path: Path) -> Collection:
    """Map a collection's file into memory, read-only."""
    with pa.memory_map(str(path)) as mapped:
        table = pa.ipc.open_file(mapped).read_all()
    coded = table["label"].chunk(0)
    labels = coded.indices.to_numpy().astype(np.int64)
    return Collection(table.drop_columns(["label"]), labels, coded.dictionary.to_pylist())


def _opened(loaded: LoadedStudy, folder: Path) -> closing[Log]:
    context = OpenContext(loaded.folder, folder / "source", loaded.study.name, fail_fast=True)
    return closing(loaded.study.data.source.open(context))


def _identity_in(path: Path) -> str | None:
    with pa.memory_map(str(path)) as mapped:
        found = (pa.ipc.open_file(mapped).schema.metadata or {}).get(_IDENTITY)
    return None if found is None else found.decode()


def _labelled(loaded: LoadedStudy, log: Log) -> pa.Table:
    """Return the texts and labels of all records with a label, in the order of time."""
    data = loaded.study.data
    readable = [table for table in _read(log, data.label) if table.num_rows]
    if not readable:
        loaded.refuse(["data", "source"], f"the source has no record with a text and a {data.label!r}")
    records = pa.concat_tables(readable)
    known = pc.fill_null_forward(records[TIME].cast(pa.int64()))  # without a time: right after the record before
    times = pc.fill_null(known, np.iinfo(np.int64).min).to_numpy()
    if (times[1:] < times[:-1]).any():
        records = records.take(pa.array(np.argsort(times, kind="stable")))
    return records.drop_columns([TIME])


def _hashed(loaded: LoadedStudy, records: pa.Table, check: Callable[[Collection], None]) -> pa.Table:
    """Return the columns that learners read, and the label of each record by its number."""
    names = pc.unique(records["label"]).to_pylist()
    if len(names) < 2:
        message = f"the data has one label, {names[0]!r}; a study needs records with two labels or more"
        loaded.refuse(["data"], message)
    step: Any = loaded.study.data.features.build(records.schema)
    no_rows = step.process(records.slice(0, 0)).records.drop_columns(["label"])
    check(Collection(no_rows, _numbers(records, names).to_numpy().astype(np.int64), names))
    parts = [records.slice(start, _ROWS_AT_ONCE) for start in range(0, records.num_rows, _ROWS_AT_ONCE)]
    made = pa.concat_tables([step.process(part).records for part in parts]).combine_chunks()
    label = pa.DictionaryArray.from_arrays(_numbers(made, names), pa.array(names))
    return made.set_column(made.schema.get_field_index("label"), "label", label)


def _numbers(records: pa.Table, names: Sequence[str]) -> pa.Array:
    """Return the label of each record as an index of the names."""
    found = pc.index_in(records["label"], pa.array(names)).combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found


def _read(log: Log, label: str) -> Iterator[pa.Table]:
    """Yield the text, label and time of the readable records that have a label."""
    for partition in log.partitions():
        for batch in log.read(partition.name, log.beginning(partition.name), log.end(partition.name)):
            records = pa.Table.from_batches([batch])
            there = pc.and_(pc.is_null(records[REJECT]), pc.is_valid(records[label]))
            texts = {"text": records["text"].cast(pa.string()), "label": records[label].cast(pa.string())}
            yield pa.table({TIME: records[TIME], **texts}).filter(there)
