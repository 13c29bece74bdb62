"""The most frequent values: the bounds of the sketch, and the step over windows."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from support.windowed_runs import Record, cut_run, random_epochs, rows_of, table

from millstream.steps.checks import check_step
from millstream.steps.frequency_sketch import SpaceSaving
from millstream.steps.top_k import TopK


def zipf(dice: random.Random, count: int) -> list[str]:
    """Values of which few are frequent, and most are rare."""
    return [str(int(200 * dice.random() ** 4)) for _ in range(count)]


@pytest.mark.parametrize("counters", [1, 5, 20, 1000])
def test_no_count_is_wrong_by_more_than_its_error_nor_by_more_than_the_bound(counters: int) -> None:
    values = zipf(random.Random(counters), 3000)
    sketch, true = SpaceSaving(counters), Counter(values)
    for value in values:
        sketch.add(value)
    counted = {each.value: each for each in sketch.counted()}
    assert len(counted) <= counters and sketch.total == 3000
    assert sum(each.count for each in counted.values()) == 3000
    for each in counted.values():
        assert each.count - each.error <= true[each.value] <= each.count
        assert each.error <= 3000 // counters
    assert all(value in counted for value, count in true.items() if count > 3000 // counters)


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_the_sketch_of_several_streams_keeps_the_bounds_of_all(parts: int) -> None:
    dice = random.Random(4)
    streams = [[*zipf(dice, 800), *(f"{part} {value}" for value in zipf(dice, 300))] for part in range(parts)]
    sketches = [SpaceSaving(25) for _ in streams]
    for sketch, values in zip(sketches, streams, strict=True):
        for value in values:
            sketch.add(value)
    union, true = SpaceSaving.union(25, sketches), sum(map(Counter, streams), Counter[str]())
    assert union.total == 1100 * parts and len(union) == 25
    kept = {each.value for each in union.counted()}
    for each in union.counted():
        assert each.count - each.error <= true[each.value] <= each.count
        assert each.error <= 1100 // 25 * parts
    assert all(count <= 1100 // 25 * parts for value, count in true.items() if value not in kept)


def test_a_copy_of_a_sketch_continues_as_the_sketch_does() -> None:
    values = zipf(random.Random(6), 400)
    sketch = SpaceSaving(7)
    for value in values[:200]:
        sketch.add(value)
    copy = SpaceSaving(7, sketch.total, sketch.counted())
    for value in values[200:]:
        sketch.add(value)
        copy.add(value)
    assert copy.counted() == sketch.counted()


@pytest.mark.parametrize("by", [None, "country"])
def test_with_enough_counters_the_top_is_that_of_exact_counts(by: str | None) -> None:
    window = {"type": "tumbling", "size": "20us", "lateness": "1h"}
    config = TopK.model_validate({"of": "predicted", "k": 2, "window": window, "by": by})
    epochs = random_epochs(random.Random(2))
    true: Counter[tuple[int, str | None, str]] = Counter()
    for record in (record for records, _ in epochs for record in records):
        if record.time is not None and record.topic is not None and (by is None or record.country is not None):
            true[record.time // 20 * 20, record.country if by else None, record.topic] += 1
    rows = rows_of(cut_run(config, epochs, random.Random(1))["top"])
    assert rows and all(row["error"] == 0 for row in rows)
    for row in rows:
        same = {key: count for key, count in true.items() if key[:2] == (row["_window"], row.get("country"))}
        assert row["count"] == same[row["_window"], row.get("country"), row["value"]]
        assert row["count"] == sorted(same.values(), reverse=True)[row["rank"] - 1]
        assert row["records"] == sum(same.values())


@pytest.mark.parametrize(
    "window",
    [
        {"type": "count", "size": 30},
        {"type": "tumbling", "size": "30us", "lateness": "5us"},
        {"type": "sliding", "size": "40us", "slide": "20us"},
    ],
)
def test_top_k_passes_the_battery_with_too_few_counters(window: dict[str, object]) -> None:
    dice = random.Random(3)
    records = [Record(0, n, n - dice.randint(0, 9), dice.choice("abcdefgh"), dice.choice("xy")) for n in range(120)]
    skip = [] if window["type"] == "sliding" else ["another_process_changes_nothing"]  # a process takes long to start
    check_step(TopK.model_validate({"of": "predicted", "k": 2, "counters": 3, "window": window}), table(records), skip)


def test_fewer_counters_than_k_and_windows_that_join_are_refused() -> None:
    with pytest.raises(ValueError, match="`counters` 5 is less than `k` 10"):
        TopK.model_validate({"of": "predicted", "counters": 5, "window": {"type": "count", "size": 9}})
    with pytest.raises(ValueError, match="take another kind of window"):
        TopK.model_validate({"of": "predicted", "window": {"type": "session", "gap": "1m"}})
