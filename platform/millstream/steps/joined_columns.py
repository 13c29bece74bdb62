"""The columns of joined records: those of both streams, and the identity of the record that completed a match."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrays import Array, one_array
from millstream.errors import ConfigError
from millstream.records import OFFSET, OTHER, PATH, RANK, TIME
from millstream.steps.child_paths import with_child_paths, with_partner_paths
from millstream.steps.declarations import plain_type
from millstream.steps.row_codec import can_encode

__all__ = ["JoinedColumns"]

_IDENTITY = pa.schema(
    [pa.field(RANK, pa.int32()), pa.field(OFFSET, pa.int64()), pa.field(TIME, pa.int64()), pa.field(PATH, pa.binary())]
)
_OTHER = pa.field(OTHER, pa.struct([pa.field(RANK, pa.int32()), pa.field(OFFSET, pa.int64()), _IDENTITY.field(PATH)]))
_RIGHT = "right_"


class JoinedColumns:
    """The columns of two streams as they wait, and of the records that are made of them.

    >>> texts = pa.schema([("_rank", pa.int32()), ("id", pa.string()), ("text", pa.string())])
    >>> JoinedColumns("join", ["id"], texts, texts).made.names
    ['_rank', '_offset', '_time', '_path', '_other', 'id', 'text', 'right_text']
    """

    def __init__(self, step: str, key: Sequence[str], left: pa.Schema, right: pa.Schema) -> None:
        self._key = tuple(key)
        self.inputs = tuple(self._waiting(step, schema) for schema in (left, right))
        """The columns of each stream as its records wait: their identity, the key and the other fields.

        They have no dictionaries, which would keep the texts of records that are gone.
        """
        self._fields = [[field for field in schema if self._is_own(field.name)] for schema in self.inputs]
        names = _free_names([*self._key, *(field.name for field in self._fields[0])], self._fields[1])
        renamed = [field.with_name(name) for field, name in zip(self._fields[1], names, strict=True)]
        keys = [self.inputs[0].field(name) for name in self._key]
        self.made = pa.schema([*_IDENTITY, _OTHER, *keys, *self._fields[0], *renamed])
        """The columns of joined records."""

    def normal(self, side: int, records: pa.Table) -> pa.Table:
        """The records of a stream as they wait."""
        if PATH not in records.column_names:
            empty = pa.repeat(pa.scalar(b"", pa.binary()), records.num_rows)
            records = records.append_column(_IDENTITY.field(PATH), empty)
        return records.select(self.inputs[side].names).cast(self.inputs[side])

    def joined(
        self, left: pa.Table, right: pa.Table, right_completed: Array, numbers: Array, by_partner: bool = False
    ) -> pa.Table:
        """The joined records of these matches; `numbers` counts from 0 the matches that one record completed.

        With `by_partner`, the identity of the left record is in the path instead, if the right one completed the match.
        """
        completed = pa.array(right_completed)
        own, other = (
            {name: pc.if_else(completed, one[name], two[name]) for name in _IDENTITY.names}
            for one, two in ((right, left), (left, right))
        )
        named = [one_array(other[name]) for name in (RANK, OFFSET, PATH)]
        others = pa.StructArray.from_arrays(named, fields=list(_OTHER.type))
        parents = pa.table([own[name] for name in _IDENTITY.names], schema=_IDENTITY)
        made = with_child_paths(parents, numbers)
        if by_partner and right_completed.any():
            ranks, offsets, paths = named
            partners = with_partner_paths(parents, ranks.to_numpy().astype(np.int64), offsets.to_numpy(), paths)
            path = pc.if_else(completed, partners[PATH], made[PATH])
            made = made.set_column(made.column_names.index(PATH), _IDENTITY.field(PATH), path)
        fields = (left[name] for name in (*self._key, *(field.name for field in self._fields[0])))
        columns = [*made.columns, others, *fields, *(right[field.name] for field in self._fields[1])]
        return pa.Table.from_arrays(columns, schema=self.made)

    def unmatched(self, side: int, records: pa.Table) -> pa.Table:
        """Records of one stream with the columns of joined records; the fields of the other stream are null."""
        size = records.num_rows
        fields = [
            records[field.name] if number == side else pa.nulls(size, field.type)
            for number, own in enumerate(self._fields)
            for field in own
        ]
        identity = [records[name] for name in _IDENTITY.names]
        keys = [records[name].cast(self.made.field(name).type) for name in self._key]
        columns = [*identity, pa.nulls(size, _OTHER.type), *keys, *fields]
        return pa.Table.from_arrays(columns, schema=self.made)

    def _is_own(self, name: str) -> bool:
        return name not in _IDENTITY.names and name not in self._key

    def _waiting(self, step: str, schema: pa.Schema) -> pa.Schema:
        fields = [field for field in schema if field.name not in (*_IDENTITY.names, OTHER)]
        for field in fields:
            if not can_encode(field.type):
                message = f"step {step!r}: records with {field.name!r}, a {field.type}, cannot wait for others"
                raise ConfigError(f"{message}; make this column after the join")
        first = sorted(fields, key=lambda field: field.name not in self._key)
        return pa.schema([*_IDENTITY, *(field.with_type(plain_type(field.type)) for field in first)])


def _free_names(taken: Sequence[str], fields: Sequence[pa.Field]) -> list[str]:
    """The names of the right stream's fields in joined records: a name that is taken gets a prefix until it is free.

    >>> _free_names(["text", "right_text"], [pa.field("text", pa.string()), pa.field("label", pa.string())])
    ['right_right_text', 'label']
    """
    names = {field.name: field.name for field in fields}
    for own in names:
        while names[own] in taken or list(names.values()).count(names[own]) > 1:
            names[own] = f"{_RIGHT}{names[own]}"
    return list(names.values())
