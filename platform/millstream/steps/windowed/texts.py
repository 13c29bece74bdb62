"""Columns of texts as the measures of windows read them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from millstream.arrays import Array

__all__ = ["coded_texts", "count_pairs", "plain_texts"]


def plain_texts(column: pa.ChunkedArray) -> pa.Array:
    """A text column as plain strings in one piece."""
    texts = column.combine_chunks()
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_decode()
    return texts.cast(pa.string())


def coded_texts(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """A text column with a dictionary.

    >>> coded_texts(pa.chunked_array([["a", None], ["b", "a"]])).indices.to_pylist()
    [0, None, 1, 0]
    """
    return plain_texts(column).dictionary_encode()


def count_pairs(coded: pa.DictionaryArray, rows: Array, cell_of: Array) -> Iterable[tuple[int, int, int]]:
    """Count the pairs of a cell and the code of a text, without the texts that are null.

    >>> coded = coded_texts(pa.chunked_array([["a", "b", None, "a"]]))
    >>> list(count_pairs(coded, np.array([0, 1, 2, 3]), np.array([5, 5, 5, 5])))
    [(5, 0, 2), (5, 1, 1)]
    """
    texts = len(coded.dictionary)
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)[rows].astype(np.int64)
    present = codes >= 0
    pairs, counts = np.unique(cell_of[present] * texts + codes[present], return_counts=True)
    cells, found = np.divmod(pairs, max(texts, 1))
    return zip(cells.tolist(), found.tolist(), counts.tolist(), strict=True)
