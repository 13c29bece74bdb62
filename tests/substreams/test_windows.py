"""Windows: where records fall, and when windows close."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from pydantic import TypeAdapter, ValidationError

from millstream.substreams import Before
from millstream.substreams.windows import CountWindow, TumblingWindow, WindowConfig, Windows

LEAST, GREATEST = -(2**63), 2**63 - 1


def timed(*times: int | None) -> pa.Table:
    return pa.table({"_time": pa.array(times, pa.int64())})


def tumbling(size: str, lateness: str = "0s") -> Windows:
    return TumblingWindow.model_validate({"size": size, "lateness": lateness}).open()


def config(value: dict[str, Any]) -> Any:
    return TypeAdapter(WindowConfig).validate_python(value)


def test_a_config_picks_the_window_by_its_type() -> None:
    assert config({"type": "count", "size": 3}) == CountWindow(size=3)
    hour = config({"type": "tumbling", "size": "1h", "lateness": "10m"})
    assert (hour.size, hour.lateness) == (3_600_000_000, 600_000_000)
    assert config({"type": "tumbling", "size": "1h"}).lateness == 0


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
        config(value)
    [error] = wrong.value.errors()
    assert error["loc"] == where
    assert hint in error["msg"]


def test_a_time_on_an_edge_belongs_to_the_window_that_starts_there_also_before_1970() -> None:
    windows = tumbling("10us").assign(timed(0, 9, 10, -1, -10, -11)).windows
    assert windows.tolist() == [0, 0, 1, -1, -1, -2]


def test_records_without_a_time_fall_into_no_window_over_time() -> None:
    assigned = tumbling("10us").assign(timed(None, 25, None, 5))
    assert assigned.untimed.tolist() == [0, 2]
    assert assigned.rows.tolist() == [1, 3]
    assert assigned.windows.tolist() == [2, 0]


@pytest.mark.parametrize("size", ["1us", "7us", "1h", "106751991d"])
def test_every_int64_is_a_time_of_some_window(size: str) -> None:
    windows = tumbling(size)
    assigned = windows.assign(timed(LEAST, GREATEST))
    assert not assigned.late.any()
    starts = windows.labels(assigned.windows).cast(pa.int64()).to_pylist()
    micros = TumblingWindow.model_validate({"size": size}).size
    assert starts == [max(LEAST, LEAST // micros * micros), GREATEST // micros * micros]
    windows.ended(Before(None))
    assert windows.assign(timed(LEAST, GREATEST)).late.all()


def test_a_window_closes_exactly_when_event_time_has_passed_its_end_by_the_lateness() -> None:
    windows = tumbling("10us", "5us")
    for time, closed in [(14, False), (15, True), (24, True)]:
        windows.ended(Before(time))
        assert windows.assign(timed(9)).late.tolist() == [closed]
        assert windows.assign(timed(10)).late.tolist() == [False]
    windows.ended(Before(25))
    assert windows.assign(timed(10)).late.tolist() == [True]


def test_closed_windows_never_open_again() -> None:
    windows = tumbling("10us")
    windows.ended(Before(30))
    windows.ended(Before(-1000))
    assert windows.first_open == 3


def test_count_windows_go_on_across_batches_and_close_when_full() -> None:
    windows = CountWindow(size=3).open()
    seen, closed = [], []
    for size in (2, 0, 5, 1):
        seen += windows.assign(timed(*[None] * size)).windows.tolist()
        closed.append(windows.first_open)
    assert seen == [0, 0, 0, 1, 1, 1, 2, 2]
    assert closed == [0, 0, 2, 2]
    windows.ended(Before(None))
    assert windows.first_open == 2


@pytest.mark.parametrize("made", [CountWindow(size=4), TumblingWindow(size="3us", lateness="4us")])
def test_restored_windows_go_on_as_if_nothing_had_happened(made: CountWindow | TumblingWindow) -> None:
    chance = random.Random(5)
    whole, restored = made.open(), made.open()
    for _ in range(200):
        batch = timed(*(chance.randrange(-40, 40) for _ in range(chance.randrange(6))))
        expected, found = whole.assign(batch), restored.assign(batch)
        assert found.windows.tolist() == expected.windows.tolist()
        assert found.late.tolist() == expected.late.tolist()
        before = Before(chance.randrange(-40, 40))
        whole.ended(before)
        restored.ended(before)
        state, restored = restored.save(), made.open()
        restored.restore(state)
        assert restored.first_open == whole.first_open
    restored.restore({})
    assert restored.save() == made.open().save()
