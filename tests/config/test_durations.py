"""Durations and sizes: accepted values, and ambiguous values that are refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from millstream.config.durations import Duration, Size, format_duration, parse_duration, parse_size


class Holder(BaseModel):
    """A field of each kind."""

    wait: Duration = 0
    room: Size = 0


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1us", 1),
        ("100ms", 100_000),
        ("1.5s", 1_500_000),
        ("5 m", 300_000_000),
        ("1h30m", 5_400_000_000),
        ("7d", 604_800_000_000),
        ("1w", 604_800_000_000),
        ("0", 0),
        ("0s", 0),
    ],
)
def test_a_duration_is_read(text: str, micros: int) -> None:
    assert parse_duration(text) == micros
    assert parse_duration(format_duration(micros)) == micros


@pytest.mark.parametrize("text", ["", "h", "5", "-1s", "1x", "1s!", "1 h 5", "1.5us", "1e3s", "٣s"])
def test_a_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize("value", [3600, 1.5, True, None, [1]])
def test_a_number_without_unit_is_no_duration(value: Any) -> None:
    with pytest.raises(ValidationError):
        Holder(wait=value)


def test_a_written_duration_reads_back_the_same() -> None:
    held = Holder(wait="90m", room="64MB")
    assert held.wait == 5_400_000_000
    assert Holder.model_validate(held.model_dump(mode="json")) == held


@pytest.mark.parametrize(("text", "size"), [("64MB", 64_000_000), ("1 GiB", 2**30), ("1.5kb", 1500), ("7B", 7)])
def test_a_size_is_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "5 bytes", "-1MB", "1.5B", "five"])
def test_a_text_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)
