"""Digests and hashes of the rows of tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.digests.digest import Digest
from millstream.digests.layouts import Layout, layout_of, nodes_of

__all__ = ["digest_of", "digests_by", "row_hashes"]


def digest_of(table: pa.Table) -> Digest:
    """The digest of a table's rows. Their order and the order of columns, chunks and dictionaries do not change it.

    >>> rows = pa.table({"offset": [5, 6, 7], "text": ["x", None, "yz"]})
    >>> digest_of(rows.slice(1)) + digest_of(rows.slice(0, 1)) == digest_of(rows)
    True
    >>> digest_of(rows) == digest_of(pa.table({"text": rows["text"].dictionary_encode(), "offset": rows["offset"]}))
    True
    """
    from millstream.compiled.row_hashes import sum_rows

    digest = Digest()
    layouts, salts = _columns_of(table.schema)
    for batch in table.to_batches():
        if batch.num_rows:
            nodes, _held = nodes_of(layouts, batch)
            first, second = sum_rows(nodes, salts, batch.num_rows)
            digest += Digest(batch.num_rows, int(first), int(second))
    return digest


def digests_by(table: pa.Table, column: str) -> dict[int, Digest]:
    """The digest of the rows of each value of a column of numbers.

    >>> rows = pa.table({"rank": [0, 1, 0], "text": ["x", "y", "z"]})
    >>> digests_by(rows, "rank") == {0: digest_of(rows.take([0, 2])), 1: digest_of(rows.slice(1, 1))}
    True
    """
    values = table[column].to_numpy()
    if len(values) and (values == values[0]).all():
        return {int(values[0]): digest_of(table)}
    first, second = _lanes(table)
    digests = {}
    for value in np.unique(values).tolist():
        chosen = values == value
        digests[value] = Digest(int(chosen.sum()), int(first[chosen].sum()), int(second[chosen].sum()))
    return digests


def row_hashes(table: pa.Table, columns: Sequence[str] | None = None) -> Array:
    """The first lane of each row's hash (uint64), over these columns (default: all)."""
    return _lanes(table if columns is None else table.select(columns))[0]


def _lanes(table: pa.Table) -> tuple[Array, Array]:
    from millstream.compiled.row_hashes import hash_rows

    first, second = np.empty(table.num_rows, np.uint64), np.empty(table.num_rows, np.uint64)
    layouts, salts = _columns_of(table.schema)
    start = 0
    for batch in table.to_batches():
        stop = start + batch.num_rows
        if batch.num_rows:
            nodes, _held = nodes_of(layouts, batch)
            hash_rows(nodes, salts, first[start:stop], second[start:stop])
        start = stop
    return first, second


@lru_cache(maxsize=256)
def _columns_of(schema: pa.Schema) -> tuple[list[Layout], Array]:
    """The layout of each column, and two numbers from its name and type with which the hash of a value begins."""
    layouts = [layout_of(column.type) for column in schema]
    texts = [f"{layout.name}\0{name}" for layout, name in zip(layouts, schema.names, strict=True)]
    salts = b"".join(blake2b(text.encode(), digest_size=16).digest() for text in texts)
    return layouts, np.frombuffer(bytearray(salts), "<u8").reshape(-1, 2)
