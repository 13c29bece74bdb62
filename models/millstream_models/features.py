"""Features of text: sparse rows, as an Arrow column and as a SciPy matrix over the same memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import ConfigError
from millstream.steps.contracts import Array

__all__ = [
    "FEATURES",
    "Counted",
    "compacted",
    "dimensions_of",
    "features_field",
    "read_only",
    "to_arrow",
    "to_csr",
]

FEATURES = "features"
_PAIR = pa.struct([pa.field("index", pa.int32()), pa.field("count", pa.float32())])


def features_field(dimensions: int) -> pa.Field:
    """The field of the column `features`; it carries the number of dimensions.

    >>> features_field(1024).metadata
    {b'dimensions': b'1024'}
    """
    return pa.field(FEATURES, pa.list_(_PAIR), metadata={b"dimensions": b"%d" % dimensions})


def dimensions_of(records: pa.Schema) -> int:
    """The number of dimensions of the records' features.

    >>> dimensions_of(pa.schema([features_field(1024)]))
    1024
    """
    if FEATURES not in records.names:
        message = f"there is no column {FEATURES!r}, only {', '.join(records.names)}; put a step before that makes it"
        raise ConfigError(f"{message}, such as {{type: hashed_text}}")
    metadata = records.field(FEATURES).metadata or {}
    if b"dimensions" not in metadata:
        message = f"the column {FEATURES!r} does not say how many dimensions it has"
        raise ConfigError(f"{message}; the step that makes it has to add `features_field(dimensions)`")
    return int(metadata[b"dimensions"])


def to_arrow(rows: Any) -> pa.Array:
    """The rows of a float32 CSR matrix as lists of (index, count). The lists share its memory: do not change it.

    >>> from scipy.sparse import csr_matrix
    >>> to_arrow(csr_matrix(np.array([[0, 2], [0, 0]], np.float32))).to_pylist()
    [[{'index': 1, 'count': 2.0}], []]
    """
    pairs = pa.StructArray.from_arrays([pa.array(rows.indices), pa.array(rows.data)], fields=list(_PAIR))
    return pa.ListArray.from_arrays(pa.array(rows.indptr), pairs)


def to_csr(column: pa.Array, dimensions: int) -> Any:
    """Lists of (index, count) as a CSR matrix of float64; a missing list is an empty row.

    >>> to_csr(pa.array([[{"index": 1, "count": 2.0}], None], features_field(2).type), 2).toarray()
    array([[0., 2.],
           [0., 0.]])
    """
    from scipy.sparse import csr_matrix

    rows = Counted.of(column, dimensions)
    return csr_matrix((rows.data, rows.indices, rows.indptr), shape=rows.shape, copy=False)


@dataclass(frozen=True)
class Counted:
    """The arrays of a CSR matrix, without the checks that SciPy makes when it builds one.

    >>> column = pa.array([[{"index": 1, "count": 2.0}], None, [{"index": 0, "count": 3.0}]], features_field(2).type)
    >>> rows = Counted.of(column, 2)
    >>> rows[1:].data.tolist(), rows[np.array([2, 0])].indices.tolist()
    ([3.0], [0, 1])
    """

    indptr: Array
    indices: Array
    data: Array
    shape: tuple[int, int]

    @staticmethod
    def of(column: pa.Array, dimensions: int, kind: type[np.floating[Any]] = np.float64) -> Counted:
        """Lists of (index, count), the counts as numbers of this kind; a missing list is an empty row."""
        edges = np.zeros(len(column) + 1, np.int32)
        np.cumsum(pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False), out=edges[1:])
        pairs = column.flatten()
        indices = pairs.field(0).to_numpy(zero_copy_only=False)
        counts = pairs.field(1).to_numpy(zero_copy_only=False).astype(kind, copy=False)
        return Counted(edges, indices, counts, (len(column), dimensions))

    def __getitem__(self, rows: slice | Array) -> Counted:
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(self.shape[0])
            first, last = int(self.indptr[start]), int(self.indptr[stop])
            some = slice(first, last)
            edges = self.indptr[start : stop + 1] - first
            return Counted(edges, self.indices[some], self.data[some], (stop - start, self.shape[1]))
        from millstream_models.compiled.rows import take_rows

        edges, indices, data = take_rows(self.indptr, read_only(self.indices), read_only(self.data), rows)
        return Counted(edges, indices, data, (len(rows), self.shape[1]))


def read_only(array: Array) -> Array:
    """Return a read-only view: the kernels are compiled for such arrays, because arrays over Arrow's memory are."""
    view = array.view()
    view.flags.writeable = False
    return view


def compacted(rows: Any) -> tuple[Array, Any]:
    """The dimensions that occur in the rows (of a CSR matrix, or `Counted`), ascending, and the rows over only those.

    For a mini-batch, a model needs only a few thousand of all dimensions.

    >>> from scipy.sparse import csr_matrix
    >>> dimensions, rows = compacted(csr_matrix([[0, 0, 5.0], [7.0, 0, 0]]))
    >>> dimensions.tolist(), rows.toarray().tolist()
    ([0, 2], [[0.0, 5.0], [7.0, 0.0]])
    """
    from scipy.sparse import csr_matrix

    occurs = np.zeros(rows.shape[1], np.bool_)
    occurs[rows.indices] = True
    dimensions = np.flatnonzero(occurs)
    indices = np.empty(rows.shape[1], np.int32)
    indices[dimensions] = np.arange(len(dimensions), dtype=np.int32)
    shape = (rows.shape[0], len(dimensions))
    return dimensions, csr_matrix((rows.data, indices[rows.indices], rows.indptr), shape=shape, copy=False)
