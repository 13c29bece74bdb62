"""Parses JSON lines into the columns that a log yields.

There are two parsers, which give the same result for every line. pyarrow's parser reads a whole block of plain lines.
Python's parser reads line by line: blocks that contain anything else (broken lines, blank lines, values that change
their type), and blocks of so few lines that this is faster. Python's parser defines the result; pyarrow's parser is
used only for blocks for which its result is known to be the same.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from millstream.arrays import FEW_ROWS, Array
from millstream.log.formats.columns import records_of
from millstream.log.formats.rows import numbers_as_text
from millstream.records import log_schema

__all__ = ["parse_block", "parse_lines"]

_PIECE = 1000  # the number of lines in each piece, when a block that is not plain is split to find plain pieces
_DEEPEST = 500
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NEWLINE = 10
_BOM = b"\xef\xbb\xbf"
_ZERO_BELOW = re.compile(rb"-0[\s,\]}]")


def parse_block(block: bytes, fields: Mapping[str, str], offset: int) -> pa.RecordBatch:
    r"""Parse lines into records, the first with the offset `offset`. The newline of the last line is optional.

    `fields` gives for each of Millstream's fields its name in the lines. A line that cannot be read becomes a row with
    the reason in `_reject`.

    >>> records = parse_block(b'{"body": "a b", "day": "2022-02-08"}\n{"body": 1\n', {"text": "body", "time": "day"}, 7)
    >>> records.select(["_offset", "_time", "text"]).to_pylist()[0]
    {'_offset': 7, '_time': 1644278400000000, 'text': 'a b'}
    >>> records["_reject"].to_pylist()
    [None, "not JSON: Expecting ',' delimiter at character 10"]
    """
    count = int(np.count_nonzero(np.frombuffer(block, dtype=np.uint8) == _NEWLINE))
    if block and not block.endswith(b"\n"):
        count += 1
    columns = _parse_plain(block, count, fields) if count > FEW_ROWS else None
    if columns is not None:
        return records_of(columns, None, count, fields, offset)
    lines = block.split(b"\n")[:count]
    pieces = [
        _parse_piece(lines[start : start + _PIECE], fields, offset + start, alone=count <= _PIECE)
        for start in range(0, max(count, 1), _PIECE)
    ]
    return pieces[0] if len(pieces) == 1 else _concatenate(pieces, fields)


def parse_lines(lines: Sequence[bytes], fields: Mapping[str, str], offset: int) -> pa.RecordBatch:
    """The same for a list of lines, which may contain newlines."""
    if len(lines) <= FEW_ROWS:
        return _parse_piece(lines, fields, offset, alone=True)
    block = b"\n".join([*lines, b""])
    if block.count(b"\n") == len(lines):
        return parse_block(block, fields, offset)
    return _parse_piece(lines, fields, offset, alone=True)


def _concatenate(batches: Sequence[pa.RecordBatch], fields: Mapping[str, str]) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches, log_schema(list(fields))).combine_chunks()
    return table.to_batches()[0]


def _parse_piece(lines: Sequence[bytes], fields: Mapping[str, str], offset: int, *, alone: bool) -> pa.RecordBatch:
    if not alone:
        columns = _parse_plain(b"\n".join(lines), len(lines), fields)
        if columns is not None:
            return records_of(columns, None, len(lines), fields, offset)
    columns, reasons = _parse_line_by_line(lines, fields)
    return records_of(columns, reasons, len(lines), fields, offset)


# pyarrow's parser: a whole block


def _parse_plain(block: bytes, count: int, fields: Mapping[str, str]) -> dict[str, pa.Array] | None:
    """The columns of a plain block: each line is one JSON object, and no field changes its type. Otherwise None."""
    if count == 0 or not block.startswith(b"{") or not block.endswith((b"}", b"}\n", b"}\r\n")):
        return None
    chars = np.frombuffer(block, dtype=np.uint8)
    newlines = np.flatnonzero(chars[:-1] == _NEWLINE)
    if not _one_object_a_line(chars, newlines) or not _is_utf8(block) or b"\0" in block:
        return None
    if _may_be_deep(chars, newlines) or _has_no_number(block, chars):
        return None
    types = _types(block, fields)
    options = pyarrow.json.ParseOptions(explicit_schema=pa.schema(types), unexpected_field_behavior="ignore")
    reading = pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
    try:
        table = pyarrow.json.read_json(pa.BufferReader(block), read_options=reading, parse_options=options)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != count:
        return None
    columns = {field: table[key].combine_chunks() for field, key in fields.items()}
    whole = [name for name in columns if name != "time" and pa.types.is_integer(columns[name].type)]
    if whole and _ZERO_BELOW.search(block):
        return None
    return {name: _as_text(column) if name != "time" else column for name, column in columns.items()}


def _as_text(column: pa.Array) -> pa.Array:
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def _one_object_a_line(chars: Array, newlines: Array) -> bool:
    """True if all lines begin with { and end with }: then no object that can be parsed extends beyond its line."""
    before = chars[newlines - 1]
    before = np.where(before == ord("\r"), chars[newlines - 2], before)
    return bool((before == ord("}")).all() and (chars[newlines + 1] == ord("{")).all())


def _is_utf8(block: bytes) -> bool:
    text = pa.Array.from_buffers(
        pa.large_string(), 1, [None, pa.py_buffer(np.array([0, len(block)])), pa.py_buffer(block)]
    )
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _may_be_deep(chars: Array, newlines: Array) -> bool:
    """True if a line has so many brackets that only `_too_deep` can find out how deeply they are nested."""
    if np.count_nonzero(chars == ord("{")) + np.count_nonzero(chars == ord("[")) - len(newlines) <= _DEEPEST:
        return False
    opened = np.cumsum((chars == ord("{")) | (chars == ord("[")))
    return bool(np.diff(opened[np.append(newlines, len(chars) - 1)], prepend=0).max() > _DEEPEST)


def _has_no_number(block: bytes, chars: Array) -> bool:
    """True if the block may have a NaN or Infinity, which pyarrow accepts as numbers although JSON does not."""
    for word in (b"NaN", b"Inf", b"Infinity"):
        starts = np.flatnonzero(
            chars[: -len(word)] == word[0]
        )  # capital letters are rare, so this is faster than a search
        for index, char in enumerate(word):
            starts = starts[chars[starts + index] == char]
        for start in starts.tolist():
            end = start + len(word)
            before, after = block[max(0, start - 32) : start].rstrip(b" \t\r-"), block[end : end + 32].lstrip()
            if not before or (before.endswith((b":", b",", b"[")) and (not after or after[0] in b",]}")):
                return True
    return False


def _types(block: bytes, fields: Mapping[str, str]) -> dict[str, pa.DataType]:
    """A guess of the type of each field from the first lines; a wrong guess only costs time."""
    types: dict[str, pa.DataType] = {}
    for line in block[: 64 << 10].split(b"\n", 8)[:8]:
        try:
            record = _DECODER.decode(line.decode())
        except (ValueError, RecursionError):
            continue
        for field, key in fields.items():
            value = record.get(key)
            if value is not None and key not in types:
                types[key] = _type(value, field == "time")
        if len(types) == len(fields):
            break
    wanted = list(fields.values())
    return {key: types.get(key, pa.string()) if wanted.count(key) == 1 else pa.string() for key in wanted}


def _type(value: Any, is_time: bool) -> pa.DataType:
    if isinstance(value, _Number):
        return pa.float64() if is_time else pa.int64()
    return pa.bool_() if isinstance(value, bool) and not is_time else pa.string()


# Python's parser: line by line


class _Number(str):
    """The text of a JSON number."""

    __slots__ = ()


class _Float(_Number):
    """The text of a JSON number with a fraction or an exponent."""

    __slots__ = ()


def _refuse(constant: str) -> Any:
    message = f"{constant} is not a JSON number"
    raise ValueError(message)


_DECODER = json.JSONDecoder(parse_int=_Number, parse_float=_Float, parse_constant=_refuse)


def _parse_line_by_line(
    lines: Sequence[bytes], fields: Mapping[str, str]
) -> tuple[dict[str, pa.Array], list[str | None]]:
    rows: list[dict[str, Any]] = []
    reasons: list[str | None] = []
    for line in lines:
        try:
            rows.append(_values(line, fields))
            reasons.append(None)
        except ValueError as error:
            rows.append({})
            reasons.append(_reason(error))
    columns = {name: _texts([row.get(name) for row in rows]) for name in fields if name != "time"}
    if "time" in fields:
        times = [row.get("time") for row in rows]
        text = pa.array([None if isinstance(time, _Number) else time for time in times], pa.string())
        seconds = pa.array([float(time) if isinstance(time, _Number) else None for time in times], pa.float64())
        both = text.null_count < len(times) and seconds.null_count < len(times)
        only = text if seconds.null_count == len(times) else seconds
        columns["time"] = pa.StructArray.from_arrays([text, seconds], ["text", "seconds"]) if both else only
    return columns, reasons


def _texts(values: Sequence[str | None]) -> pa.Array:
    """The values of a field as text; equal floating-point numbers have one text, the same as in a Parquet file.

    >>> _texts(["1e2", _Float("1e2"), _Float("100.00"), _Number("100"), None]).to_pylist()
    ['1e2', '100.0', '100.0', '100', None]
    """
    texts = pa.array(values, pa.string())
    floats = [isinstance(value, _Float) for value in values]
    if not any(floats):
        return texts
    numbers = [float(value) for value in values if isinstance(value, _Float)]
    return pc.replace_with_mask(texts, pa.array(floats), numbers_as_text(pa.array(numbers, pa.float64())))


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} at character {error.pos}"
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 at byte {error.start}"
    return str(error)


def _values(line: bytes, fields: Mapping[str, str]) -> dict[str, Any]:
    if not line.strip():
        message = "empty line"
        raise ValueError(message)
    if _too_deep(line):
        message = f"nested more than {_DEEPEST} deep"
        raise ValueError(message)
    record = _DECODER.decode(line.removeprefix(_BOM).decode())
    if not isinstance(record, dict):
        message = f"not a JSON object but {_kind(record)}"
        raise ValueError(message)
    return {field: _scalar(record.get(key), field, key) for field, key in fields.items()}


def _too_deep(line: bytes) -> bool:
    if line.count(b"{") + line.count(b"[") <= _DEEPEST:
        return False
    chars = np.frombuffer(_STRINGS.sub(b"", line), dtype=np.uint8)
    up = (chars == ord("{")) | (chars == ord("["))
    down = (chars == ord("}")) | (chars == ord("]"))
    return bool(np.cumsum(up.astype(np.int64) - down).max(initial=0) > _DEEPEST)


def _scalar(value: Any, field: str, key: str) -> str | None:
    """A value as text: strings unchanged, numbers and booleans as in JSON; `_texts` makes floats canonical."""
    if isinstance(value, bool):
        if field == "time":
            message = f"{key} is no time but {_kind(value)}"
            raise ValueError(message)
        return "true" if value else "false"
    if value is None:
        return None
    if not isinstance(value, str):
        message = f"{key} is not text but {_kind(value)}"
        raise ValueError(message)
    if isinstance(value, _Float) and field != "time" and math.isinf(float(value)):
        message = f"{key} is a number beyond 64 bits; write it as text"
        raise ValueError(message)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            message = f"{key} holds half a surrogate pair"
            raise ValueError(message) from None
    return value


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, _Number):
        return "a number"
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    return kinds[type(value)]
