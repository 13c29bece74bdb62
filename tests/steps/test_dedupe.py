"""Dedupe: the first record with an id passes, its repeats within a time do not, and ids are forgotten."""

from __future__ import annotations

import random
import struct
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from millstream.errors import ConfigError
from millstream.steps.checks import check_step
from millstream.steps.contracts import Scope, Step
from millstream.steps.dedupe import Dedupe
from millstream.substreams import Watermark

SCHEMA = pa.schema(
    [
        ("_rank", pa.int32()),
        ("_offset", pa.int64()),
        ("_time", pa.int64()),
        ("id", pa.string()),
        ("site", pa.string()),
        ("score", pa.float64()),
    ]
)


def records(*rows: tuple[int | None, str | None]) -> pa.Table:
    """Records with these times and ids, at offsets from 0 on."""
    times, ids = [time for time, _ in rows], [each for _, each in rows]
    size = len(rows)
    columns = [[0] * size, range(size), times, ids, ["a"] * size, [0.5] * size]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)


def build(**options: Any) -> Step:
    return Dedupe.model_validate({"by": "id", "within": "10us", **options}).build(SCHEMA)


def passed(step: Step, *rows: tuple[int | None, str | None]) -> list[int]:
    return list(step.process(records(*rows)).records["_offset"].to_pylist())


def stored_times(step: Step) -> dict[str, tuple[int, ...]]:
    return {key: struct.unpack(f"{len(bytes(times)) // 8}q", bytes(times)) for key, times in step.save().items()}


def test_the_first_record_in_order_passes_and_its_repeats_are_an_output() -> None:
    result = build().process(records((5, "a"), (6, "b"), (15, "a"), (3, "a"), (16, "a")))
    assert result.records["_offset"].to_pylist() == [0, 1, 4]
    assert result.outputs["repeated"].to_pylist() == records((5, "a"), (6, "b"), (15, "a"), (3, "a")).to_pylist()[2:]


def test_the_result_does_not_depend_on_the_moment_of_the_watermark() -> None:
    for watermark in (None, 0, 15):
        step = build()
        assert passed(step, (5, "a")) == [0]
        if watermark is not None:
            step.ended(Watermark(watermark))
        assert passed(step, (15, "a"), (16, "a"), (20, "a")) == [1]


def test_an_id_is_forgotten_when_the_watermark_has_passed_its_time() -> None:
    step = build()
    step.process(records((5, "a"), (7, "b"), (20, "a")))
    assert stored_times(step) == {"a": (5, 20), "b": (7,)}
    step.ended(Watermark(17))
    assert stored_times(step) == {"a": (20,), "b": (7,)}
    step.ended(Watermark(18))
    assert stored_times(step) == {"a": (20,)}
    step.ended(Watermark(None))
    assert stored_times(step) == {}


def test_sources_at_different_speeds_pass_each_id_once_within_the_time() -> None:
    """The first source is far ahead of the second one, which holds the watermark."""
    step = build()
    assert passed(step, (100, "a"), (200, "a")) == [0, 1]
    assert passed(step, (50, "a"), (51, "a"), (60, "a"), (61, "a"), (90, "a")) == [0, 3]
    assert passed(step, (91, "a"), (111, "a"), (189, "a"), (190, "a"), (201, "a")) == [1, 2]
    assert stored_times(step) == {"a": (50, 61, 100, 111, 189, 200)}
    step.ended(Watermark(111))
    assert stored_times(step) == {"a": (111, 189, 200)}
    other = build()
    other.restore(step.save())
    other.ended(Watermark(122))
    assert stored_times(other) == {"a": (189, 200)}
    assert passed(other, (179, "a"), (178, "a")) == [1]


def test_a_restored_step_forgets_like_the_step_that_was_saved() -> None:
    step, other = build(), build()
    step.process(records((5, "a"), (7, "b")))
    other.restore(step.save())
    other.ended(Watermark(16))
    assert sorted(other.save()) == ["b"]


def test_records_without_an_id_or_a_time_are_rejected() -> None:
    result = build(name="once").process(records((None, "a"), (5, None), (5, "a"), (None, None)))
    assert result.records["_offset"].to_pylist() == [2]
    rejects = result.outputs["rejects"].select(["_offset", "step", "reason"]).to_pylist()
    assert [tuple(row.values()) for row in rejects] == [
        (0, "once", "no time"),
        (1, "once", "no id"),
        (3, "once", "no id"),
    ]


def test_an_id_may_have_several_fields() -> None:
    step = build(by=["id", "site"])
    assert passed(step, (5, "a"), (6, "a"), (7, "b")) == [0, 2]
    assert sorted(step.save()) == ['["a","a"]', '["b","a"]']


def test_the_traits_say_keyed_and_waiting_for_time() -> None:
    traits = build(by=["id", "site"]).traits
    assert (traits.scope, traits.key_fields, traits.ends) == (Scope.KEYED, ("id", "site"), frozenset({"time"}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "idd"}, "step 'dedupe', `by`: the records have no column 'idd' here; did you mean `id`?"),
        ({"by": ["id", "score"]}, "step 'dedupe', `by`: keys are text, but 'score' is double"),
    ],
)
def test_a_field_that_is_no_text_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        build(**options)
    assert message in str(refused.value)


@pytest.mark.parametrize("by", [[], ["id", "id"]])
def test_a_key_of_no_field_or_of_one_field_twice_is_refused(by: list[str]) -> None:
    with pytest.raises(ValidationError):
        Dedupe.model_validate({"by": by, "within": "1s"})


@pytest.mark.parametrize("by", ["id", ["site", "id"]])
def test_dedupe_passes_the_battery(by: Any) -> None:
    dice = random.Random(3)
    rows = [(dice.choice([None, number, number + 7]), dice.choice(["a", "b", "c", None])) for number in range(80)]
    check_step(Dedupe.model_validate({"by": by, "within": "4us"}), records(*rows))
