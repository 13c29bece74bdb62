"""Takes rows of counted features in any order."""

from __future__ import annotations

from typing import Any

import numpy as np

from millstream.compiled.jit import compiled

__all__ = ["take_rows"]


@compiled
def take_rows(indptr: Any, indices: Any, counts: Any, rows: Any) -> Any:
    """Return `(indptr, indices, counts)` of these rows, in their order; a row may be there several times."""
    edges = np.zeros(len(rows) + 1, np.int32)
    for place in range(len(rows)):
        row = rows[place]
        edges[place + 1] = edges[place] + indptr[row + 1] - indptr[row]
    taken, numbers = np.empty(edges[-1], indices.dtype), np.empty(edges[-1], counts.dtype)
    for place in range(len(rows)):
        at, shift = edges[place], indptr[rows[place]] - edges[place]
        for entry in range(at, edges[place + 1]):
            taken[entry], numbers[entry] = indices[entry + shift], counts[entry + shift]
    return edges, taken, numbers
