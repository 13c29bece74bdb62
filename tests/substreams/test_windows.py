"""Windows: the windows of records, and the moments when windows close."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from pydantic import TypeAdapter, ValidationError

from millstream.substreams import Watermark
from millstream.substreams.windows import CountWindow, TumblingWindow, WindowConfig, Windows

LEAST, GREATEST = -(2**63), 2**63 - 1


def records_at(*times: int | None) -> pa.Table:
    return pa.table({"_time": pa.array(times, pa.int64())})


def open_tumbling(size: str, lateness: str = "0s") -> Windows:
    return TumblingWindow.model_validate({"size": size, "lateness": lateness}).open()


def read_config(value: dict[str, Any]) -> Any:
    return TypeAdapter(WindowConfig).validate_python(value)


def test_a_config_selects_the_kind_of_window_by_its_type() -> None:
    assert read_config({"type": "count", "size": 3}) == CountWindow(size=3)
    hour = read_config({"type": "tumbling", "size": "1h", "lateness": "10m"})
    assert (hour.size, hour.lateness) == (3_600_000_000, 600_000_000)
    assert read_config({"type": "tumbling", "size": "1h"}).lateness == 0


@pytest.mark.parametrize(
    ("value", "where", "hint"),
    [
        ({"type": "tumbling", "size": 5}, ("tumbling", "size"), "100ms"),
        ({"type": "tumbling", "size": "0s"}, ("tumbling", "size"), "greater than 0"),
        ({"type": "tumbling", "size": "-1s"}, ("tumbling", "size"), "duration"),
        ({"type": "tumbling", "size": "99999999w"}, ("tumbling", "size"), "less than or equal"),
        ({"type": "tumbling", "size": "1h", "late": "1s"}, ("tumbling", "late"), "not permitted"),
        ({"type": "tumbling"}, ("tumbling", "size"), "required"),
        ({"type": "count", "size": 0}, ("count", "size"), "greater than or equal to 1"),
        ({"type": "sliding", "size": "1h"}, (), "'count', 'tumbling'"),
    ],
)
def test_a_wrong_window_is_refused_at_its_own_key(value: dict[str, Any], where: tuple[str, ...], hint: str) -> None:
    with pytest.raises(ValidationError) as wrong:
        read_config(value)
    [error] = wrong.value.errors()
    assert error["loc"] == where
    assert hint in error["msg"]


def test_a_time_on_a_boundary_belongs_to_the_window_that_starts_there_also_before_1970() -> None:
    windows = open_tumbling("10us").assign(records_at(0, 9, 10, -1, -10, -11)).windows
    assert windows.tolist() == [0, 0, 1, -1, -1, -2]


def test_records_without_a_time_belong_to_no_window_over_time() -> None:
    assigned = open_tumbling("10us").assign(records_at(None, 25, None, 5))
    assert assigned.untimed.tolist() == [0, 2]
    assert assigned.rows.tolist() == [1, 3]
    assert assigned.windows.tolist() == [2, 0]


@pytest.mark.parametrize("size", ["1us", "7us", "1h", "106751991d"])
def test_every_int64_belongs_to_some_window(size: str) -> None:
    windows = open_tumbling(size)
    assigned = windows.assign(records_at(LEAST, GREATEST))
    assert not assigned.late.any()
    starts = windows.labels(assigned.windows).cast(pa.int64()).to_pylist()
    micros = TumblingWindow.model_validate({"size": size}).size
    assert starts == [max(LEAST, LEAST // micros * micros), GREATEST // micros * micros]
    windows.ended(Watermark(None))
    assert windows.assign(records_at(LEAST, GREATEST)).late.all()


def test_a_window_closes_exactly_when_the_watermark_has_passed_its_end_by_the_lateness() -> None:
    windows = open_tumbling("10us", "5us")
    for time, closed in [(14, False), (15, True), (24, True)]:
        windows.ended(Watermark(time))
        assert windows.assign(records_at(9)).late.tolist() == [closed]
        assert windows.assign(records_at(10)).late.tolist() == [False]
    windows.ended(Watermark(25))
    assert windows.assign(records_at(10)).late.tolist() == [True]


def test_closed_windows_never_open_again() -> None:
    windows = open_tumbling("10us")
    windows.ended(Watermark(30))
    windows.ended(Watermark(-1000))
    assert windows.first_open == 3


def test_count_windows_continue_across_batches_and_close_when_full() -> None:
    windows = CountWindow(size=3).open()
    seen, closed = [], []
    for size in (2, 0, 5, 1):
        seen += windows.assign(records_at(*[None] * size)).windows.tolist()
        closed.append(windows.first_open)
    assert seen == [0, 0, 0, 1, 1, 1, 2, 2]
    assert closed == [0, 0, 2, 2]
    windows.ended(Watermark(None))
    assert windows.first_open == 2


@pytest.mark.parametrize("config", [CountWindow(size=4), TumblingWindow(size="3us", lateness="4us")])
def test_restored_windows_give_the_same_results(config: CountWindow | TumblingWindow) -> None:
    dice = random.Random(5)
    unrestored, restored = config.open(), config.open()
    for _ in range(200):
        batch = records_at(*(dice.randrange(-40, 40) for _ in range(dice.randrange(6))))
        expected, found = unrestored.assign(batch), restored.assign(batch)
        assert found.windows.tolist() == expected.windows.tolist()
        assert found.late.tolist() == expected.late.tolist()
        watermark = Watermark(dice.randrange(-40, 40))
        unrestored.ended(watermark)
        restored.ended(watermark)
        state, restored = restored.save(), config.open()
        restored.restore(state)
        assert restored.first_open == unrestored.first_open
    restored.restore({})
    assert restored.save() == config.open().save()
