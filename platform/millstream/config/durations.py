"""Durations and sizes with units: `100ms`, `1h30m`, `64MB`.

A duration is a whole number of microseconds, like every time in Millstream; a size is a whole number of bytes.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

__all__ = ["DURATION", "Duration", "Size", "format_duration", "parse_duration", "parse_size"]

_MICROS = {
    "w": 7 * 86_400_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}
_BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BYTES |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}

_EXAMPLES = "10us, 100ms, 10s, 5m, 1h, 7d, 2w"
_PART = r"([0-9]+(?:\.[0-9]+)?) *(ms|us|[wdhms])"
DURATION = r"^(?:[0-9]+(?:\.[0-9]+)? *(?:ms|us|[wdhms]) *)+$"
_SIZE = r"([0-9]+(?:\.[0-9]+)?) *([KMGT]?i?B)"


def parse_duration(text: str) -> int:
    """Return the microseconds of a duration.

    >>> parse_duration("100ms"), parse_duration("1h30m"), parse_duration("0")
    (100000, 5400000000, 0)
    >>> parse_duration("5")
    Traceback (most recent call last):
    ...
    ValueError: a duration needs a unit: 10us, 100ms, 10s, 5m, 1h, 7d, 2w
    """
    text = text.strip()
    if text == "0":
        return 0
    if not re.fullmatch(DURATION, text):
        unit = "a duration needs a unit" if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else "not a duration"
        message = f"{unit}: {_EXAMPLES}"
        raise ValueError(message)
    total = sum(Decimal(number) * _MICROS[unit] for number, unit in re.findall(_PART, text))
    if total != int(total):
        message = "a duration has to be a whole number of microseconds"
        raise ValueError(message)
    return int(total)


def format_duration(micros: int) -> str:
    """Return a duration as text for `parse_duration`, in the largest unit up to days that gives a whole number.

    >>> format_duration(5_400_000_000), format_duration(100_000), format_duration(0)
    ('90m', '100ms', '0s')
    """
    if micros == 0:
        return "0s"
    unit = next(unit for unit, size in _MICROS.items() if unit != "w" and micros % size == 0)
    return f"{micros // _MICROS[unit]}{unit}"


def parse_size(text: str) -> int:
    """Return the bytes of a size; KB are thousands, KiB are 1024.

    >>> parse_size("64MB"), parse_size("1 GiB")
    (64000000, 1073741824)
    """
    found = re.fullmatch(_SIZE, text.strip(), re.IGNORECASE)
    if found is None:
        message = "not a size: 64MB, 1GiB"
        raise ValueError(message)
    total = Decimal(found[1]) * _BYTES[found[2].upper()]
    if total != int(total):
        message = "a size has to be a whole number of bytes"
        raise ValueError(message)
    return int(total)


def _duration(value: object) -> int:
    if isinstance(value, str):
        return parse_duration(value)
    if value == 0 and not isinstance(value, bool):
        return 0
    return parse_duration(str(value))


def _size(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else parse_size(str(value))


Duration = Annotated[
    int,
    BeforeValidator(_duration, json_schema_input_type=str),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": DURATION, "examples": ["100ms", "1h"]}, {"const": 0}]}),
]
"""A field that holds microseconds. A config writes a unit, because a bare number would be ambiguous."""

Size = Annotated[
    int,
    BeforeValidator(_size, json_schema_input_type=str | int),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": f"^{_SIZE}$", "examples": ["64MB", "1GiB"]}, {"type": "integer"}]}
    ),
]
"""A field that holds bytes."""
