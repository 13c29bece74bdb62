"""Speed of the compiled hash of rows."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pyarrow as pa

from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_most
from benchmarks.kit.rounds import median, repeated
from millstream.digests import digest_of

__all__ = ["MEASUREMENTS"]

_ROWS, _CALLS, _LETTERS = 10_000, 100, "abcdefghijklmnop "


def _records(rows: int) -> pa.Table:
    """Records with texts of 60 to 100 bytes, in the columns that a log yields."""
    dice = random.Random(8)
    texts = ["".join(dice.choices(_LETTERS, k=dice.randint(60, 100))) for _ in range(rows)]
    return pa.table(
        {
            "_rank": pa.array([0] * rows, pa.int32()),
            "_offset": range(rows),
            "_time": range(rows),
            "_reject": pa.nulls(rows, pa.string()),
            "text": texts,
            "label": dice.choices(["sport", "music", "science"], k=rows),
        }
    )


def _measure(setting: Setting) -> Iterator[Value]:
    for name, rows, calls in (("row_hash", _ROWS, _CALLS), ("row_hash_alone", 1, _ROWS)):
        table = _records(rows)
        digest_of(table)  # loads the compiled code

        def microseconds(_: int, table: pa.Table = table, calls: int = calls) -> float:
            began = time.perf_counter()
            for _ in range(calls):
                digest_of(table)
            seconds = time.perf_counter() - began
            return 1e6 * seconds / (calls * len(table))

        yield median(name, repeated(setting, microseconds), ".3f")


MEASUREMENTS = (
    Measurement(
        (Figure("row_hash", "us", at_most(0.1)), Figure("row_hash_alone", "us", at_most(30))),
        "The digest of records in six columns, with texts of 60 to 100 bytes: the time of one among 10,000, and of one "
        "that is a table of its own.",
        _measure,
    ),
)
