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


def count_pairs(coded: pa.DictionaryArray, rows: Array, cell_of: Array, cells: int) -> Iterable[tuple[int, int, int]]:
    """Count the pairs of a cell and the code of a text, without the texts that are null. There are so many `cells`.

    >>> coded = coded_texts(pa.chunked_array([["a", "b", None, "a"]]))
    >>> few, many = (list(count_pairs(coded, np.arange(4), np.array([5, 5, 5, 5]), cells)) for cells in (6, 600))
    >>> few, few == many
    ([(5, 0, 2), (5, 1, 1)], True)
    """
    texts = len(coded.dictionary)
    indices = coded.indices.fill_null(-1) if coded.null_count else coded.indices
    codes = indices.to_numpy(zero_copy_only=False)[rows]
    if coded.null_count:
        present = codes >= 0
        codes, cell_of = codes[present], cell_of[present]
    pairs = cell_of * texts + codes
    if texts * cells <= 4 * len(pairs):  # few pairs are counted without sorting them
        table = np.bincount(pairs)
        found = np.flatnonzero(table)
        counts = table[found]
    else:
        found, counts = np.unique(pairs, return_counts=True)
    cell, code = np.divmod(found, max(texts, 1))
    return zip(cell.tolist(), code.tolist(), counts.tolist(), strict=True)
