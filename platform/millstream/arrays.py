"""Arrays: their type, columns as arrays, and the number of rows above which they are faster than Python objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["FEW_ROWS", "Array", "one_array", "valid_rows"]

Array = np.ndarray[Any, Any]

FEW_ROWS = 16
"""Up to this number of rows, a loop over Python objects is faster than functions that work on whole columns."""


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece.

    >>> one_array(pa.chunked_array([["a"], ["b"]])).to_pylist(), len(one_array(pa.chunked_array([], pa.string())))
    (['a', 'b'], 0)
    """
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if not len(column):
        return pa.nulls(0, column.type)  # `combine_chunks` imports pandas
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def valid_rows(column: pa.Array | pa.ChunkedArray) -> Array:
    """True for each value of a column that is not null.

    >>> valid_rows(pa.chunked_array([["a", None], ["b"]])).tolist()
    [True, False, True]
    """
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    valid: Array = one_array(column).is_valid().to_numpy(zero_copy_only=False)
    return valid
