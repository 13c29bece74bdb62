"""Times in logs, compared with the ISO 8601 parser of Python."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from millstream.log.formats.times import from_seconds, from_text

START = datetime(1970, 1, 1, tzinfo=UTC)


def micros_of(text: str) -> int | None:
    micros, good = from_text(pa.array([text]))
    return int(micros[0]) if good[0] else None


def test_each_usual_form_gives_the_same_time_as_in_python() -> None:
    chance = random.Random(3)
    zones = ["", "Z", "+00:00", "-05:30", "+1130", "+02"]
    clocks = ["", "T16:08", " 16:08:31", "T23:59:59.5", "t00:00:00.123456", "T12:00:00.123"]
    texts = []
    for zone, clock in itertools.product(zones, clocks):
        for _ in range(20):
            day = datetime(2, 1, 1) + timedelta(days=chance.randrange(3_640_000))
            texts.append(f"{day:%Y-%m-%d}".rjust(10, "0") + clock + (zone if clock else ""))
    chance.shuffle(texts)
    micros, good = from_text(pa.array(texts))
    assert good.all()
    for text, value in zip(texts, micros, strict=True):
        read = datetime.fromisoformat(text)
        read = read if read.tzinfo else read.replace(tzinfo=UTC)
        assert (read - START) // timedelta(microseconds=1) == value == micros_of(text), text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "2022",
        "2022-13-01",
        "2022-00-01",
        "2022-02-29",
        "2022-04-31",
        "0000-01-01",
        "2022-02-08T24:00",
        "2022-02-08T12:60:00",
        "2022-02-08T23:59:60Z",
        "2022-02-08T12",
        "2022-02-08T12:00:00.",
        "2022-02-08T12:00:00.Z",
        "2022-02-08T12:00:00+1",
        "2022-02-08T12:00:00+25:00",
        "2022-02-08T12:00:00 +01:00",
        "2022-02-08Z",
        "2022/02/08",
        "20220208T120000",
        " 2022-02-08",
        "2022-02-08T12:00:00.1234567890Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "2022-02-0\N{FULLWIDTH DIGIT EIGHT}",
        "-022-02-08",
    ],
)
def test_a_text_that_is_not_a_time_is_not_valid(text: str) -> None:
    assert micros_of(text) is None


def test_only_leap_years_have_a_leap_day() -> None:
    _, good = from_text(pa.array([f"{year:04d}-02-29" for year in range(10_000)]))
    assert np.flatnonzero(good).tolist() == [
        year for year in range(1, 10_000) if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    ]


def test_digits_after_microseconds_are_cut_off() -> None:
    assert micros_of("1970-01-01T00:00:00.123456999Z") == 123456
    assert micros_of("1970-01-01T00:00:00.1Z") == 100000


def test_a_slice_of_a_column_gives_only_its_own_times() -> None:
    texts = pa.array(["x", "1970-01-01", None, "1970-01-02"]).slice(1)
    assert from_text(texts)[0].tolist() == [0, 0, 86_400_000_000]
    assert from_text(texts)[1].tolist() == [True, False, True]


def test_seconds_are_rounded_to_microseconds_and_bounded_by_the_calendar() -> None:
    micros, good = from_seconds(np.array([0.1, -1.5, 253402300799.0, 253402300800.0, np.nan, np.inf]))
    assert good.tolist() == [True, True, True, False, False, False]
    assert micros.tolist()[:3] == [100_000, -1_500_000, 253_402_300_799_000_000]
