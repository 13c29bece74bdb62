"""Keys: the field that decides which state of a keyed step a record meets, and which of several workers owns it."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from millstream.errors import ConfigError
from millstream.records import is_text
from millstream.steps.contracts import Array, Scope, Traits
from millstream.suggestions import suggestion

__all__ = ["check_key", "owner", "owners"]


def owner(key: str | None, workers: int) -> int:
    """The worker, counted from 0, that has this key's state; the same in every process. Records without a key are 0's.

    >>> [owner(key, 3) for key in ("ann", "bob", "cleo", None)]
    [1, 1, 0, 0]
    """
    if key is None:
        return 0
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little") % workers


def owners(keys: pa.Array | pa.ChunkedArray, workers: int) -> Array:
    """The owner of each key of a column.

    >>> owners(pa.array(["ann", None, "bob", "ann"]), 3).tolist()
    [1, 0, 1, 1]
    """
    coded = keys if pa.types.is_dictionary(keys.type) else keys.dictionary_encode()
    coded = coded.unify_dictionaries().combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    if isinstance(coded, pa.ChunkedArray):  # no chunks at all
        return np.zeros(0, np.int64)
    by_code = np.array([owner(key, workers) for key in coded.dictionary.to_pylist()] or [0], np.int64)
    owned: Array = np.where(coded.is_valid(), by_code[coded.indices.fill_null(0).to_numpy(zero_copy_only=False)], 0)
    return owned


def check_key(traits: Traits, records: pa.Schema) -> None:
    """Refuse the traits of a keyed step that gets these records, unless they name the field of its keys."""
    if traits.scope is not Scope.KEYED:
        return
    if traits.key is None:
        message = "it declares itself keyed, but not by which field; say Traits(Scope.KEYED, key=...)"
        raise ConfigError(message)
    if traits.key not in records.names:
        meant = suggestion(traits.key, records.names, f"there are {', '.join(records.names)}")
        raise ConfigError(f"it is keyed by {traits.key!r}, but the records have no such field here{meant}")
    kind = records.field(traits.key).type
    if not is_text(kind):
        raise ConfigError(f"it is keyed by {traits.key!r}, which is {kind}; keys are text, so name a text field")
