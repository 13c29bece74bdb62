"""The input of a step: the records of one stream, or of several streams merged in their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.log.epochs import PartitionTable
from millstream.records import PATH, RANK
from millstream.steps.boundary_order import in_boundary_order
from millstream.steps.record_order import RecordOrder
from millstream.steps.round_paths import BackEdge, rounds_of, sent_back
from millstream.steps.several_inputs import JoinedInputs
from millstream.steps.streams import Stream, share_records

__all__ = ["StepInput", "in_order"]

_NUMBER = 4
"""The bytes of a number in a path."""


@dataclass(frozen=True)
class StepInput:
    """The streams that a step reads, and the columns of their union.

    `everything` is true if these are all sources: their records are those of the epoch, as they are. If two streams may
    have the same record, they are `numbered`: the number of the stream is appended to the path of its records. The
    inputs of a step with several inputs are `joined` in one table.

    In a cycle, `streams` are those that enter the step in every round, and `back` has the streams that it reads over
    back edges: their records enter the next round, and their paths tell the rounds apart.
    """

    streams: tuple[Stream, ...]
    schema: pa.Schema
    everything: bool
    numbered: bool
    joined: JoinedInputs | None = None
    back: Mapping[str, BackEdge] = field(default_factory=dict)

    @staticmethod
    def of(
        streams: Sequence[Stream],
        schema: pa.Schema,
        everything: bool,
        joined: JoinedInputs | None = None,
        back: Mapping[str, BackEdge] | None = None,
    ) -> StepInput:
        all_in_one = everything and joined is None and not back
        return StepInput(tuple(streams), schema, all_in_one, share_records(streams), joined, back or {})

    @property
    def needs_order(self) -> bool:
        """True if the records are merged by their order in the epoch."""
        return self._merges or bool(self.back)

    @cached_property
    def _merges(self) -> bool:
        made = any(stream.maker is not None for stream in self.streams)
        return len(self.streams) > 1 and (made or self.joined is not None)

    def records(
        self,
        log: pa.Table | None,
        tables: Mapping[str, pa.Table],
        order: RecordOrder | None,
        partitions: PartitionTable,
    ) -> pa.Table:
        """The records of an epoch, or of the first round in a cycle: `log` has those of all sources."""
        if self._merges:
            return self._merged(log, tables, order, partitions)
        if self.everything:
            found = log
        elif len(self.streams) == 1 and self.streams[0].maker is not None:
            found = tables[self.streams[0].name]
        else:
            found = self._of_sources(log, partitions)
        return self._as_part(found, 0) if self.back else found

    def of_round(self, tables: Mapping[str, pa.Table], order: RecordOrder | None) -> pa.Table | None:
        """The records of a later round of a cycle; None without records.

        `tables` has the records that the streams have in this round, and those that were sent back for it. `order` is
        that of the epoch; None for the rows of its boundary.
        """
        parts = list(self._parts({name: [table] for name, table in tables.items()}))
        if not parts or (len(parts) == 1 and not self.back):
            return parts[0] if parts else None
        merged = pa.concat_tables(parts)
        return in_boundary_order(merged) if order is None else in_order(merged, order)

    def _merged(
        self,
        log: pa.Table | None,
        tables: Mapping[str, pa.Table],
        order: RecordOrder | None,
        partitions: PartitionTable,
    ) -> pa.Table:
        assert order is not None, "the order of the epoch is known where streams are merged"
        inputs = [
            StepInput((stream,), stream.schema, False, False).records(log, tables, order, partitions)
            for stream in self.streams
        ]
        return in_order(pa.concat_tables([self._as_part(part, number) for number, part in enumerate(inputs)]), order)

    def rows(self, tables: Mapping[str, Sequence[pa.Table]]) -> pa.Table | None:
        """The rows that steps before made at a boundary, in the order of a boundary; None without rows."""
        parts = list(self._parts(tables))
        return in_boundary_order(pa.concat_tables(parts)) if parts else None

    def _parts(self, tables: Mapping[str, Sequence[pa.Table]]) -> Iterator[pa.Table]:
        """The tables with rows, each with the columns of the union."""
        alone = len(self.streams) == 1 and not self.back
        for number, stream in enumerate(self.streams):
            for table in tables.get(stream.name, ()):
                if table.num_rows:
                    yield table if alone else self._as_part(table, number)
        for name, edge in self.back.items():
            for table in tables.get(name, ()):
                if table.num_rows:
                    yield sent_back(self._with_columns(table), edge)

    def _of_sources(self, log: pa.Table | None, partitions: PartitionTable) -> pa.Table:
        """The records of some of the sources, with only their columns."""
        assert log is not None, "the records of the log stay while a step reads them"
        wanted = {stream.name for stream in self.streams}
        ranks = [rank for rank in pc.unique(log[RANK]).to_pylist() if partitions[rank].source in wanted]
        chosen = pc.is_in(log[RANK], value_set=pa.array(ranks, log[RANK].type))
        return log.filter(chosen).select([name for name in self.schema.names if name in log.column_names])

    def _as_part(self, records: pa.Table, number: int) -> pa.Table:
        """The records of one stream with the columns of the union."""
        if self.joined is not None:
            numbered = _with_path(records, number) if self.numbered else records
            return self.joined.part(number, numbered)
        records = self._with_columns(records)
        return _with_path(records, number) if self.numbered else records

    def _with_columns(self, records: pa.Table) -> pa.Table:
        if PATH in self.schema.names and PATH not in records.column_names:
            path = pa.repeat(pa.scalar(b"", pa.binary()), records.num_rows)
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


def in_order(records: pa.Table, order: RecordOrder) -> pa.Table:
    """Sort records by their round, then by their place in the epoch, and those of one place by their paths."""
    places = order.places(records)
    paths = records[PATH].combine_chunks() if PATH in records.column_names else None
    rounds = None if paths is None or not _longest(paths) else rounds_of(paths)
    if paths is None or rounds is None or not (rounds.any() or _longest(paths) > _NUMBER):
        # Streams come one after the other and their numbers rise: a path of one number is in order already.
        return records.take(pa.array(np.argsort(places, kind="stable")))
    keys = pa.table({"round": rounds, "place": places, "path": paths})
    return records.take(pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names]))


def _longest(paths: pa.Array) -> int:
    return pc.max(pc.binary_length(paths)).as_py() or 0
