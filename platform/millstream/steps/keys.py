"""Keys of keyed steps: a record's key decides which state the record uses, and in which shard this state is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.errors import ConfigError
from millstream.state.shards import shard_of
from millstream.steps.column_checks import check_text_column
from millstream.steps.contracts import Array, Scope, Traits

__all__ = ["check_key", "shards_of"]


def shards_of(keys: pa.Array | pa.ChunkedArray, shards: int) -> Array:
    """Return the shard of each key of a column.

    >>> shards_of(pa.array(["ann", None, "bob", "ann"]), 64).tolist()
    [13, 0, 52, 13]
    """
    coded = keys if pa.types.is_dictionary(keys.type) else keys.dictionary_encode()
    coded = coded.unify_dictionaries().combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    if isinstance(coded, pa.ChunkedArray):  # the column has no chunks
        return np.zeros(0, np.int64)
    by_code = np.array([shard_of(key, shards) for key in coded.dictionary.to_pylist()] or [0], np.int64)
    result: Array = np.where(coded.is_valid(), by_code[coded.indices.fill_null(0).to_numpy(zero_copy_only=False)], 0)
    return result


def check_key(traits: Traits, records: pa.Schema, option: str = "`Traits.key`") -> None:
    """Raise ConfigError if `traits` are those of a keyed step and name no text column of `records` as the step's key.

    `option` is the option of the config that names the key; an error message shows `option`.
    """
    if traits.scope is not Scope.KEYED:
        return
    if traits.key is None:
        message = "a keyed step must name the column of its keys; write Traits(Scope.KEYED, key=...)"
        raise ConfigError(message)
    check_text_column(option, traits.key, records, "keys")
