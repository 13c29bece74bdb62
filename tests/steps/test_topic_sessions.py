"""Sessions in arrays: the same rows and states, to the bit, as those of the step for every kind of window."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.windowed_runs import SCHEMA, Record, random_epochs, rises, rows_of, table

from millstream.errors import StepFailed
from millstream.steps.contracts import Result
from millstream.steps.popularity import Popularity
from millstream.steps.topic_sessions import TopicSessions
from millstream.steps.topic_shares import TopicShares
from millstream.steps.windowed.panes_by_key import PanesByKey
from millstream.steps.windowed.step import WindowedStep
from millstream.substreams import Watermark

LEAST, GREATEST = -(2**63), 2**63 - 1


def both(**window: Any) -> tuple[WindowedStep, WindowedStep]:
    """The step with objects, and the one with arrays."""
    options = Popularity.model_validate({"window": {"type": "session", **window}, "by": "country", "threshold": 0.4})
    measure = TopicShares("predicted", 0.4, None, follows=False)
    kinds: tuple[Any, ...] = (PanesByKey, TopicSessions)
    first, second = (WindowedStep("sessions", options, measure, SCHEMA, kind) for kind in kinds)
    return first, second


def check_same(one: Result, other: Result) -> None:
    assert one.outputs.keys() == other.outputs.keys()
    for name in one.outputs:
        assert one.outputs[name].equals(other.outputs[name]), name
    for name in one.windows:
        assert one.windows[name].numbers.equals(other.windows[name].numbers)
        assert one.windows[name].times.equals(other.windows[name].times)


def check_states(one: WindowedStep, other: WindowedStep) -> None:
    assert dict(one.save()) == dict(other.save())


def test_the_config_with_keys_and_without_early_rows_takes_the_arrays() -> None:
    for by in ("country", ["country", "predicted"]):
        step = Popularity.model_validate({"window": {"type": "session", "gap": "6us"}, "by": by}).build(SCHEMA)
        assert isinstance(step, WindowedStep) and isinstance(step._open, TopicSessions)


def test_rows_and_states_are_those_of_the_other_step() -> None:
    for seed in range(60):
        dice = random.Random(seed)
        lateness = dice.choice(["0s", "4us", "40us"])
        one, other = both(gap=dice.choice(["1us", "6us", "30us"]), lateness=lateness)
        greatest: Watermark | None = None
        for records, watermark in random_epochs(dice):
            cut = dice.randint(0, len(records))
            for part in (records[:cut], records[cut:]):
                check_same(one.process(table(part)), other.process(table(part)))
                check_states(one, other)
            if watermark is not None and rises(greatest, watermark):
                greatest = watermark
                check_same(one.ended(watermark), other.ended(watermark))
                check_states(one, other)
            if dice.random() < 0.4:  # each continues from the state of the other
                one, other = restored(one, other, greatest, lateness)
        assert not dict(other.save()) or greatest != Watermark(None)


def restored(
    one: WindowedStep, other: WindowedStep, watermark: Watermark | None, lateness: str
) -> tuple[WindowedStep, WindowedStep]:
    gap = one._options.window.gap  # type: ignore[union-attr]
    fresh = both(gap=f"{gap}us", lateness=lateness)
    for step, state in zip(fresh, (other.save(), one.save()), strict=True):
        step.restore(state)
        if watermark is not None:
            step.resume(watermark)
    return fresh


def test_many_keys_topics_and_sessions_that_join_fill_grow_and_leave_the_tables() -> None:
    one, other = both(gap="40us", lateness="300us")
    dice = np.random.default_rng(5)
    countries, topics = (pa.array([f"{kind} {n}" for n in range(count)]) for kind, count in (("key", 90), ("t", 400)))
    for number in range(25):
        size = int(dice.integers(1, 900))
        columns = {
            "_rank": np.zeros(size, np.int64),
            "_offset": np.arange(size),
            "_time": dice.integers(300 * number, 300 * number + 600, size),  # ahead and late: sessions join
            "predicted": topics.take(pa.array(dice.integers(0, 400, size))),
            "country": countries.take(pa.array(dice.integers(0, 90, size))),
        }
        batch = pa.table(columns, schema=SCHEMA)
        check_same(one.process(batch), other.process(batch))
        check_same(one.ended(Watermark(300 * number)), other.ended(Watermark(300 * number)))
        assert (one._open.open_in_shards == other._open.open_in_shards).all()
        assert (one._open.keys_in_shards == other._open.keys_in_shards).all()
    check_states(one, other)
    assert dict(other.save())
    check_same(one.ended(Watermark(None)), other.ended(Watermark(None)))
    assert not dict(other.save()) and not other._open.open_in_shards.any()


@pytest.mark.parametrize("gap", ["1us", "36525d", "106751991d"])
def test_sessions_hold_the_least_and_the_greatest_time(gap: str) -> None:
    one, other = both(gap=gap)
    batch = table([Record(0, n, time, "a", "fr") for n, time in enumerate([GREATEST, 0, LEAST, 5, GREATEST - 1])])
    check_same(one.process(batch), other.process(batch))
    check_states(one, other)
    for watermark in (Watermark(LEAST + 1), Watermark(GREATEST), Watermark(None)):
        check_same(one.ended(watermark), other.ended(watermark))
        check_states(one, other)
    late = table([Record(0, 9, GREATEST, "a", "fr")])
    check_same(one.process(late), other.process(late))
    assert not dict(other.save())


def test_sessions_that_end_together_come_in_the_order_of_their_keys() -> None:
    step = both(gap="5us")[1]
    step.process(table([Record(0, 0, 3, "b", "zz"), Record(0, 1, 3, "a", "é"), Record(0, 2, 2, "a", "q")]))
    rows = rows_of(step.ended(Watermark(None)).outputs["topics"])
    assert [(row["_window"], row["country"]) for row in rows] == [(2, "q"), (3, "zz"), (3, "é")]


def test_sessions_without_a_topic_make_no_rows_also_by_two_fields() -> None:
    records = table([Record(0, 0, 3, None, "a")]).append_column("city", pa.array(["b"]))
    options = {"window": {"type": "session", "gap": "5us"}, "by": ["country", "city"]}
    step = Popularity.model_validate(options).build(records.schema)
    step.process(records)
    assert not step.ended(Watermark(None)).outputs["topics"].num_rows


def test_memory_of_keys_and_topics_that_have_gone_is_used_again() -> None:
    step = both(gap="5us")[1]
    for number in range(0, 4000, 40):
        records = [Record(0, number + n, number + n, f"topic {number + n}", f"key {number + n}") for n in range(40)]
        step.process(table(records))
        step.ended(Watermark(number + 40))
    held = step._open
    assert isinstance(held, TopicSessions)
    assert len(held._keys.names) < 100 and len(held._topics.names) < 100 and len(held._table._sessions) < 200


def test_too_many_sessions_of_a_shard_are_refused() -> None:
    options = {"window": {"type": "session", "gap": "1us"}, "by": "country", "max_open": 640}
    step = Popularity.model_validate(options).build(SCHEMA)
    step.process(table([Record(0, n, 3 * n, "a", "fr") for n in range(10)]))
    with pytest.raises(
        StepFailed, match="has 11 open windows, panes included, in shard 10, and `max_open` 640 allows 10"
    ):
        step.process(table([Record(0, 11, 300, "a", "fr")]))
