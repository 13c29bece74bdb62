"""Every kind of window under popularity, by key and for all records, compared with plain references."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.windowed_runs import SCHEMA, Record, cut_run, random_epochs, rows_of, table

from millstream.errors import ConfigError, StepFailed
from millstream.steps.checks import check_step
from millstream.steps.contracts import Scope
from millstream.steps.popularity import Popularity
from millstream.steps.rising_words import Trending
from millstream.steps.top_k import TopK
from millstream.substreams import Watermark

SLIDING: dict[str, Any] = {"type": "sliding", "size": "12us", "slide": "8us", "lateness": "3us"}
SESSION: dict[str, Any] = {"type": "session", "gap": "6us", "lateness": "4us"}
PREDICATE: dict[str, Any] = {
    "type": "predicate",
    "begins": "window_functions:begins",
    "ends": "window_functions:ends",
    "lateness": "9us",
}
KINDS: list[dict[str, Any]] = [
    {"type": "count", "size": 3},
    {"type": "tumbling", "size": "10us", "lateness": "3us"},
    SLIDING,
    SESSION,
    PREDICATE,
]
FUNCTIONS = """
def begins(record):
    return record["predicted"] == "a"

def ends(record):
    return record["predicted"] == "c"

def number(record):
    return 1

def fails(record):
    raise ValueError("no weather")
