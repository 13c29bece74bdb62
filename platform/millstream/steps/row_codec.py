"""Rows of a table as bytes and back: equal rows have equal bytes, whatever batch they are in."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from millstream.arrays import Array, one_array
from millstream.steps.declarations import plain_type

__all__ = ["RowCodec", "can_encode"]


def can_encode(kind: pa.DataType) -> bool:
    """True if values of this type can be encoded: texts, bytes, and all that has eight bytes or less."""
    plain = plain_type(kind)
    return _is_bytes(plain) or types.is_boolean(plain) or (types.is_primitive(plain) and plain.bit_width % 8 == 0)


class RowCodec:
    """Encodes the rows of tables of one schema.

    A row has one byte for its flags, then for each column of fixed width a byte that says if it is null and its value,
    and for each column of texts the length, -1 for null; then the texts.

    >>> table = pa.table({"count": [3, None], "text": ["ü", None]})
    >>> codec = RowCodec(table.schema)
    >>> encoded = codec.encode(table, np.array([0, 1]))
    >>> encoded[0].as_py()
    b'\\x00\\x01\\x03\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\x00\\x00\\xc3\\xbc'
    >>> decoded, flags, counts = codec.decode([b"".join(encoded.to_pylist())])
    >>> decoded.to_pylist() == table.to_pylist(), flags.tolist(), counts.tolist()
    (True, [0, 1], [2])
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        plain = [plain_type(field.type) for field in schema]
        self._texts = [index for index, kind in enumerate(plain) if _is_bytes(kind)]
        fields: list[tuple[str, str]] = [("flags", "u1")]
        for index, kind in enumerate(plain):
            if index in self._texts:
                fields.append((f"length {index}", "<i4"))
            else:
                width = 1 if types.is_boolean(kind) else kind.bit_width // 8
                fields += [(f"present {index}", "u1"), (f"value {index}", f"V{width}")]
        self._fixed = np.dtype(fields)
        lengths = [self._fixed.fields[f"length {index}"][1] for index in self._texts]  # type: ignore[index]
        self._lengths = [struct.Struct(f"<{at}xi") for at in lengths]

    def encode(self, rows: pa.Table | pa.RecordBatch, flags: Array) -> pa.BinaryArray:
        """The bytes of each row, with these flags."""
        fixed = np.zeros(rows.num_rows, self._fixed)
        fixed["flags"] = flags
        texts: list[pa.Array] = []
        for index, field in enumerate(self._schema):
            column = one_array(rows.column(index).cast(plain_type(field.type)))
            if index in self._texts:
                data = column.cast(pa.binary())
                fixed[f"length {index}"] = pc.binary_length(data).fill_null(-1).to_numpy()
                texts.append(data.fill_null(b""))
            else:
                fixed[f"present {index}"] = column.is_valid().to_numpy(zero_copy_only=False)
                fixed[f"value {index}"] = _raw(column)
        width = self._fixed.itemsize
        heads = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(fixed), [None, pa.py_buffer(fixed)])
        return pc.binary_join_element_wise(heads.cast(pa.binary()), *texts, b"") if texts else heads.cast(pa.binary())

    def decode(self, values: Sequence[bytes]) -> tuple[pa.Table, Array, Array]:
        """The rows in these values, their flags, and the number of rows in each value, which may have several."""
        width, heads = self._fixed.itemsize, list[bytes]()
        stops = np.zeros(len(values) + 1, np.int64)
        texts: list[list[bytes | None]] = [[] for _ in self._texts]
        for index, value in enumerate(values, start=1):
            at = 0
            while at < len(value):
                heads.append(value[at : at + width])
                stop = at + width
                for column, length in zip(texts, self._lengths, strict=True):
                    [size] = length.unpack_from(value, at)
                    column.append(value[stop : stop + size] if size >= 0 else None)
                    stop += max(size, 0)
                at = stop
            stops[index] = len(heads)
        fixed = np.frombuffer(b"".join(heads), self._fixed)
        columns = [self._column(index, fixed, texts) for index in range(len(self._schema))]
        return pa.Table.from_arrays(columns, schema=self._schema), fixed["flags"].copy(), np.diff(stops)

    def _column(self, index: int, fixed: Array, texts: Sequence[Sequence[bytes | None]]) -> pa.Array:
        kind = self._schema.field(index).type
        plain = plain_type(kind)
        if index in self._texts:
            return pa.array(texts[self._texts.index(index)], pa.binary()).cast(plain).cast(kind)
        absent = fixed[f"present {index}"] == 0
        raw = np.ascontiguousarray(fixed[f"value {index}"])
        if types.is_boolean(plain):
            return pa.array(raw.view(np.uint8) != 0, mask=absent)
        whole = pa.Array.from_buffers(plain, len(raw), [None, pa.py_buffer(raw)])
        return pc.if_else(pa.array(absent), pa.scalar(None, plain), whole).cast(kind)


def _raw(column: pa.Array) -> Array:
    """The values of a column as bytes, zeros for a null."""
    if types.is_boolean(column.type):
        return np.asarray(column.fill_null(False).cast(pa.uint8())).view("V1")
    width = column.type.bit_width // 8
    data = column.buffers()[1]
    values = np.zeros((len(column), width), np.uint8)
    if data is not None:
        values[:] = np.frombuffer(data, np.uint8, len(column) * width, column.offset * width).reshape(-1, width)
        values[~column.is_valid().to_numpy(zero_copy_only=False)] = 0
    return values.view(f"V{width}")[:, 0]


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(test(kind) for test in tests)
