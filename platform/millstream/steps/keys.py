"""Keys of keyed steps: a record's key decides which state the record uses, and in which shard this state is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import pyarrow as pa
from pydantic import AfterValidator, Field

from millstream.errors import ConfigError
from millstream.records import OFFSET, RANK
from millstream.state.shards import shard_of
from millstream.steps.column_checks import check_text_column
from millstream.steps.contracts import Array, Scope, Traits

__all__ = ["KeyFields", "check_key", "check_key_fields", "coded", "key_of", "keys_of", "position_keys", "shards_of"]

_BLOCK_BITS = 4
"""So many low bits of an offset make no difference for the shard of a position."""


def _key_fields(fields: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if not isinstance(fields, str) and len(set(fields)) < len(fields):
        message = "a field is listed twice"
        raise ValueError(message)
    return fields[0] if not isinstance(fields, str) and len(fields) == 1 else fields


KeyFields = Annotated[
    str | Annotated[tuple[str, ...], Field(min_length=1)],
    AfterValidator(_key_fields),
]
"""The field of a key in a config, or a list of fields."""


def key_of(values: Sequence[str | None]) -> str | None:
    """The key of one record: the value of its field, or of several fields the canonical JSON list; None if one is null.

    >>> key_of(["ann"]), key_of(["ann", "é"]), key_of(["ann", None])
    ('ann', '["ann","é"]', None)
    """
    if len(values) == 1:
        return values[0]
    return None if None in values else json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def keys_of(records: pa.Table, fields: Sequence[str]) -> pa.ChunkedArray | pa.Array:
    """The key of each record, as `key_of` makes it.

    >>> keys_of(pa.table({"author": ["ann", "ann"], "country": ["nz", None]}), ["author", "country"]).to_pylist()
    ['["ann","nz"]', None]
    """
    if len(fields) == 1:
        return records[fields[0]]
    codes, distinct = np.zeros(records.num_rows, np.int64), [()]
    for field in fields:
        each = coded(records[field])
        values = [*each.dictionary.to_pylist(), None]
        own = each.indices.cast(pa.int64()).fill_null(len(values) - 1).to_numpy(zero_copy_only=False)
        pairs, codes = np.unique(codes * len(values) + own, return_inverse=True)
        distinct = [(*distinct[pair // len(values)], values[pair % len(values)]) for pair in pairs.tolist()]
    made = pa.array([key_of(values) for values in distinct], pa.string())
    return made.take(pa.array(codes))


def position_keys(records: pa.Table) -> pa.DictionaryArray:
    """A text for the position of each record: it decides the shard of a record that may be in any shard.

    Records of 16 offsets that follow each other have one text, so that their states can be one entry.

    >>> position_keys(pa.table({"_rank": [0, 0, 2], "_offset": [7, 15, 16]})).to_pylist()
    ['<0/0', '<0/0', '<2/1']
    """
    ranks, of_rank = np.unique(records[RANK].to_numpy(), return_inverse=True)
    blocks, of_block = np.unique(records[OFFSET].to_numpy() >> _BLOCK_BITS, return_inverse=True)
    pairs, codes = np.unique(of_rank * len(blocks) + of_block, return_inverse=True)
    size = max(len(blocks), 1)
    texts = [
        f"<{rank}/{block}"
        for rank, block in zip(ranks[pairs // size].tolist(), blocks[pairs % size].tolist(), strict=True)
    ]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int64()), pa.array(texts, pa.string()))


def coded(column: pa.Array | pa.ChunkedArray) -> pa.DictionaryArray:
    """The column as one array with a dictionary, which has the values of the column and no others."""
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    found = plain.dictionary_encode()
    found = found.unify_dictionaries().combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    if isinstance(found, pa.ChunkedArray):  # the column has no chunks
        return pa.array([], plain.type).dictionary_encode()
    return found


def shards_of(keys: pa.Array | pa.ChunkedArray, shards: int) -> Array:
    """Return the shard of each key of a column.

    >>> shards_of(pa.array(["ann", None, "bob", "ann"]), 64).tolist()
    [13, 0, 52, 13]
    """
    column = coded(keys)
    by_code = np.array([shard_of(key, shards) for key in column.dictionary.to_pylist()] or [0], np.int64)
    result: Array = np.where(column.is_valid(), by_code[column.indices.fill_null(0).to_numpy(zero_copy_only=False)], 0)
    return result


def check_key(traits: Traits, records: pa.Schema, option: str = "`Traits.key`") -> None:
    """Raise ConfigError if `traits` are those of a keyed step and name no text column of `records` as the step's key.

    `option` is the option of the config that names the key; an error message shows `option`.
    """
    if traits.scope is not Scope.KEYED:
        return
    if not traits.key_fields:
        message = "a keyed step must name the column of its keys; write Traits(Scope.KEYED, key=...)"
        raise ConfigError(message)
    check_key_fields(traits.key_fields, records, option)


def check_key_fields(fields: Sequence[str], records: pa.Schema, option: str) -> None:
    """Raise ConfigError if one of these fields of a key is no text column of the records."""
    for field in fields:
        check_text_column(option, field, records, "keys")
