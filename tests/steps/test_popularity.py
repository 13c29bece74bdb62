"""Popularity: compared with a simple reference over random streams, and special cases."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from millstream.digests import digest_of
from millstream.errors import ConfigError
from millstream.steps.checks import check_step
from millstream.steps.contracts import Result, Step
from millstream.steps.popularity import Popularity
from millstream.substreams import Watermark

SCHEMA = pa.schema(
    [("_rank", pa.int64()), ("_offset", pa.int64()), ("_time", pa.int64()), ("predicted", pa.string())],
)


class Record(NamedTuple):
    rank: int
    offset: int
    time: int | None
    topic: str | None


class End(NamedTuple):
    time: int | None


Event = Record | End
Rows = dict[str, list[tuple[Any, ...]]]


def table(records: Iterable[Record]) -> pa.Table:
    columns = list(zip(*records, strict=True)) or [()] * len(SCHEMA)
    return pa.table([list(column) for column in columns], schema=SCHEMA)


def build_step(window: dict[str, Any], **options: Any) -> Step:
    return Popularity.model_validate({"window": window, **options}).build(SCHEMA)


class Outcome:
    """Collects the rows of each output in order, with times as integers."""

    def __init__(self) -> None:
        self.rows: Rows = {"topics": [], "late": [], "rejects": []}

    def add(self, result: Result) -> None:
        for name, rows in result.outputs.items():
            if "_window" in rows.column_names:
                index = rows.column_names.index("_window")
                rows = rows.set_column(index, "_window", rows["_window"].cast(pa.int64()))
            self.rows[name] += [tuple(row.values()) for row in rows.to_pylist()]


def run(step: Step, events: Iterable[Event]) -> Rows:
    """Run a step over events, with each record in its own batch."""
    outcome = Outcome()
    for event in events:
        outcome.add(step.ended(Watermark(event.time)) if isinstance(event, End) else step.process(table([event])))
    return outcome.rows


@dataclass
class ReferenceRows:
    """The reference for a window's rows, from the window's topics and the topics that were popular before."""

    threshold: float
    popular: set[str] = field(default_factory=set)

    def rows(self, window: int, topics: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        counts = Counter(topics)
        before, self.popular = self.popular, set()
        for topic in sorted(set(counts) | before):
            share = counts[topic] / len(topics) if topics else 0.0
            if share >= self.threshold:
                self.popular.add(topic)
            yield (
                window,
                topic,
                counts[topic],
                share,
                topic in self.popular,
                (topic in self.popular) != (topic in before),
            )


def by_time(events: Sequence[Event], size: int, lateness: int, threshold: float) -> Rows:
    """The reference for tumbling windows: a list of topics for each window, and a loop over all windows."""
    rows: Rows = {"topics": [], "late": [], "rejects": []}
    kept: dict[int, list[str]] = {}
    reference = ReferenceRows(threshold)
    lowest = -1000 * size
    event_time: float = float("-inf")
    upcoming = lowest
    for event in events:
        if isinstance(event, End):
            event_time = max(event_time, float("inf") if event.time is None else event.time)
            highest = max((start for start, topics in kept.items() if topics), default=lowest - 1)
            while upcoming + size + lateness <= event_time and (event_time < float("inf") or upcoming <= highest):
                rows["topics"] += reference.rows(upcoming, kept.pop(upcoming, []))
                upcoming += size
        elif event.time is None:
            rows["rejects"].append((event.rank, event.offset, None, "popularity", "no time"))
        else:
            start = event.time - event.time % size
            if start + size + lateness <= event_time:
                rows["late"].append((*event, start))
            elif event.topic is not None:
                kept.setdefault(start, []).append(event.topic)
    return rows


def by_count(events: Sequence[Event], size: int, threshold: float) -> Rows:
    """The reference for count windows: the last part closes at the end, and a record after it begins a window."""
    reference = ReferenceRows(threshold)
    topics: list[tuple[Any, ...]] = []
    held: list[str | None] = []
    window = 0
    for event in [*events]:
        if isinstance(event, Record):
            held.append(event.topic)
        topic_held = any(topic is not None for topic in held)
        if len(held) == size or (topic_held and event == End(None)):
            topics += reference.rows(window, [topic for topic in held if topic is not None])
            held, window = [], window + 1
        if event == End(None):
            window += bool(held)
            held, reference.popular = [], set()
    return {"topics": topics, "late": [], "rejects": []}


def stream(dice: random.Random) -> list[list[Event]]:
    """Make epochs of records roughly in time order; most end with a watermark, which may be lower than the last."""
    names = ["ärger", "a", "b", "c", "日本", ""][: dice.randint(1, 6)]
    spread, pace = dice.choice([0, 5, 60]), dice.choice([0, 1, 4, 30])
    now = dice.randint(-300, 100)
    epochs: list[list[Event]] = []
    offset = 0
    for _ in range(dice.randint(1, 12)):
        epoch: list[Event] = []
        for _ in range(dice.choice([0, 1, 3, 20])):
            now += dice.randint(0, pace)
            time = None if dice.random() < 0.05 else now - dice.randint(0, spread)
            topic = None if dice.random() < 0.15 else dice.choice(names)
            epoch.append(Record(dice.randrange(3), offset, time, topic))
            offset += dice.randint(1, 3)
        if dice.random() < 0.7:
            epoch.append(End(now + dice.randint(-40, 20)))
        epochs.append(epoch)
    if dice.random() < 0.5:
        epochs.append([End(None), Record(0, offset, now, "a")])
    return epochs


def run_in_batches(config: Popularity, epochs: list[list[Event]], dice: random.Random) -> tuple[Rows, bytes]:
    """Cut every epoch into random batches, and sometimes restore the state into a new step."""
    outcome = Outcome()
    step = config.build(SCHEMA)
    for epoch in epochs:
        batch: list[Record] = []
        for event in [*epoch, None]:
            if isinstance(event, Record) and (dice.random() < 0.7 or not batch):
                batch.append(event)
                continue
            records = table(batch)
            chunked = pa.concat_tables([records.slice(0, len(batch) // 2), records.slice(len(batch) // 2)])
            result = step.process(chunked)
            assert result.records.equals(records)
            outcome.add(result)
            batch = [event] if isinstance(event, Record) else []
            if isinstance(event, End):
                outcome.add(step.ended(Watermark(event.time)))
            if dice.random() < 0.2:
                state, step = step.save(), config.build(SCHEMA)
                step.restore(state)
    return outcome.rows, bytes(step.save()["popularity"])


@pytest.mark.parametrize("seed", range(120))
def test_the_rows_equal_the_reference_for_any_cut_and_restore(seed: int) -> None:
    dice = random.Random(seed)
    epochs = stream(dice)
    events = [event for epoch in epochs for event in epoch]
    threshold = dice.choice([0.05, 0.25, 1 / 3, 0.5, 1.0])
    if seed % 3:
        size, lateness = dice.choice([1, 7, 40]), dice.choice([0, 3, 50])
        window: dict[str, Any] = {"type": "tumbling", "size": f"{size}us", "lateness": f"{lateness}us"}
        expected = by_time(events, size, lateness, threshold)
    else:
        size = dice.choice([1, 2, 5, 30])
        window = {"type": "count", "size": size}
        expected = by_count(events, size, threshold)
    config = Popularity.model_validate({"window": window, "threshold": threshold})
    first = run_in_batches(config, epochs, dice)
    assert first[0] == expected
    assert run_in_batches(config, epochs, dice) == first


def test_the_random_streams_cover_all_kinds_of_rows() -> None:
    reached: Counter[str] = Counter()
    for seed in range(120):
        events = [event for epoch in stream(random.Random(seed)) for event in epoch]
        rows = by_time(events, 7, 3, 0.25)
        reached["vanished"] += any(row[2] == 0 for row in rows["topics"])
        reached["late"] += bool(rows["late"])
        reached["rejects"] += bool(rows["rejects"])
        reached["unchanged"] += any(row[4] and not row[5] for row in rows["topics"])
    assert min(reached[name] for name in ("vanished", "late", "rejects", "unchanged")) > 20


def records_at(time: int | None, *topics: str | None) -> list[Event]:
    return [Record(0, number, time, topic) for number, topic in enumerate(topics)]


def test_a_share_equal_to_the_threshold_is_popular() -> None:
    step = build_step({"type": "count", "size": 10}, threshold=0.3)
    topics = run(step, records_at(None, *"aaabbccddd"))["topics"]
    assert [(row[1], row[4]) for row in topics] == [("a", True), ("b", False), ("c", False), ("d", True)]


def test_records_without_a_topic_fill_a_count_window_and_do_not_count_for_shares() -> None:
    step = build_step({"type": "count", "size": 4}, threshold=0.5)
    assert run(step, records_at(None, "a", None, None, "b"))["topics"] == [
        (0, "a", 1, 0.5, True, True),
        (0, "b", 1, 0.5, True, True),
    ]


def test_a_single_topic_changes_once() -> None:
    step = build_step({"type": "count", "size": 2})
    changed = [row[5] for row in run(step, records_at(None, *"aaaaaa"))["topics"]]
    assert changed == [True, False, False]


def test_a_topic_that_vanishes_has_one_row_and_changes_again_when_it_returns() -> None:
    step = build_step({"type": "tumbling", "size": "10us"}, threshold=0.5)
    events = [*records_at(5, "a"), *records_at(12, "b"), *records_at(25, "b"), *records_at(31, "a"), End(40)]
    assert run(step, events)["topics"] == [
        (0, "a", 1, 1.0, True, True),
        (10, "a", 0, 0.0, False, True),
        (10, "b", 1, 1.0, True, True),
        (20, "b", 1, 1.0, True, False),
        (30, "a", 1, 1.0, True, True),
        (30, "b", 0, 0.0, False, True),
    ]


def test_a_topic_that_was_not_popular_vanishes_without_a_row() -> None:
    step = build_step({"type": "count", "size": 4}, threshold=0.5)
    assert [row[:3] for row in run(step, records_at(None, *"aaabaaaa"))["topics"]] == [
        (0, "a", 3),
        (0, "b", 1),
        (1, "a", 4),
    ]


def test_after_a_window_without_records_a_topic_becomes_popular_again() -> None:
    step = build_step({"type": "tumbling", "size": "10us"})
    events = [*records_at(5, "a"), *records_at(1_000_005, "a"), End(2_000_000)]
    assert run(step, events)["topics"] == [
        (0, "a", 1, 1.0, True, True),
        (10, "a", 0, 0.0, False, True),
        (1_000_000, "a", 1, 1.0, True, True),
        (1_000_010, "a", 0, 0.0, False, True),
    ]


def test_no_window_follows_the_last_record_of_all_partitions() -> None:
    step = build_step({"type": "tumbling", "size": "10us"})
    assert run(step, [*records_at(5, "a"), End(None)])["topics"] == [(0, "a", 1, 1.0, True, True)]
    assert run(step, [End(1000), End(None)])["topics"] == []


def test_a_record_is_late_by_the_watermark_before_its_batch_to_the_microsecond() -> None:
    step = build_step({"type": "tumbling", "size": "10us", "lateness": "5us"})
    events = [*records_at(500, "b"), *records_at(9, "a"), End(14), Record(1, 7, 9, "a"), End(15), Record(1, 8, 9, "a")]
    rows = run(step, events)
    assert rows["topics"] == [(0, "a", 2, 1.0, True, True)]
    assert rows["late"] == [(1, 8, 9, "a", 0)]


def test_late_records_are_not_counted_even_if_all_are_late() -> None:
    step = build_step({"type": "tumbling", "size": "10us"})
    rows = run(step, [End(100), *records_at(-3, "a", None), End(None)])
    assert rows["late"] == [(0, 0, -3, "a", -10), (0, 1, -3, None, -10)]
    assert rows["topics"] == []


def test_records_without_a_time_are_rejected_with_the_name_of_the_step_and_passed_on() -> None:
    step = build_step({"type": "tumbling", "size": "10us"}, name="trends")
    batch = table([Record(2, 4, None, "a"), Record(2, 5, 3, "a")])
    result = step.process(batch)
    assert result.records is batch
    assert [tuple(row.values()) for row in result.outputs["rejects"].to_pylist()] == [(2, 4, None, "trends", "no time")]
    assert step.ended(Watermark(None)).outputs["topics"]["count"].to_pylist() == [1]


def test_the_last_records_fill_no_count_window_and_close_it_when_all_sources_have_ended() -> None:
    step = build_step({"type": "count", "size": 2})
    made = step.process(table([Record(0, offset, None, "a") for offset in range(3)])).outputs["topics"]
    assert made["_window"].to_pylist() == [0]
    assert step.ended(Watermark(50)).outputs["topics"].num_rows == 0
    last = step.ended(Watermark(None)).outputs["topics"]
    assert last.select(["_window", "topic", "count"]).to_pylist() == [{"_window": 1, "topic": "a", "count": 1}]
    assert step.ended(Watermark(None)).outputs["topics"].num_rows == 0


def test_one_batch_may_close_many_count_windows() -> None:
    step = build_step({"type": "count", "size": 2})
    topics = step.process(table([Record(0, number, None, "a") for number in range(7)])).outputs["topics"]
    assert topics["_window"].to_pylist() == [0, 1, 2]
    assert step.process(table([Record(0, 7, None, "a")])).outputs["topics"]["_window"].to_pylist() == [3]


def test_the_rows_have_the_declared_columns() -> None:
    for window in ({"type": "count", "size": 1}, {"type": "tumbling", "size": "10us"}):
        step = build_step(window)
        results = [step.process(table([Record(0, 0, 3, "a"), Record(0, 1, None, "a")])), step.ended(Watermark(50))]
        results.append(step.process(table([Record(0, 2, 3, "a")])))
        declared = {output.name: output.schema for output in step.outputs}
        made = {name: rows.schema for result in results for name, rows in result.outputs.items()}
        assert made == declared
        assert set(declared) == ({"topics"} if window["type"] == "count" else {"topics", "late", "rejects"})


def test_topics_may_be_any_text_column_named_in_the_config() -> None:
    plain = table([Record(0, 0, 1, "a"), Record(0, 1, 1, None), Record(0, 2, 1, "b"), Record(0, 3, 1, "a")])
    digests = set()
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        records = plain.append_column("tag", plain["predicted"].cast(kind)).drop_columns(["predicted"])
        step = Popularity.model_validate({"of": "tag", "window": {"type": "count", "size": 2}}).build(records.schema)
        digests.add(digest_of(step.process(records).outputs["topics"]))
    assert len(digests) == 1


def test_a_column_that_is_missing_or_not_text_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no column 'predictd' here; did you mean `predicted`\?"):
        build_step({"type": "count", "size": 2}, of="predictd")
    with pytest.raises(ConfigError, match="'_time' is int64; name a text column"):
        build_step({"type": "count", "size": 2}, of="_time")


def test_the_state_does_not_grow_with_the_records() -> None:
    step = build_step({"type": "tumbling", "size": "10us", "lateness": "20us"})
    sizes = []
    for epoch in range(200):
        step.process(table([Record(0, 5 * epoch + n, 10 * (1000 + epoch) + n, "abc"[n % 3]) for n in range(5)]))
        step.ended(Watermark(10 * (1000 + epoch)))
        sizes.append(len(step.save()["popularity"]))
    assert max(sizes[100:]) == max(sizes[5:10])


@pytest.mark.parametrize(
    "window",
    [
        {"type": "count", "size": 7},
        {"type": "tumbling", "size": "10us"},
        {"type": "tumbling", "size": "10us", "lateness": "20us"},
    ],
)
def test_popularity_passes_the_battery(window: dict[str, Any]) -> None:
    dice = random.Random(3)
    times = [None if number % 17 == 5 else number - dice.randint(0, 30) for number in range(120)]
    records = table(Record(n % 3, n, time, dice.choice(["a", "b", "c", None])) for n, time in enumerate(times))
    check_step(Popularity.model_validate({"window": window, "threshold": 0.4}), records)


def test_a_saved_state_does_not_change_when_the_step_continues() -> None:
    step = build_step({"type": "count", "size": 10})
    step.process(table([Record(0, 0, None, "a")]))
    state = step.save()
    before = bytes(state["popularity"])
    step.process(table([Record(0, 1, None, "b")]))
    assert bytes(state["popularity"]) == before
    step.restore({})
    assert step.save() == build_step({"type": "count", "size": 10}).save()
