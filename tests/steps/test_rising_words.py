"""Words that rise against their own past."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from millstream.errors import ConfigError
from millstream.steps.checks import check_step
from millstream.steps.rising_words import Trending
from millstream.substreams import Watermark

Texts = list[tuple[str | None, str | None]]


def table(texts: Sequence[tuple[str | None, str | None]]) -> pa.Table:
    columns = {
        "_rank": [0] * len(texts),
        "_offset": range(len(texts)),
        "_time": range(len(texts)),
        "text": pa.array([text for text, _ in texts], pa.string()),
        "predicted": pa.array([topic for _, topic in texts], pa.string()),
        "country": ["de", "fr"] * (len(texts) // 2) + ["de"] * (len(texts) % 2),
    }
    return pa.table(columns)


def rows(texts: Sequence[tuple[str | None, str | None]], size: int, **options: Any) -> list[dict[str, Any]]:
    records = table(texts)
    window = {"type": "count", "size": size}
    step = Trending.model_validate({"window": window, "least": 2, **options}).build(records.schema)
    found: list[dict[str, Any]] = step.process(records).outputs["trending"].to_pylist()
    return found


def test_a_word_that_was_as_frequent_before_does_not_rise() -> None:
    calm = [("rain today", "weather"), ("rain tomorrow", "weather"), ("sun", "weather")] * 2
    assert rows(calm, 3) == []


def test_a_word_rises_in_the_topic_of_most_of_its_records() -> None:
    before: Texts = [("rain", "weather")] * 6
    after: Texts = [("storm", "sport"), ("the storm", "weather"), ("Storm, storm!", "weather"), *[("rain", None)] * 3]
    [row] = rows(before + after, 6)
    assert row == {
        "_window": 1,
        "word": "storm",
        "count": 3,
        "expected": 0.0,
        "rise": 3.0,
        "topic": "weather",
        "in_topic": 2,
    }


def test_the_past_fades_by_its_half_life() -> None:
    texts = [("goal", "sport")] * 4 + [("rain", "weather")] * 4 + [("goal", "sport")] * 4
    soon = rows(texts, 4, half_life=1000.0, rise=1.5)
    later = rows(texts, 4, half_life=0.5, rise=1.5)
    assert [(row["_window"], row["word"]) for row in soon] == [(1, "rain"), (2, "goal")]
    assert soon[-1]["expected"] == pytest.approx(2.0, abs=0.01)
    assert later[-1]["expected"] < 1


def test_only_the_words_that_rise_most_are_rows() -> None:
    texts = [("rain", None)] * 8 + [
        ("one two three", None),
        ("one two", None),
        ("one two three", None),
        ("one", None),
    ] * 2
    found = rows(texts, 8, most=2)
    assert [(row["word"], row["count"], row["topic"]) for row in found] == [("one", 8, None), ("two", 6, None)]


def test_the_past_of_the_rarest_words_is_dropped_above_the_bound() -> None:
    records = table([("often", None)] * 10 + [(f"word{number}", None) for number in range(30)])
    window = {"type": "count", "size": 40}
    step = Trending.model_validate({"window": window, "words": 5}).build(records.schema)
    step.process(records)
    [state] = step.save().values()
    saved = bytes(state)
    assert saved.count(b"word") == 4 + 1 and b"often" in saved  # and the name `words`


def test_windows_without_others_of_their_size_before_are_refused() -> None:
    with pytest.raises(ValueError, match="session windows have none; take tumbling or count windows"):
        Trending.model_validate({"window": {"type": "session", "gap": "1m"}})


def test_a_field_that_is_missing_is_refused() -> None:
    config = Trending.model_validate({"window": {"type": "count", "size": 2}, "text": "txt"})
    with pytest.raises(ConfigError, match="no column 'txt' here; did you mean `text`"):
        config.build(table([]).schema)


@pytest.mark.parametrize("by", [None, "country"])
def test_trending_passes_the_battery(by: str | None) -> None:
    dice = random.Random(2)
    words = [f"word{number}" for number in range(12)]
    texts = [(" ".join(dice.choices(words[: 4 + n // 15], k=3)), dice.choice(["a", "b", None])) for n in range(120)]
    window = {"type": "tumbling", "size": "20us"}
    config = Trending.model_validate({"window": window, "least": 2, "rise": 1.5, "by": by, "emit": {"early": "7us"}})
    check_step(config, table(texts), [] if by else ["another_process_changes_nothing"])


def test_a_window_without_records_lets_the_past_fade() -> None:
    records = table([("goal", "sport")] * 4)
    window = {"type": "tumbling", "size": "4us"}
    step = Trending.model_validate({"window": window, "least": 2, "half_life": 1.0}).build(records.schema)
    step.process(records)
    step.ended(Watermark(4))
    later = records.set_column(2, "_time", pa.array([16, 17, 18, 19]))
    late = later.set_column(3, "text", pa.array(["rain", "rain", "rain", "goal"]))
    step.process(late)
    [row] = step.ended(Watermark(20)).outputs["trending"].to_pylist()
    assert (row["word"], row["count"]) == ("rain", 3)
