"""Lines in columns: lines of the same form share one text, and the whole numbers in them are columns of differences.

The form of a line is the line with a zero byte in place of each whole number. The result is a numpy archive (`.npz`)
with these arrays:

forms    the forms, with a newline behind each
kinds    for each line, the index of its form
firstN   the whole numbers in the first line of form N; absent if the form is a whole line
diffN_K  the differences of the K-th whole number from line to line of form N; a single one, if all are equal
"""

from __future__ import annotations

import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from millstream.arrays import Array

__all__ = ["pack_lines", "unpack_lines"]

_NUMBER = re.compile(rb"(?<![\w.+-])(?:0|-?[1-9][0-9]{0,17})(?![\w.])")
_GAP = b"\0"
_NEWLINE = b"\n"
_FREQUENT = 100
"""The number of lines of a form from which on columns are smaller than text."""
_SMALL = (np.int8, np.int16, np.int32, np.int64)


def pack_lines(lines: Sequence[bytes]) -> bytes:
    """Pack lines of JSON, which contain no control characters. Lines of a rare form are kept as they are.

    >>> lines = [b'{"epoch":%d,"cut":{"0":[%d,%d]}}' % (n, 5 * n, 5 * n + 5) for n in range(1000)]
    >>> len(pack_lines(lines)) < 2000, unpack_lines(pack_lines(lines)) == lines
    (True, True)
    """
    found = [_NUMBER.sub(_GAP, line) for line in lines]
    frequent = {form for form, count in Counter(found).items() if count >= _FREQUENT and _GAP in form}
    forms: dict[bytes, int] = {}
    kinds = [forms.setdefault(f if f in frequent else line, len(forms)) for f, line in zip(found, lines, strict=True)]
    arrays: dict[str, Any] = {
        "forms": np.frombuffer(b"".join(form + _NEWLINE for form in forms), np.uint8),
        "kinds": _smallest(np.array(kinds, np.int64)),
    }
    for form in frequent:
        kind = forms[form]
        rows = [_NUMBER.findall(line) for line, each in zip(lines, kinds, strict=True) if each == kind]
        table = np.array(rows, dtype="S20").astype(np.int64).reshape(len(rows), -1)
        arrays[f"first{kind}"] = table[0]
        for column in range(table.shape[1]):
            arrays[f"diff{kind}_{column}"] = _differences(table[:, column])
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **arrays)
    content = packed.getvalue()
    assert unpack_lines(content) == list(lines), "lines that are packed and unpacked are the same lines"
    return content


def unpack_lines(packed: bytes) -> list[bytes]:
    """The lines that `pack_lines` packed."""
    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        forms = arrays["forms"].tobytes().split(_NEWLINE)[:-1]
        kinds = arrays["kinds"].astype(np.int64)
        counts = np.bincount(kinds, minlength=len(forms)).tolist()
        texts: list[Iterator[bytes]] = []
        for kind, form in enumerate(forms):
            if f"first{kind}" not in arrays:
                texts.append(itertools.repeat(form))
                continue
            first = arrays[f"first{kind}"]
            columns = [_values(first[k], arrays[f"diff{kind}_{k}"], counts[kind]) for k in range(len(first))]
            texts.append(_filled(form, columns))
    return [next(texts[kind]) for kind in kinds.tolist()]


def _filled(form: bytes, columns: Sequence[Sequence[int]]) -> Iterator[bytes]:
    text = form.replace(b"%", b"%%").replace(_GAP, b"%d")
    return (text % row for row in zip(*columns, strict=True))


def _differences(column: Array) -> Array:
    differences = np.diff(column)
    if len(differences) and (differences == differences[0]).all():
        differences = differences[:1]
    return _smallest(differences)


def _values(first: int, differences: Array, count: int) -> list[int]:
    steps = differences.astype(np.int64)
    if len(steps) == 1:
        steps = np.repeat(steps, count - 1)
    return (np.concatenate([[first], steps]).cumsum()).tolist()  # type: ignore[no-any-return]


def _smallest(values: Array) -> Array:
    """The values in the smallest signed type that has all of them."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    kind = next(each for each in _SMALL if np.iinfo(each).min <= low and high <= np.iinfo(each).max)
    return values.astype(kind)
