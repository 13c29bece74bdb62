"""Windows: the panes of records, and the moments when windows close."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import TypeAdapter, ValidationError

from millstream.substreams import Watermark
from millstream.substreams.windows import (
    Assignment,
    CountWindow,
    OverlappingWindows,
    PredicateWindow,
    SlidingWindow,
    TumblingWindow,
    WindowConfig,
    Windows,
)

LEAST, GREATEST = -(2**63), 2**63 - 1
CENTURY = "36525d"


def records_at(*times: int | None) -> pa.Table:
    return pa.table({"_time": pa.array(times, pa.int64())})


def open_windows(**options: Any) -> Windows:
    windows: Windows = read_config(options).open()
    return windows


def open_tumbling(size: str, lateness: str = "0s") -> Windows:
    return open_windows(type="tumbling", size=size, lateness=lateness)


def read_config(value: dict[str, Any]) -> Any:
    return TypeAdapter(WindowConfig).validate_python(value)


def assign(windows: Windows, *times: int | None, memory: Any = None) -> Assignment:
    """Assign records of one key."""
    memories = [windows.memory() if memory is None else memory]
    return windows.assign(records_at(*times), np.zeros(len(times), np.int64), memories)


def panes_of(assigned: Assignment) -> list[int]:
    return [assigned.cells[cell][1] for cell in assigned.cell_of.tolist()]


def test_a_config_selects_the_kind_of_window_by_its_type() -> None:
    assert read_config({"type": "count", "size": 3}) == CountWindow(size=3)
    hour = read_config({"type": "tumbling", "size": "1h", "lateness": "10m"})
    assert (hour.size, hour.lateness) == (3_600_000_000, 600_000_000)
    assert read_config({"type": "sliding", "size": "1h", "slide": "1m"}) == SlidingWindow(size="1h", slide="1m")
    assert read_config({"type": "session", "gap": "5m"}).lateness == 0
    assert isinstance(read_config({"type": "predicate", "ends": "operator:truth"}), PredicateWindow)


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
        ({"type": "sliding", "size": "1m", "slide": "1h"}, ("sliding",), "`slide` 1h is longer than `size`"),
        ({"type": "sliding", "size": "1h", "slide": "1us"}, ("sliding",), "would belong to 3,600,000,000 windows"),
        ({"type": "sliding", "size": CENTURY, "slide": "1m"}, ("sliding",), "make `slide` longer"),
        ({"type": "session", "gap": "0s"}, ("session", "gap"), "greater than 0"),
        ({"type": "predicate"}, ("predicate",), "give `begins`, `ends`, or both"),
        ({"type": "predicate", "ends": "is_last"}, ("predicate", "ends"), "pattern"),
        ({"type": "hopping", "size": "1h"}, (), "'count', 'predicate', 'session', 'sliding', 'tumbling'"),
    ],
)
def test_a_wrong_window_is_refused_at_its_own_key(value: dict[str, Any], where: tuple[str, ...], hint: str) -> None:
    with pytest.raises(ValidationError) as wrong:
        read_config(value)
    [error] = wrong.value.errors()
    assert error["loc"] == where
    assert hint in error["msg"]


def test_a_time_on_a_boundary_belongs_to_the_window_that_starts_there_also_before_1970() -> None:
    assert panes_of(assign(open_tumbling("10us"), 0, 9, 10, -1, -10, -11)) == [0, 0, 1, -1, -1, -2]


def test_records_without_a_time_belong_to_no_window_over_time() -> None:
    assigned = assign(open_tumbling("10us"), None, 25, None, 5)
    assert assigned.untimed.tolist() == [0, 2]
    assert assigned.rows.tolist() == [1, 3]
    assert panes_of(assigned) == [2, 0]


@pytest.mark.parametrize("size", ["1us", "7us", "1h", CENTURY, "106751991d"])
def test_every_int64_belongs_to_some_window(size: str) -> None:
    windows = open_tumbling(size)
    assigned = assign(windows, LEAST, GREATEST)
    assert not len(assigned.late)
    micros = TumblingWindow.model_validate({"size": size}).size
    starts = windows.labels(panes_of(assigned)).cast(pa.int64()).to_pylist()
    assert starts == [max(LEAST, LEAST // micros * micros), GREATEST // micros * micros]
    windows.ended(Watermark(None))
    assert assign(windows, LEAST, GREATEST).late.tolist() == [0, 1]


@pytest.mark.parametrize(
    "options",
    [
        {"type": "sliding", "size": CENTURY, "slide": "3653d"},
        {"type": "session", "gap": CENTURY},
        {"type": "session", "gap": "1us"},
        {"type": "sliding", "size": "3us", "slide": "1us", "lateness": CENTURY},
    ],
)
def test_windows_of_a_microsecond_and_of_a_century_hold_the_least_and_the_greatest_time(options: Any) -> None:
    windows = open_windows(**options)
    memory = windows.memory()
    panes = set(panes_of(assign(windows, LEAST, 0, GREATEST, memory=memory)))
    assert len(panes) == 3
    assert windows.due(memory, panes) <= GREATEST
    windows.ended(Watermark(GREATEST))
    windows.close(0, memory, panes)
    windows.ended(Watermark(None))
    closed = windows.close(0, memory, panes)
    assert set(closed.panes) <= panes and closed.windows
    assert windows.labels(window.number for window in closed.windows).null_count == 0


def test_a_window_closes_exactly_when_the_watermark_has_passed_its_end_by_the_lateness() -> None:
    windows = open_tumbling("10us", "5us")
    for time, closed in [(14, []), (15, [0]), (24, [0])]:
        windows.ended(Watermark(time))
        assert assign(windows, 9).late.tolist() == closed
        assert assign(windows, 10).late.tolist() == []
    windows.ended(Watermark(25))
    assert assign(windows, 10).late.tolist() == [0]


def test_closed_windows_never_open_again() -> None:
    windows = open_tumbling("10us")
    windows.ended(Watermark(30))
    windows.ended(Watermark(-1000))
    assert assign(windows, 29, 30).late.tolist() == [0]


def test_count_windows_continue_across_batches_and_close_when_full() -> None:
    windows = CountWindow(size=3).open()
    memory = windows.memory()
    panes: set[int] = set()
    seen, closed = [], []
    for size in (2, 0, 5, 1):
        found_now = panes_of(assign(windows, *[None] * size, memory=memory))
        seen += found_now
        panes |= set(found_now)
        found = windows.close(0, memory, panes)
        panes -= set(found.panes)
        closed.append([window.number for window in found.windows])
    assert seen == [0, 0, 0, 1, 1, 1, 2, 2]
    assert closed == [[], [], [0, 1], []]
    windows.ended(Watermark(None))
    assert [window.number for window in windows.close(0, memory, panes).windows] == [2]
    assert panes_of(assign(windows, None, memory=memory)) == [3]


def test_the_panes_of_sliding_windows_are_as_long_as_their_greatest_common_divisor() -> None:
    windows = open_windows(type="sliding", size="10us", slide="4us")
    assert panes_of(assign(windows, 0, 1, 2, 9)) == [0, 0, 1, 4]
    found = windows.open(windows.memory(), {4})
    assert [(window.number, window.first, window.last) for window in found] == [(0, 0, 4), (1, 2, 6), (2, 4, 8)]


def test_a_sliding_window_closes_once_and_its_panes_go_with_the_last_window() -> None:
    windows = open_windows(type="sliding", size="10us", slide="5us")
    memory = windows.memory()
    panes = set(panes_of(assign(windows, 7, memory=memory)))
    windows.ended(Watermark(12))
    first = windows.close(0, memory, panes)
    assert [window.number for window in first.windows] == [0] and not first.panes
    assert not windows.close(0, memory, panes).windows
    assert not len(assign(windows, 7, memory=memory).late)
    windows.ended(Watermark(15))
    second = windows.close(0, memory, panes)
    assert [window.number for window in second.windows] == [1] and second.panes == [1]
    assert assign(windows, 7, memory=memory).late.tolist() == [0]


def test_a_record_between_two_sessions_joins_them_under_the_earlier_number() -> None:
    windows = open_windows(type="session", gap="10us")
    memory = windows.memory()
    assert panes_of(assign(windows, 0, 15, 25, memory=memory)) == [0, 15, 25]
    joined = assign(windows, 8, memory=memory)
    assert panes_of(joined) == [0]
    assert [(move.pane, move.into) for move in joined.moves] == [(15, 0)]
    windows.ended(Watermark(24))
    assert not windows.close(0, memory, {0, 25}).windows
    windows.ended(Watermark(25))
    assert [(each.number, each.place) for each in windows.close(0, memory, {0, 25}).windows] == [(0, 25)]


def test_silence_of_exactly_the_gap_ends_a_session() -> None:
    windows = open_windows(type="session", gap="10us")
    assert len(set(panes_of(assign(windows, 0, 9)))) == 1
    assert len(set(panes_of(assign(windows, 0, 10)))) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"type": "count", "size": 4},
        {"type": "tumbling", "size": "3us", "lateness": "4us"},
        {"type": "sliding", "size": "9us", "slide": "6us", "lateness": "4us"},
        {"type": "session", "gap": "3us", "lateness": "4us"},
    ],
)
def test_restored_windows_give_the_same_results(options: dict[str, Any]) -> None:
    dice = random.Random(5)
    unrestored, restored = open_windows(**options), open_windows(**options)
    memories, panes = [unrestored.memory(), restored.memory()], [set[int](), set[int]()]
    for _ in range(200):
        times = [dice.randrange(-40, 40) for _ in range(dice.randrange(6))]
        watermark = Watermark(dice.randrange(-40, 40))
        found = []
        for windows, memory, open_panes in zip((unrestored, restored), memories, panes, strict=True):
            assigned = assign(windows, *times, memory=memory)
            windows.ended(watermark)
            open_panes -= {move.pane for move in assigned.moves}
            open_panes |= set(panes_of(assigned))
            closed = windows.close(0, memory, open_panes)
            open_panes -= set(closed.panes)
            found.append((panes_of(assigned), assigned.late.tolist(), closed))
        assert found[0] == found[1]
        state, memory = dict(restored.save()), restored.save_memory(memories[1])
        restored = open_windows(**options)
        restored.restore(state)
        memories[1] = restored.restore_memory({**state, **memory})
    restored.restore({})
    assert restored.save() == open_windows(**options).save()


def test_the_windows_that_some_panes_hold_open_are_counted_as_they_will_close() -> None:
    dice = random.Random(5)
    most = 0
    for _ in range(300):
        size = dice.randint(1, 30)
        windows = open_windows(type="sliding", size=f"{size}us", slide=f"{dice.randint(1, size)}us")
        assert isinstance(windows, OverlappingWindows)
        memory = windows.memory()
        assigned = assign(windows, *(dice.choice((0, 200)) + dice.randint(0, 40) for _ in range(dice.randint(1, 12))))
        for time in (10, dice.randint(0, 60), None):
            panes = {pane for _, pane in assigned.cells}
            panes -= set(windows.close(0, memory, panes).panes)
            opened = windows.open(memory, panes)
            assert windows.held(memory, panes) == max(len(opened), len(panes))
            most = max(most, len(opened) - len(panes))
            windows.ended(Watermark(time))
    assert most > 20
