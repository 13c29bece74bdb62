"""The input of a step: the records of one stream, or of several streams merged in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.log.epochs import PartitionTable
from millstream.records import OFFSET, PATH, RANK, TIME
from millstream.steps.contracts import Array
from millstream.steps.record_order import RecordOrder
from millstream.steps.several_inputs import JoinedInputs
from millstream.steps.streams import Stream, share_records

__all__ = ["StepInput"]

_BEFORE_ALL = np.iinfo(np.int64).min


@dataclass(frozen=True)
class StepInput:
    """The streams that a step reads, and the columns of their union.

    `everything` is true if these are all sources: their records are those of the epoch, as they are. If two streams may
    have the same record, they are `numbered`: the number of the stream is appended to the path of its records. The
    inputs of a step with several inputs are `joined` in one table.
    """

    streams: tuple[Stream, ...]
    schema: pa.Schema
    everything: bool
    numbered: bool
    joined: JoinedInputs | None = None

    @staticmethod
    def of(
        streams: Sequence[Stream], schema: pa.Schema, everything: bool, joined: JoinedInputs | None = None
    ) -> StepInput:
        return StepInput(tuple(streams), schema, everything and joined is None, share_records(streams), joined)

    @property
    def needs_order(self) -> bool:
        """True if the records are merged by their order in the epoch."""
        made = any(stream.maker is not None for stream in self.streams)
        return len(self.streams) > 1 and (made or self.joined is not None)

    def records(
        self,
        log: pa.Table | None,
        tables: Mapping[str, pa.Table],
        order: RecordOrder | None,
        partitions: PartitionTable,
    ) -> pa.Table:
        """The records of an epoch: `log` has those of all sources, `tables` those of the streams of steps."""
        if self.everything:
            return log
        if len(self.streams) == 1:
            [stream] = self.streams
            return tables[stream.name] if stream.maker is not None else self._of_sources(log, partitions)
        if not self.needs_order:
            return self._of_sources(log, partitions)
        assert order is not None, "the order of the epoch is known where streams are merged"
        inputs = [
            StepInput((stream,), stream.schema, False, False).records(log, tables, order, partitions)
            for stream in self.streams
        ]
        merged = pa.concat_tables([self._as_part(part, number) for number, part in enumerate(inputs)])
        return _in_order(merged, order.places(merged))

    def rows(self, tables: Mapping[str, Sequence[pa.Table]]) -> pa.Table | None:
        """The rows that steps before made at the boundary of an epoch, in the order of times; None without rows."""
        alone = len(self.streams) == 1
        parts = [
            table if alone else self._as_part(table, number)
            for number, stream in enumerate(self.streams)
            for table in tables.get(stream.name, ())
            if table.num_rows
        ]
        return _by_time(pa.concat_tables(parts)) if parts else None

    def _of_sources(self, log: pa.Table | None, partitions: PartitionTable) -> pa.Table:
        """The records of some of the sources, with only their columns."""
        assert log is not None, "the records of the log stay while a step reads them"
        wanted = {stream.name for stream in self.streams}
        ranks = [rank for rank in pc.unique(log[RANK]).to_pylist() if partitions[rank].source in wanted]
        chosen = pc.is_in(log[RANK], value_set=pa.array(ranks, log[RANK].type))
        return log.filter(chosen).select(self.schema.names)

    def _as_part(self, records: pa.Table, number: int) -> pa.Table:
        """The records of one stream with the columns of the union."""
        if self.joined is not None:
            numbered = _with_path(records, number) if self.numbered else records
            return self.joined.part(number, numbered)
        if PATH in self.schema.names:
            known = PATH in records.column_names
            path = records[PATH] if known else pa.repeat(pa.scalar(b"", pa.binary()), records.num_rows)
            if self.numbered:
                path = _appended(path, number)
            records = records.drop_columns([PATH]) if known else records
            records = records.append_column(pa.field(PATH, pa.binary()), path)
        records = records.select(self.schema.names)
        return records if records.schema.equals(self.schema) else records.cast(self.schema)


def _with_path(records: pa.Table, number: int) -> pa.Table:
    """The records with a number appended to their paths, which are empty if they have none."""
    if PATH in records.column_names:
        index = records.column_names.index(PATH)
        return records.set_column(index, records.field(PATH), _appended(records[PATH], number))
    path = pa.repeat(pa.scalar(number.to_bytes(4, "big"), pa.binary()), records.num_rows)
    return records.append_column(pa.field(PATH, pa.binary()), path)


def _appended(path: pa.Array | pa.ChunkedArray, number: int) -> pa.Array | pa.ChunkedArray:
    """Append a number to paths, as four bytes."""
    return pc.binary_join_element_wise(path, number.to_bytes(4, "big"), b"")


def _in_order(records: pa.Table, places: Array) -> pa.Table:
    """Sort records by their place in the epoch, and those of one place by their paths."""
    if PATH not in records.column_names or not _longest(records[PATH]) > 4:
        # Streams come one after the other and their numbers rise: a path of one number is in order already.
        order = np.argsort(places, kind="stable")
    else:
        keys = pa.table({"place": places, "path": records[PATH].combine_chunks()})
        order = pc.sort_indices(keys, [("place", "ascending"), ("path", "ascending")])
    return records.take(pa.array(order))


def _longest(path: pa.ChunkedArray) -> int:
    return pc.max(pc.binary_length(path)).as_py() or 0


def _by_time(rows: pa.Table) -> pa.Table:
    """Sort rows of a boundary by their time, then by the step in the config, path and window."""
    step = pc.subtract(pa.scalar(-1, pa.int64()), rows[RANK].cast(pa.int64()))
    keys = pa.table(
        {
            "time": pc.fill_null(rows[TIME], _BEFORE_ALL),
            "step": step,
            **({PATH: rows[PATH]} if PATH in rows.column_names else {}),
        }
    )
    keys = keys.append_column(OFFSET, rows[OFFSET].cast(pa.int64()))
    order = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])
    return rows.take(order)
