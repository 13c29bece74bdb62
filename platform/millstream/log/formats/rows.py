"""Converts rows of outputs to JSON lines, as `millstream read` prints them and sinks write them, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from millstream.arrays import FEW_ROWS
from millstream.log.formats.times import from_text
from millstream.timestamps import format_time

__all__ = ["content_of", "json_lines", "numbers_as_text", "table_of"]

_quoted: Callable[[str], str] = json.JSONEncoder(ensure_ascii=False).encode
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\b", "\\b"), ("\f", "\\f"))


def json_lines(rows: pa.Table) -> bytes:
    r"""One JSON object for each row: columns in their order, times in ISO 8601, missing values and NaN as null.

    >>> rows = pa.table({"_offset": [7], "text": ['say "hi"'], "at": pa.array([1_500_000], pa.timestamp("us", "UTC"))})
    >>> json_lines(rows)
    b'{"_offset": 7, "text": "say \\"hi\\"", "at": "1970-01-01T00:00:01.500000Z"}\n'
    """
    if not rows.num_rows:
        return b""
    if rows.num_rows <= FEW_ROWS:
        return _lines_of_few(rows)
    pieces: list[Any] = []
    for index, name in enumerate(rows.column_names):
        pieces += [("{" if index == 0 else ", ") + json.dumps(name, ensure_ascii=False) + ": ", _texts(rows[name])]
    return b"".join(map(content_of, pc.binary_join_element_wise(*pieces, "}\n", "").chunks))


def content_of(array: pa.Array) -> memoryview:
    """The concatenated bytes of an array of texts or binary values.

    >>> bytes(content_of(pa.array(["one", "two", "three"])[1:]))
    b'twothree'
    """
    begin, end = array.offset, array.offset + len(array)
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    bounds = memoryview(array.buffers()[1]).cast("q" if wide else "i")
    return memoryview(array.buffers()[2])[bounds[begin] : bounds[end]]


def _lines_of_few(rows: pa.Table) -> bytes:
    """The same as `json_lines`, row by row."""
    heads = [f"{'{' if index == 0 else ', '}{_quoted(name)}: " for index, name in enumerate(rows.column_names)]
    lines = zip(*(_json_values(column) for column in rows.columns), strict=True)
    return "".join("".join(map("".join, zip(heads, line, strict=True))) + "}\n" for line in lines).encode()


def _json_values(column: pa.ChunkedArray) -> list[str]:
    """The JSON of each value, with one Python call for each value: faster for few rows."""
    kind = column.type
    write: Callable[[Any], str]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        write = _quoted
    elif pa.types.is_integer(kind):
        write = str
    elif pa.types.is_timestamp(kind):
        column, write = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), _time
    elif pa.types.is_float64(kind) and all(map(_has_same_text, column.to_pylist())):
        write = repr
    else:
        texts: list[str] = _texts(column).to_pylist()
        return texts
    return ["null" if value is None else write(value) for value in column.to_pylist()]


def _has_same_text(value: float | None) -> bool:
    """True if Python and Arrow write this number as the same text: without an exponent."""
    return value is None or value == 0 or 1e-4 <= abs(value) < 1e9


def _time(micros: int) -> str:
    return f'"{format_time(micros)}"'


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The JSON of each value, with calls for the whole column."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_null(kind):
        return pa.chunked_array([pa.array(["null"] * len(column))])
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = _strings(column)
    elif pa.types.is_timestamp(kind):
        texts = pc.binary_join_element_wise('"', _times(column.cast(pa.timestamp("us", "UTC"))), '"', "")
    elif pa.types.is_floating(kind):
        texts = numbers_as_text(column)
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        texts = column.cast(pa.string())
    else:
        values = (json.dumps(value, ensure_ascii=False) for value in column.to_pylist())
        texts = pa.chunked_array([pa.array(list(values), pa.string())])
    return pc.fill_null(texts, "null")


def numbers_as_text(column: Any) -> Any:
    """The JSON of floating-point numbers, of an array or a chunked array; NaN and infinite numbers become null.

    >>> numbers_as_text(pa.array([1.0, 2.5, float("nan")])).to_pylist()
    ['1.0', '2.5', None]
    """
    texts = pc.if_else(pc.is_finite(column), column, None).cast(pa.string())
    integral = pc.match_substring_regex(texts, r"^-?\d+$")
    return pc.if_else(integral, pc.binary_join_element_wise(texts, ".0", ""), texts)


def _strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pc.any(pc.match_substring_regex(column, r'[\x00-\x1f"\\]')).as_py():
        for plain, escaped in _ESCAPES:
            column = pc.replace_substring(column, plain, escaped)
        rest = pc.fill_null(pc.match_substring_regex(column, r"[\x00-\x1f]"), False)
        if pc.any(rest).as_py():
            for code in range(32):
                column = pc.replace_substring(column, chr(code), f"\\u{code:04x}")
    return pc.binary_join_element_wise('"', column, '"', "")


def _times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    seconds = pc.floor_temporal(column, unit="second")
    micros = pc.subtract(column.cast(pa.int64()), seconds.cast(pa.int64()))
    plain = pc.replace_substring(seconds.cast(pa.timestamp("s")).cast(pa.string()), " ", "T")
    fraction = pc.binary_join_element_wise(".", pc.utf8_lpad(micros.cast(pa.string()), 6, "0"), "")
    return pc.binary_join_element_wise(plain, pc.if_else(pc.equal(micros, 0), "", fraction), "Z", "")


def table_of(lines: bytes, schema: pa.Schema) -> pa.Table:
    """Parse rows that `json_lines` has written, into these columns.

    >>> schema = pa.schema([("_offset", pa.int64()), ("text", pa.string())])
    >>> table_of(b'{"_offset": 7, "text": null}', schema).to_pylist()
    [{'_offset': 7, 'text': None}]
    """
    if not lines:
        return schema.empty_table()
    written = pa.schema(
        [pa.field(field.name, pa.string() if pa.types.is_timestamp(field.type) else field.type) for field in schema]
    )
    table = pyarrow.json.read_json(
        pa.BufferReader(lines),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=written, unexpected_field_behavior="ignore"),
    )
    columns = []
    for field in schema:
        column = table[field.name].combine_chunks()
        if pa.types.is_timestamp(field.type):
            micros, good = from_text(column)
            column = pa.array(micros, mask=~good).cast(pa.timestamp("us", "UTC")).cast(field.type)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)
