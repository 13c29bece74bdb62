"""The hash of a row in plain Python, as docs/internals/formats.md defines it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import pyarrow as pa
from pyarrow import types

__all__ = ["lanes_of", "sums_of"]

LANE = 2**64 - 1
MULTIPLIERS = 0xA0761D6478BD642F, 0xE7037ED1A0B428DB
NULL = 0x8EBC6AF09C88C6E3


def folded(one: int, other: int) -> int:
    product = one * other
    return (product ^ product >> 64) & LANE


def lanes_of(table: pa.Table) -> list[tuple[int, int]]:
    """The two lanes of each row."""
    totals = [[0, 0] for _ in range(table.num_rows)]
    for name in table.column_names:
        kind = table.schema.field(name).type
        salts = struct.unpack("<QQ", blake2b(f"{type_name(kind)}\0{name}".encode(), digest_size=16).digest())
        for total, value in zip(totals, table[name].to_pylist(), strict=True):
            for lane in range(2):
                state = salts[lane]
                for word in words_of(kind, value):
                    state = folded(state ^ word, MULTIPLIERS[lane])
                total[lane] = (total[lane] + state) & LANE
    return [(folded(one, MULTIPLIERS[0]), folded(other, MULTIPLIERS[1])) for one, other in totals]


def sums_of(table: pa.Table) -> tuple[int, int, int]:
    """The number of rows and the sums of their lanes."""
    lanes = lanes_of(table)
    return len(lanes), sum(one for one, _ in lanes) & LANE, sum(other for _, other in lanes) & LANE


def type_name(kind: pa.DataType) -> str:
    if types.is_dictionary(kind):
        return type_name(kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{type_name(field.type)}' for field in kind)}>"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return f"list<{type_name(kind.value_type)}>"
    return "bytes" if "binary" in str(kind) else str(kind)


def words_of(kind: pa.DataType, value: Any) -> Iterator[int]:
    """The words of a value: no value's words are the beginning of another's of the same type."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    if value is None:
        yield from (NULL, 0)
    elif types.is_struct(kind):
        yield 1
        for field in kind:
            yield from words_of(field.type, value[field.name])
    elif types.is_nested(kind):
        yield len(value)
        for element in value:
            yield from words_of(kind.value_type, element)
    elif isinstance(value, str | bytes):
        content = value.encode() if isinstance(value, str) else value
        yield len(content)
        for start in range(0, len(content), 8):
            yield int.from_bytes(content[start : start + 8], "little")
    else:
        [word] = struct.unpack("<Q", packed(kind, value).ljust(8, b"\0"))
        yield word
        if word == NULL:
            yield 1


def packed(kind: pa.DataType, value: Any) -> bytes:
    if types.is_floating(kind):
        return struct.pack({16: "<e", 32: "<f", 64: "<d"}[kind.bit_width], float("nan") if value != value else value)
    if types.is_temporal(kind):
        value = pa.scalar(value, kind).value
    width = max(kind.bit_width // 8, 1)
    return int(value).to_bytes(width, "little", signed=not types.is_unsigned_integer(kind))
