"""JSON lines into the columns that a log yields.

There are two ways, and they agree on every line: pyarrow's parser on a whole block of plain lines, and Python's on one
line after the other where a block holds anything else (broken lines, blank ones, values that change their type), and
where lines are so few that this is quicker. What the second says is what counts; the first is used only where it is
known to say the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from millstream.arrays import FEW_ROWS, Array
from millstream.log.formats.columns import records_of
from millstream.records import log_schema

__all__ = ["parse_block", "parse_lines"]

_PIECE = 1000  # lines that are tried again together when a block is not plain
_DEEPEST = 500
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NEWLINE = 10
_BOM = b"\xef\xbb\xbf"
_ZERO_BELOW = re.compile(rb"-0[\s,\]}]")


def parse_block(block: bytes, fields: Mapping[str, str], offset: int) -> pa.RecordBatch:
    r"""Lines that end in a newline (the last may do without) as records, the first of them at `offset`.

    `fields` gives the name in the lines for each of ours. A line that cannot be read is a row that says why.

    >>> records = parse_block(b'{"body": "a b", "day": "2022-02-08"}\n{"body": 1\n', {"text": "body", "time": "day"}, 7)
    >>> records.select(["_offset", "_time", "text"]).to_pylist()[0]
    {'_offset': 7, '_time': 1644278400000000, 'text': 'a b'}
    >>> records["_reject"].to_pylist()
    [None, "not JSON: Expecting ',' delimiter at character 10"]
    """
    count = int(np.count_nonzero(np.frombuffer(block, dtype=np.uint8) == _NEWLINE))
    if block and not block.endswith(b"\n"):
        count += 1
    columns = _plain(block, count, fields) if count > FEW_ROWS else None
    if columns is not None:
        return records_of(columns, None, count, fields, offset)
    lines = block.split(b"\n")[:count]
    pieces = [
        _of_piece(lines[start : start + _PIECE], fields, offset + start, alone=count <= _PIECE)
        for start in range(0, max(count, 1), _PIECE)
    ]
    return pieces[0] if len(pieces) == 1 else _one(pieces, fields)


def parse_lines(lines: Sequence[bytes], fields: Mapping[str, str], offset: int) -> pa.RecordBatch:
    """The same for lines that come one by one, each with newlines in it or without."""
    if len(lines) <= FEW_ROWS:
        return _of_piece(lines, fields, offset, alone=True)
    block = b"\n".join([*lines, b""])
    if block.count(b"\n") == len(lines):
        return parse_block(block, fields, offset)
    return _of_piece(lines, fields, offset, alone=True)


def _one(batches: Sequence[pa.RecordBatch], fields: Mapping[str, str]) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches, log_schema(list(fields))).combine_chunks()
    return table.to_batches()[0]


def _of_piece(lines: Sequence[bytes], fields: Mapping[str, str], offset: int, *, alone: bool) -> pa.RecordBatch:
    if not alone:
        columns = _plain(b"\n".join(lines), len(lines), fields)
        if columns is not None:
            return records_of(columns, None, len(lines), fields, offset)
    columns, reasons = _line_by_line(lines, fields)
    return records_of(columns, reasons, len(lines), fields, offset)


# A whole block


def _plain(block: bytes, count: int, fields: Mapping[str, str]) -> dict[str, pa.Array] | None:
    """The columns of a block of which every line is one JSON object whose fields keep their types; else None."""
    if count == 0 or not block.startswith(b"{") or not block.endswith((b"}", b"}\n", b"}\r\n")):
        return None
    signs = np.frombuffer(block, dtype=np.uint8)
    newlines = np.flatnonzero(signs[:-1] == _NEWLINE)
    if not _one_object_a_line(signs, newlines) or not _is_utf8(block) or b"\0" in block:
        return None
    if _may_be_deep(signs, newlines) or _has_no_number(block, signs):
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
    columns = {ours: table[theirs].combine_chunks() for ours, theirs in fields.items()}
    whole = [name for name in columns if name != "time" and pa.types.is_integer(columns[name].type)]
    if whole and _ZERO_BELOW.search(block):
        return None
    return {name: _as_text(column) if name != "time" else column for name, column in columns.items()}


def _as_text(column: pa.Array) -> pa.Array:
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def _one_object_a_line(signs: Array, newlines: Array) -> bool:
    """Whether lines end with } and begin with {: then no object that parses goes beyond its line."""
    before = signs[newlines - 1]
    before = np.where(before == ord("\r"), signs[newlines - 2], before)
    return bool((before == ord("}")).all() and (signs[newlines + 1] == ord("{")).all())


def _is_utf8(block: bytes) -> bool:
    text = pa.Array.from_buffers(
        pa.large_string(), 1, [None, pa.py_buffer(np.array([0, len(block)])), pa.py_buffer(block)]
    )
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _may_be_deep(signs: Array, newlines: Array) -> bool:
    """Whether a line has so many brackets that only `_too_deep` can tell how deep they go."""
    if np.count_nonzero(signs == ord("{")) + np.count_nonzero(signs == ord("[")) - len(newlines) <= _DEEPEST:
        return False
    opened = np.cumsum((signs == ord("{")) | (signs == ord("[")))
    return bool(np.diff(opened[np.append(newlines, len(signs) - 1)], prepend=0).max() > _DEEPEST)


def _has_no_number(block: bytes, signs: Array) -> bool:
    """Whether there may be a NaN or Infinity, which pyarrow takes for numbers and JSON does not know."""
    for word in (b"NaN", b"Inf", b"Infinity"):
        places = np.flatnonzero(signs[: -len(word)] == word[0])  # capitals are few: quicker than a search
        for index, sign in enumerate(word):
            places = places[signs[places + index] == sign]
        for index in places.tolist():
            end = index + len(word)
            before, after = block[max(0, index - 32) : index].rstrip(b" \t\r-"), block[end : end + 32].lstrip()
            if not before or (before.endswith((b":", b",", b"[")) and (not after or after[0] in b",]}")):
                return True
    return False


def _types(block: bytes, fields: Mapping[str, str]) -> dict[str, pa.DataType]:
    """The type to ask for each field, from the first lines: a wrong guess only costs time."""
    types: dict[str, pa.DataType] = {}
    for line in block[: 64 << 10].split(b"\n", 8)[:8]:
        try:
            record = _DECODER.decode(line.decode())
        except (ValueError, RecursionError):
            continue
        for ours, theirs in fields.items():
            value = record.get(theirs)
            if value is not None and theirs not in types:
                types[theirs] = _type(value, ours == "time")
        if len(types) == len(fields):
            break
    wanted = list(fields.values())
    return {theirs: types.get(theirs, pa.string()) if wanted.count(theirs) == 1 else pa.string() for theirs in wanted}


def _type(value: Any, is_time: bool) -> pa.DataType:
    if isinstance(value, _Number):
        return pa.float64() if is_time else pa.int64()
    return pa.bool_() if isinstance(value, bool) and not is_time else pa.string()


# One line after the other


class _Number(str):
    """A JSON number as it was written."""

    __slots__ = ()


def _refuse(constant: str) -> Any:
    message = f"{constant} is not a JSON number"
    raise ValueError(message)


_DECODER = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_refuse)


def _line_by_line(lines: Sequence[bytes], fields: Mapping[str, str]) -> tuple[dict[str, pa.Array], list[str | None]]:
    rows: list[dict[str, Any]] = []
    reasons: list[str | None] = []
    for line in lines:
        try:
            rows.append(_values(line, fields))
            reasons.append(None)
        except ValueError as error:
            rows.append({})
            reasons.append(_reason(error))
    columns = {name: pa.array([row.get(name) for row in rows], pa.string()) for name in fields if name != "time"}
    if "time" in fields:
        times = [row.get("time") for row in rows]
        text = pa.array([None if isinstance(time, _Number) else time for time in times], pa.string())
        seconds = pa.array([float(time) if isinstance(time, _Number) else None for time in times], pa.float64())
        both = text.null_count < len(times) and seconds.null_count < len(times)
        alone = text if seconds.null_count == len(times) else seconds
        columns["time"] = pa.StructArray.from_arrays([text, seconds], ["text", "seconds"]) if both else alone
    return columns, reasons


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
    return {ours: _scalar(record.get(theirs), ours, theirs) for ours, theirs in fields.items()}


def _too_deep(line: bytes) -> bool:
    if line.count(b"{") + line.count(b"[") <= _DEEPEST:
        return False
    signs = np.frombuffer(_STRINGS.sub(b"", line), dtype=np.uint8)
    up = (signs == ord("{")) | (signs == ord("["))
    down = (signs == ord("}")) | (signs == ord("]"))
    return bool(np.cumsum(up.astype(np.int64) - down).max(initial=0) > _DEEPEST)


def _scalar(value: Any, ours: str, theirs: str) -> str | None:
    """A value as text: strings as they are, numbers and booleans as JSON writes them."""
    if isinstance(value, bool):
        if ours == "time":
            message = f"{theirs} is no time but {_kind(value)}"
            raise ValueError(message)
        return "true" if value else "false"
    if value is None:
        return None
    if not isinstance(value, str):
        message = f"{theirs} is not text but {_kind(value)}"
        raise ValueError(message)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            message = f"{theirs} holds half a surrogate pair"
            raise ValueError(message) from None
    return value


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, _Number):
        return "a number"
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    return kinds[type(value)]
