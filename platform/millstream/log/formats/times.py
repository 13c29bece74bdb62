"""Converts the times in logs (ISO 8601 text, or seconds since 1970) into microseconds in UTC, a column at a time.

The result for a value never depends on the other rows.
"""

from __future__ import annotations

import re
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrays import FEW_ROWS, Array

__all__ = ["from_seconds", "from_text", "within_calendar"]

_MICROS = 1_000_000
_FIRST = -62_135_596_800 * _MICROS  # 0001-01-01
_LAST = 253_402_300_800 * _MICROS - 1  # the end of 9999-12-31
_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.int64)
_LONGEST = 35  # 2022-02-08T16:08:31.123456789+00:00

_USUAL = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?[Zz]?")
_EPOCH_DAY = datetime(1970, 1, 1).toordinal()

_ZERO, _MINUS, _PLUS, _COLON, _DOT = (ord(char) for char in "0-+:.")
_ZONES = (6, 5, 3)  # +01:00, +0100, +01


def within_calendar(micros: Array) -> Array:
    """True for microseconds since 1970 that are in the years 1 to 9999."""
    good: Array = (micros >= _FIRST) & (micros <= _LAST)
    return good


def from_seconds(seconds: Array) -> tuple[Array, Array]:
    """(microseconds, valid) of seconds since 1970; NaN and times outside the years 1 to 9999 are not valid."""
    with np.errstate(invalid="ignore"):
        micros = np.rint(seconds * _MICROS)
        good = (micros >= _FIRST) & (micros < float(_LAST + 1))  # a float cannot represent _LAST
    return np.where(good, micros, 0).astype(np.int64), good


def from_text(texts: pa.Array) -> tuple[Array, Array]:
    """(microseconds, valid) of ISO 8601 text. A time without a zone is in UTC; digits after microseconds are cut off.

    >>> micros, good = from_text(pa.array(["1970-01-01T00:00:01Z", "1970-01-01 01:00:01.5+01:00", "soon", None]))
    >>> micros.tolist(), good.tolist()
    ([1000000, 1500000, 0, 0], [True, True, False, False])
    """
    micros = np.zeros(len(texts), dtype=np.int64)
    good = np.zeros(len(texts), dtype=bool)
    if len(texts) == texts.null_count:
        return micros, good
    if len(texts) <= FEW_ROWS and (few := _parse_few(texts.to_pylist())) is not None:
        return few
    lengths = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    starts = np.frombuffer(texts.buffers()[1], dtype=np.int32)[texts.offset : texts.offset + len(texts)]
    data = np.frombuffer(texts.buffers()[2] or b"", dtype=np.uint8)
    for length in np.unique(lengths[(lengths >= 10) & (lengths <= _LONGEST)]):
        rows = np.flatnonzero(lengths == length)
        indexes = starts[rows].astype(np.int64)[:, None] + np.arange(length)
        _parse_one_length(data[indexes], rows, micros, good)
    return micros, good


def _parse_few(texts: list[str | None]) -> tuple[Array, Array] | None:
    """The same for few texts, if each is null or in the usual form in UTC; otherwise None."""
    values = [0 if text is None else _parse_usual(text) for text in texts]
    if None in values:
        return None
    return np.array(values, np.int64), np.array([text is not None for text in texts])


def _parse_usual(text: str) -> int | None:
    found = _USUAL.fullmatch(text)
    if found is None:
        return None
    *whole, fraction = found.groups()
    year, month, day, hour, minute, second = map(int, whole)
    try:
        time = datetime(year, month, day, hour, minute, second)
    except ValueError:
        return None
    seconds = (time.toordinal() - _EPOCH_DAY) * 86_400 + time.hour * 3600 + time.minute * 60 + time.second
    return seconds * _MICROS + int((fraction or "")[:6].ljust(6, "0"))


def _parse_one_length(chars: Array, rows: Array, micros: Array, good: Array) -> None:
    """Parse times of the same length, grouped by the form of their zone."""
    length = chars.shape[1]
    last = chars[:, -1]
    if length == 10:
        _parse(chars, 0, rows, micros, good)
        return
    zulu = (last == ord("Z")) | (last == ord("z"))
    if length > 16:
        _parse(chars[zulu, :-1], 0, rows[zulu], micros, good)
    left = ~zulu
    for size in _ZONES:
        if length - size >= 16:
            signed = left & np.isin(chars[:, -size], (_PLUS, _MINUS))
            if size == 6:
                signed &= chars[:, -3] == _COLON
            _parse(chars[signed], size, rows[signed], micros, good)
            left &= ~signed
    _parse(chars[left], 0, rows[left], micros, good)


def _number(chars: Array, start: int, stop: int, ok: Array) -> Array:
    """The number in these columns; in rows where a character is not a digit, `ok` becomes false."""
    value = np.zeros(len(chars), dtype=np.int64)
    for index in range(start, stop):
        digit = chars[:, index].astype(np.int64) - _ZERO
        ok &= (digit >= 0) & (digit <= 9)
        value = value * 10 + digit
    return value


def _parse(chars: Array, zone: int, rows: Array, micros: Array, good: Array) -> None:
    """Parse times whose last `zone` columns are an offset from UTC."""
    if not len(rows):
        return
    length = chars.shape[1] - zone
    if length not in (10, 16, 19) and not 21 <= length <= 29:
        return
    ok = (chars[:, 4] == _MINUS) & (chars[:, 7] == _MINUS)
    year, month, day = (_number(chars, *span, ok) for span in ((0, 4), (5, 7), (8, 10)))
    seconds = _days(year, month, day, ok) * 86_400
    fraction: Array | int = 0
    if length > 10:
        ok &= np.isin(chars[:, 10], (ord("T"), ord("t"), ord(" "))) & (chars[:, 13] == _COLON)
        hour, minute = _number(chars, 11, 13, ok), _number(chars, 14, 16, ok)
        ok &= (hour < 24) & (minute < 60)
        seconds += hour * 3600 + minute * 60
    if length > 16:
        second = _number(chars, 17, 19, ok)
        ok &= (chars[:, 16] == _COLON) & (second < 60)
        seconds += second
    if length > 19:
        ok &= chars[:, 19] == _DOT
        fraction = _number(chars, 20, min(length, 26), ok) * 10 ** max(0, 26 - length)
        _number(chars, 26, length, ok)
    if zone:
        hours = _number(chars, length + 1, length + 3, ok)
        minutes = _number(chars, chars.shape[1] - 2, chars.shape[1], ok) if zone > 3 else np.int64(0)
        ok &= (hours < 24) & (minutes < 60)
        seconds -= np.where(chars[:, length] == _MINUS, -1, 1) * (hours * 3600 + minutes * 60)
    total = seconds * _MICROS + fraction
    ok &= within_calendar(total)
    micros[rows[ok]] = total[ok]
    good[rows[ok]] = True


def _days(year: Array, month: Array, day: Array, ok: Array) -> Array:
    """Days since 1970-01-01 in the Gregorian calendar; for a day that does not exist, `ok` becomes false."""
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    ok &= (year >= 1) & (month >= 1) & (month <= 12)
    longest = _DAYS[np.clip(month, 0, 12)] + (leap & (month == 2))
    ok &= (day >= 1) & (day <= longest)
    from_march = np.where(month > 2, month - 3, month + 9)
    of_year = np.where(month > 2, year, year - 1)
    in_year = (153 * from_march + 2) // 5 + day - 1
    days: Array = 365 * of_year + of_year // 4 - of_year // 100 + of_year // 400 + in_year - 719_468
    return days