"""


@pytest.fixture(autouse=True)
def window_functions(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "window_functions.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))


def popularity(window: dict[str, Any], **options: Any) -> Popularity:
    return Popularity.model_validate({"window": window, "threshold": 0.4, **options})


@pytest.mark.parametrize("by", [None, "country"])
@pytest.mark.parametrize("window", KINDS, ids=lambda window: window["type"])
def test_batches_and_restores_change_no_row(window: dict[str, Any], by: str | None) -> None:
    config = popularity(window, by=by, emit={"early": "7us"})
    for seed in range(6):
        dice = random.Random(seed)
        epochs = random_epochs(dice)
        whole = cut_run(config, epochs)
        for name, rows in cut_run(config, epochs, dice).items():
            assert rows_of(rows) == rows_of(whole[name]), (seed, name)


@pytest.mark.parametrize("window", KINDS, ids=lambda window: window["type"])
def test_windows_pass_the_battery_by_key_and_with_early_rows(window: dict[str, Any]) -> None:
    dice = random.Random(3)
    times = [None if number % 17 == 5 else number - dice.randint(0, 30) for number in range(120)]
    records = [
        Record(number % 3, number, time, dice.choice(["a", "b", "c", None]), dice.choice("xyz"))
        for number, time in enumerate(times)
    ]
    skip = [] if window is SESSION else ["another_process_changes_nothing"]  # a process takes long to start
    check_step(popularity(window, by="country", emit={"early": "7us"}), table(records), skip=skip)


Windows = Iterable[tuple[int, Sequence[Record]]]


def sliding(records: Sequence[Record]) -> Windows:
    for number in range(-5, 200):
        yield 8 * number, [record for record in records if 8 * number <= _time(record) < 8 * number + 12]


def sessions(records: Sequence[Record]) -> Windows:
    held: list[Record] = []
    for record in sorted(records, key=_time):
        if held and _time(record) - _time(held[-1]) >= 6:
            yield _time(held[0]), held
            held = []
        held.append(record)
    if held:
        yield _time(held[0]), held


def predicates(records: Sequence[Record]) -> Windows:
    held: list[Record] = []
    began = -100
    for record in sorted(records, key=lambda record: (_time(record), record.rank, record.offset)):
        if not held and record.topic != "a":
            continue
        if not held:
            began = max(began + 1, _time(record)) if began == _time(record) else _time(record)
        held.append(record)
        if record.topic == "c":
            yield began, held
            held = []
    if held:
        yield began, held


def _time(record: Record) -> int:
    assert record.time is not None
    return record.time


@pytest.mark.parametrize(
    ("window", "reference"),
    [(SLIDING, sliding), (SESSION, sessions), (PREDICATE, predicates)],
    ids=["sliding", "session", "predicate"],
)
@pytest.mark.parametrize("by", [None, "country"])
def test_without_late_records_the_counts_are_those_of_the_reference(
    window: dict[str, Any], reference: Callable[[Sequence[Record]], Windows], by: str | None
) -> None:
    config = popularity({**window, "lateness": "1h"}, by=by)
    for seed in range(12):
        epochs = random_epochs(random.Random(seed))
        records = [record for held, _ in epochs for record in held if record.time is not None]
        keys = sorted({record.country for record in records if record.country is not None}) if by else [None]
        expected: Counter[tuple[Any, ...]] = Counter()
        for key in keys:
            for label, held in reference([record for record in records if by is None or record.country == key]):
                expected.update((label, key, record.topic) for record in held if record.topic is not None)
        found = {
            (row["_window"], row.get("country"), row["topic"]): row["count"]
            for row in rows_of(cut_run(config, epochs, random.Random(seed))["topics"])
            if row["count"]
        }
        assert found == expected, seed


def test_a_key_has_the_rows_that_it_has_alone() -> None:
    epochs = random_epochs(random.Random(8))
    alone = [([record for record in records if record.country == "fr"], ended) for records, ended in epochs]
    for window in KINDS:
        whole = rows_of(cut_run(popularity(window, by="country"), epochs)["topics"])
        single = rows_of(cut_run(popularity(window), alone)["topics"])
        of_key = [{name: row[name] for name in row if name != "country"} for row in whole if row["country"] == "fr"]
        assert of_key == single, window


@pytest.mark.parametrize(
    "config",
    [
        {"type": "popularity", "of": "text"},
        {"type": "popularity", "of": "text", "window": SESSION},
        {"type": "top_k", "of": "text", "k": 2},
        {"type": "trending", "of": "predicted", "least": 1},
    ],
    ids=["popularity", "sessions", "top_k", "trending"],
)
def test_several_fields_are_one_key_and_columns_of_the_rows(config: dict[str, Any]) -> None:
    kinds: dict[str, Any] = {"popularity": Popularity, "top_k": TopK, "trending": Trending}
    schema = pa.schema([*SCHEMA, ("text", pa.string())])
    options = {"window": {"type": "tumbling", "size": "10us"}, **config, "by": ["country", "predicted"]}
    step = kinds[config["type"]].model_validate(options).build(schema)
    assert step.traits.key == ("country", "predicted") and step.outputs[0].key[:2] == ("country", "predicted")
    values = [("é", "b"), ("a", '","b'), ('a","', "b"), ("a", None), (None, "b"), ("é", "b")]
    columns = {"_rank": [0] * 6, "_offset": range(6), "_time": range(6), "text": ["wind sun"] * 6}
    keys = {"country": [country for country, _ in values], "predicted": [topic for _, topic in values]}
    result = step.process(pa.table({**columns, **keys}).select(schema.names).cast(schema))
    assert result.outputs["rejects"]["reason"].to_pylist() == ["no country or predicted"] * 2
    assert sorted(step.save()) == ['["a","\\",\\"b"]', '["a\\",\\"","b"]', '["é","b"]']
    names = step.outputs[0].schema.names[:3]
    rows = [*step.ended(Watermark(50)).outputs[step.outputs[0].name].select(names).to_pylist()]
    if config["type"] != "trending":  # a first window has no past, and no rows
        found = [(row["country"], row["predicted"]) for row in rows]
        assert names == ["_window", "country", "predicted"]
        assert set(found) == {("é", "b"), ("a", '","b'), ('a","', "b")}


def test_records_without_a_key_are_rejects_in_the_order_of_the_records() -> None:
    step = popularity({"type": "tumbling", "size": "10us"}, by="country").build(table([]).schema)
    batch = table(
        [Record(0, 0, 1, "a"), Record(0, 1, None, "a", "fr"), Record(0, 2, None, "a"), Record(0, 3, 1, "a", "fr")]
    )
    rejects = step.process(batch).outputs["rejects"].select(["_offset", "reason"]).to_pylist()
    assert [tuple(row.values()) for row in rejects] == [(0, "no country"), (1, "no time"), (2, "no country")]


def test_keys_whose_windows_have_closed_take_no_state() -> None:
    windows: list[dict[str, Any]] = [SLIDING, SESSION, {"type": "tumbling", "size": "10us"}]
    for window in windows:
        step = popularity(window, by="country").build(table([]).schema)
        step.process(table([Record(0, number, number, "a", f"key {number}") for number in range(40)]))
        assert step.traits.scope is Scope.KEYED and len(step.save()) == 40
        step.ended(Watermark(1000))
        assert not step.save()
        assert not step.ended(Watermark(2000)).outputs["topics"].num_rows


def test_early_rows_come_when_the_watermark_passes_a_multiple_and_the_final_row_is_judged() -> None:
    step = popularity({"type": "tumbling", "size": "100us"}, emit={"early": "10us"}).build(table([]).schema)
    emitted: list[tuple[Any, ...]] = []

    def at(time: int, *topics: str) -> None:
        step.process(table([Record(0, time, time, topic) for topic in topics]))
        for row in rows_of(step.ended(Watermark(time)).outputs["topics"]):
            emitted.append((time, row["topic"], row["count"], row["popular"], row["_emission"], row["_final"]))

    at(8, "a")
    at(9, "a")  # no multiple of 10 us was passed since the first row
    at(21, "b")
    at(35)
    at(47)  # nothing changed
    at(100)
    assert emitted == [
        (8, "a", 1, None, 0, False),
        (21, "a", 2, None, 1, False),
        (21, "b", 1, None, 1, False),
        (100, "a", 2, True, 2, True),
        (100, "b", 1, False, 2, True),
    ]
    assert step.outputs[0].key == ("topic", "_emission")


def test_a_session_that_begins_earlier_or_is_joined_leaves_its_old_window_without_a_final_row() -> None:
    window = {"type": "session", "gap": "10us", "lateness": "20us"}
    step = popularity(window, emit={"early": "5us"}).build(table([]).schema)
    emitted: list[dict[str, Any]] = []
    for offset, (watermark, time) in enumerate([(21, 20), (26, 15), (36, 32), (41, 24)]):
        step.process(table([Record(0, offset, time, "a")]))
        emitted += rows_of(step.ended(Watermark(watermark)).outputs["topics"])
    emitted += rows_of(step.ended(Watermark(None)).outputs["topics"])
    assert [(row["_window"], row["count"], row["_emission"], row["_final"]) for row in emitted] == [
        (20, 1, 0, False),
        (15, 2, 1, False),  # the record at 15 moved the start; no row of 20 follows
        (32, 1, 0, False),
        (15, 4, 2, False),  # the record at 24 joined the two; no row of 32 follows
        (15, 4, 3, True),
    ]


def test_without_emit_there_are_no_columns_for_it() -> None:
    names = popularity(SLIDING, by="country").build(table([]).schema).outputs[0].schema.names
    assert names == ["_window", "country", "topic", "count", "share", "popular", "changed"]


@pytest.mark.parametrize("window", [{"type": "tumbling", "size": "1us"}, {"type": "session", "gap": "1us"}])
def test_one_more_open_window_than_max_open_is_refused_by_the_name_of_the_step(window: dict[str, Any]) -> None:
    step = popularity(window, name="trends", max_open=1000).build(table([]).schema)
    with pytest.raises(StepFailed, match=r"step 'trends' has 1,001 open windows.*`max_open` allows 1,000; make"):
        step.process(table([Record(0, number, 3 * number, "a") for number in range(1001)]))


def test_sliding_windows_count_as_the_windows_of_which_rows_will_be_made() -> None:
    """A pane of each of 200 keys is in 60 windows: 12,000 of them, of which the end would make rows."""
    window = {"type": "sliding", "size": "60us", "slide": "1us"}
    batch = table([Record(0, number, 100, "a", str(number)) for number in range(200)])
    step = popularity(window, by="country", max_open=6400).build(batch.schema)
    with pytest.raises(
        StepFailed, match=r"has \d+ open windows, .* allows 100 in each of 64 shards; make `slide` longer"
    ):
        step.process(batch)
    step = popularity(window, by="country", max_open=64_000).build(batch.schema)
    step.process(batch)
    assert step.ended(Watermark(None)).outputs["topics"].num_rows == 12_000


def test_windows_that_have_closed_are_in_no_count_also_after_a_restore() -> None:
    config = popularity({"type": "sliding", "size": "60us", "slide": "1us"}, max_open=101)
    step = config.build(table([]).schema)
    for time in range(0, 200, 7):
        step.process(table([Record(0, time, time, "a")]))
        step.ended(Watermark(time))
        saved, step = step.save(), config.build(table([]).schema)
        step.restore(saved)


def test_more_keys_in_a_shard_than_its_part_of_max_open_are_refused_by_the_name_of_the_step() -> None:
    step = popularity({"type": "count", "size": 1}, by="country", max_open=1000).build(table([]).schema)
    with pytest.raises(
        StepFailed, match=r"'popularity' has 18 keys in shard 2, and `max_open` 1,000 allows 16 in each of 64"
    ):
        step.process(table([Record(0, number, 0, "a", str(number)) for number in range(1001)]))


def test_a_million_keys_stop_at_the_default_limit_with_the_step_and_the_shard() -> None:
    step = popularity({"type": "session", "gap": "1h"}, name="trends", by="country").build(table([]).schema)
    whole = table([Record(0, 0, 0, "a")]).take(pa.array(np.zeros(1_000_000, np.int64)))
    whole = whole.set_column(4, "country", pa.array(np.arange(1_000_000)).cast(pa.string()))
    passed: list[int] = []

    def process_all() -> None:
        for first in range(0, whole.num_rows, 10_000):
            step.process(whole.slice(first, 10_000))
            passed.append(first)

    message = r"step 'trends' has 7,\d+ open windows.* in shard \d+, and `max_open` 500,000 allows 7,813 in each of 64"
    with pytest.raises(StepFailed, match=message):
        process_all()
    assert 450_000 <= passed[-1] < 500_000


def test_a_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"step 'popularity', `by`: keys are text, but '_time' is int64"):
        popularity(SLIDING, by="_time").build(table([]).schema)


@pytest.mark.parametrize(
    ("name", "message"),
    [("number", "it returned 1; return True or False"), ("fails", "it raised ValueError: no weather")],
)
def test_a_predicate_that_fails_names_the_function_and_the_record(name: str, message: str) -> None:
    step = popularity({"type": "predicate", "ends": f"window_functions:{name}"}).build(table([]).schema)
    with pytest.raises(StepFailed, match=f"function {name}: {message}") as failed:
        step.process(table([Record(1, 7, 3, "a")]))
    assert (failed.value.rank, failed.value.offset) == (1, 7)


@pytest.mark.parametrize("window", KINDS, ids=lambda window: window["type"])
def test_a_row_has_the_time_of_the_end_of_its_window(window: dict[str, Any]) -> None:
    step = popularity(window).build(table([]).schema)
    assert not len(step.process(table([])).windows["topics"].numbers)  # a reader knows the stream before the first row
    records = [Record(0, number, 3 * number, topic) for number, topic in enumerate("abbcabca")]
    results = [step.process(table(records)), step.ended(Watermark(None))]
    found: list[tuple[int, int, int | None]] = []
    for result in results:
        labels = [row["_window"] for row in rows_of(result.outputs["topics"])]
        windows = result.windows["topics"]
        found += zip(labels, windows.numbers.to_pylist(), windows.times.to_pylist(), strict=True)
    expected = {
        "count": {(0, 0, 6), (1, 1, 15), (2, 2, 21)},  # the last one is not full
        "tumbling": {(start, start // 10, start + 9) for start in (0, 10, 20)},
        "sliding": {(start, start // 8, start + 11) for start in (-8, 0, 8, 16)},
        "session": {(0, 0, 26)},
        "predicate": {(0, 0, 9), (12, 12, 18), (21, 21, 21)},
    }
    assert set(found) == expected[window["type"]]


def test_siblings_that_wait_for_predicates_keep_their_order() -> None:
    step = popularity({"type": "predicate", "ends": "window_functions:ends"}).build(table([]).schema)
    step.process(table([Record(0, 0, 5, "c"), Record(0, 0, 5, "a")]))  # two children of one record
    rows = rows_of(step.ended(Watermark(None)).outputs["topics"])
    assert [(row["_window"], row["topic"], row["count"]) for row in rows] == [(5, "c", 1), (6, "a", 1)]


def test_a_half_life_weighs_the_windows_before() -> None:
    step = popularity({"type": "count", "size": 4}, half_life_records=4).build(table([]).schema)
    rows = step.process(table([Record(0, n, None, topic) for n, topic in enumerate("aaaabbbb")])).outputs["topics"]
    assert rows.select(["topic", "count", "weight", "share"]).to_pylist() == [
        {"topic": "a", "count": 4, "weight": 4.0, "share": 1.0},
        {"topic": "a", "count": 0, "weight": 2.0, "share": 2 / 6},
        {"topic": "b", "count": 4, "weight": 4.0, "share": 4 / 6},
    ]


def test_a_half_life_in_time_counts_the_windows_without_records() -> None:
    step = popularity({"type": "tumbling", "size": "10us"}, half_life="20us").build(table([]).schema)
    step.process(table([Record(0, 0, 5, "a"), Record(0, 1, 45, "b")]))
    rows = step.ended(Watermark(50)).outputs["topics"].to_pylist()
    assert [(row["topic"], row["weight"]) for row in rows] == [("a", 1.0), ("a", 0.25), ("b", 1.0)]


def test_a_half_life_passes_the_battery() -> None:
    dice = random.Random(3)
    records = [Record(0, n, n, dice.choice("abc"), dice.choice("xyz")) for n in range(120)]
    config = popularity({"type": "tumbling", "size": "10us"}, half_life="30us", by="country")
    check_step(config, table(records), skip=["another_process_changes_nothing"])


def test_a_half_life_is_refused_where_windows_do_not_follow_each_other() -> None:
    with pytest.raises(ValueError, match="`half_life` is for tumbling windows, and these are sliding"):
        popularity(SLIDING, half_life="1h")
    with pytest.raises(ValueError, match="`half_life_records` is for count windows"):
        popularity({"type": "tumbling", "size": "1h"}, half_life_records=5)
