"""Rows as JSON lines: the lines have every value of the rows, whatever its type."""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from millstream.log.formats.rows import json_lines, table_of
from millstream.timestamps import format_time

EVERYTHING = pa.schema(
    [
        ("_source", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("text", pa.string()),
        ("probability", pa.float64()),
        ("share", pa.float32()),
        ("right", pa.bool_()),
        ("_window", pa.timestamp("us", "UTC")),
        ("words", pa.list_(pa.string())),
    ]
)


def rows(count: int, seed: int = 1) -> pa.Table:
    chance = random.Random(seed)
    chars = ["a", "é", "😀", '"', "\\", "\n", "\r", "\t", "\b", "\f", "\0", "\x1f", "\x7f", "/", "\u2028", "u0041"]
    floats = [0.0, 1.0, -0.0, 0.1, 1e16, 1e-7, 1.5e300, 123456789.123, 5e-324, None]
    times = [0, 1, -1, 1_644_336_511_000_000, 1_644_336_511_000_010, -62_135_596_800_000_000, 253_402_300_799_999_999]
    return pa.table(
        {
            "_source": ["news"] * count,
            "_partition": list(range(count)),
            "_offset": [2**62 + index for index in range(count)],
            "text": [
                None if chance.random() < 0.1 else "".join(chance.choices(chars, k=chance.randrange(9)))
                for _ in range(count)
            ],
            "probability": [chance.choice(floats) for _ in range(count)],
            "share": [chance.choice([0.25, None, 3.0]) for _ in range(count)],
            "right": [chance.choice([True, False, None]) for _ in range(count)],
            "_window": pa.array([chance.choice([*times, None]) for _ in range(count)], pa.timestamp("us", "UTC")),
            "words": [chance.choice([["a", "b"], [], None]) for _ in range(count)],
        },
        schema=EVERYTHING,
    )


@pytest.mark.parametrize("count", [1, 49, 700])
def test_each_line_has_the_values_of_its_row(count: int) -> None:
    table = rows(count)
    printed = json_lines(table).decode().split("\n")
    assert printed.pop() == ""
    for line, row in zip(printed, table.to_pylist(), strict=True):
        time = table["_window"].cast(pa.int64())[row["_partition"]].as_py()
        row["_window"] = None if time is None else format_time(time)
        assert json.loads(line) == row
        assert list(json.loads(line)) == EVERYTHING.names


def test_reading_the_lines_gives_the_rows_back() -> None:
    table = rows(700, seed=5)
    assert table_of(json_lines(table), EVERYTHING).equals(table)
    assert table_of(b"", EVERYTHING).num_rows == 0


def test_the_lines_do_not_depend_on_the_chunks_of_the_rows() -> None:
    table = rows(200)
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1, 120), table.slice(121, 0), table.slice(121)])
    assert json_lines(chunked) == json_lines(table)
    assert json_lines(table.slice(60, 60)) + json_lines(table.slice(120)) == json_lines(table.slice(60))


def test_a_row_has_the_same_line_alone_and_among_many_rows() -> None:
    table = rows(700)
    assert b"".join(json_lines(table.slice(row, 1)) for row in range(700)) == json_lines(table)
    whole = pa.table({"x": [number / 7 * 10.0**power for number in range(-9, 10) for power in range(-12, 18)]})
    assert b"".join(json_lines(whole.slice(row, 1)) for row in range(whole.num_rows)) == json_lines(whole)


def test_nan_and_infinity_are_null() -> None:
    assert json_lines(pa.table({"x": [math.nan, math.inf, 2.0]})) == b'{"x": null}\n{"x": null}\n{"x": 2.0}\n'


def test_times_are_in_utc_whatever_the_unit_and_zone_of_their_column() -> None:
    noon = datetime(2022, 2, 8, 12, tzinfo=UTC)
    table = pa.table(
        {"ns": pa.array([noon], pa.timestamp("ns", "Europe/Berlin")), "plain": pa.array([noon], pa.timestamp("s"))}
    )
    assert json_lines(table) == b'{"ns": "2022-02-08T12:00:00Z", "plain": "2022-02-08T12:00:00Z"}\n'


def test_no_rows_give_no_lines() -> None:
    assert json_lines(rows(3).slice(0, 0)) == b""
