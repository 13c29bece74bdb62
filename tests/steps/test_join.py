"""Join: the matches of a key within a time or a window, unmatched and late records, and what is refused."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from millstream.config.pipeline import NamedStep
from millstream.errors import ConfigError, StepFailed
from millstream.steps.boundary_order import in_boundary_order
from millstream.steps.checks import check_join
from millstream.steps.contracts import FindsLateRecords, JoinStep, Scope
from millstream.steps.join import Join
from millstream.steps.nodes import build_node
from millstream.substreams import Watermark

POSITION = [("_rank", pa.int32()), ("_offset", pa.int64()), ("_time", pa.int64())]
LEFT = pa.schema([*POSITION, ("id", pa.string()), ("text", pa.string()), ("score", pa.float64())])
RIGHT = pa.schema([*POSITION, ("id", pa.string()), ("text", pa.string()), ("label", pa.string())])
Row = tuple[int, int | None, str | None]
"""A record: its side, its time and its id."""


def numbered(rows: int, first: int, times: Any) -> pa.Table:
    """Records of the left stream with these times and a key each, from `first` on."""
    keys = pa.array(np.arange(first, first + rows)).cast(pa.string())
    columns = [np.zeros(rows, np.int32), np.arange(rows), times, keys, keys, np.zeros(rows)]
    return pa.table(dict(zip(LEFT.names, columns, strict=True)), schema=LEFT)


def build(**options: Any) -> JoinStep:
    return Join.model_validate({"by": "id", **options}).build([LEFT, RIGHT])


def tables(rows: Sequence[Row], start: int = 0) -> tuple[list[pa.Table], np.ndarray[Any, Any]]:
    """Records in their order; the offsets of both sides are counted together, from `start` on."""
    inputs = []
    for side, schema in enumerate((LEFT, RIGHT)):
        mine = [(start + index, time, key) for index, (of, time, key) in enumerate(rows) if of == side]
        offsets, times, keys = zip(*mine, strict=True) if mine else ((), (), ())
        last = [offset / 2 for offset in offsets] if side == 0 else [f"label {offset}" for offset in offsets]
        columns = [[side] * len(mine), offsets, times, keys, [f"text {offset}" for offset in offsets], last]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        inputs.append(pa.Table.from_arrays(arrays, schema=schema))
    return inputs, np.array([side for side, _, _ in rows], np.int8)


def matches(step: JoinStep, rows: Sequence[Row], start: int = 0) -> list[tuple[int, int]]:
    """The offsets of the joined records: of the one that completed the match, and of the other one."""
    made = step.process(*tables(rows, start)).records
    return [(row["_offset"], row["_other"]["_offset"]) for row in made.to_pylist()]


def unmatched(step: JoinStep, watermark: int | None) -> list[int]:
    rows = step.ended(Watermark(watermark)).outputs.get("unmatched")
    return [] if rows is None else list(in_boundary_order(rows)["_offset"].to_pylist())


def test_a_joined_record_is_a_child_of_the_record_that_completed_it_and_names_the_other() -> None:
    made = build(within="10us").process(*tables([(0, 1, "a"), (0, 2, "a"), (1, 5, "a")])).records.to_pylist()
    first = {
        "_rank": 1, "_offset": 2, "_time": 5, "_path": bytes(4), "_other": {"_rank": 0, "_offset": 0, "_path": b""},
        "id": "a", "text": "text 0", "score": 0.0, "right_text": "text 2", "label": "label 2",
    }  # fmt: skip
    second = {
        **first, "_path": bytes([0, 0, 0, 1]), "_other": {"_rank": 0, "_offset": 1, "_path": b""},
        "text": "text 1", "score": 0.5,
    }  # fmt: skip
    assert made == [first, second]


def test_both_streams_may_complete_a_pair_and_the_bound_is_included() -> None:
    assert matches(build(within="10us"), [(1, 5, "a"), (0, 15, "a"), (0, 16, "a"), (1, 26, "a")]) == [(1, 0), (3, 2)]
    assert matches(build(within="0s"), [(1, 5, "a"), (0, 5, "a"), (0, 6, "a")]) == [(1, 0)]


def test_a_record_waits_over_batches_until_the_watermark_has_passed_it() -> None:
    step = build(within="10us")
    assert matches(step, [(0, 5, "a"), (0, 6, "b")]) == []
    step.ended(Watermark(15))
    assert sorted(step.save()) == ["a", "b"]
    step.ended(Watermark(16))
    assert sorted(step.save()) == ["b"]
    assert matches(step, [(1, 16, "a"), (1, 16, "b")], start=2) == [(3, 1)]


def test_records_of_one_window_are_joined() -> None:
    step = build(window={"type": "tumbling", "size": "10us", "lateness": "2us"}, how="outer")
    assert matches(step, [(0, 1, "a"), (1, 9, "a"), (1, 10, "a"), (0, 19, "a"), (0, 20, "b")]) == [(1, 0), (3, 2)]
    assert unmatched(step, 31) == []
    assert step.process(*tables([(1, 19, "b")])).outputs["late"].num_rows == 1
    assert unmatched(step, 32) == [4]
    assert step.traits.held_back == 12


@pytest.mark.parametrize(("how", "expected"), [("inner", []), ("left", [0]), ("outer", [3, 0])])
def test_records_that_were_never_joined_are_rows_when_no_partner_can_come(how: str, expected: list[int]) -> None:
    step = build(within="10us", how=how)
    rows: list[Row] = [(0, 7, "a"), (0, 5, "b"), (1, 5, "b"), (1, 4, "c")]
    assert matches(step, rows) == [(2, 1)]
    assert unmatched(step, 14) == []
    assert unmatched(step, 18) == expected
    assert dict(step.save()) == {}
    assert [output.name for output in step.outputs] == [*([] if how == "inner" else ["unmatched"]), "late", "rejects"]


def test_an_unmatched_row_has_its_own_identity_and_nulls_for_the_other_stream() -> None:
    step = build(within="10us", how="outer")
    step.process(*tables([(1, 5, "a")]))
    [row] = step.ended(Watermark(None)).outputs["unmatched"].to_pylist()
    assert row == {
        "_rank": 1, "_offset": 0, "_time": 5, "_path": b"", "_other": None, "id": "a", "text": None, "score": None,
        "right_text": "text 0", "label": "label 0",
    }  # fmt: skip


def test_a_late_record_is_not_joined() -> None:
    step = build(within="10us", how="outer", lateness="3us")
    step.process(*tables([(0, 5, "a"), (0, 18, "a")]))
    assert unmatched(step, 19) == [0]
    result = step.process(*tables([(1, 15, "a"), (1, 16, "a")], start=2))
    assert result.outputs["late"].to_pylist() == [{"_rank": 1, "_offset": 2, "_time": 15, "_path": b"", "id": "a"}]
    assert result.records["_offset"].to_pylist() == [3]
    assert step.traits.held_back == 13


def test_records_without_a_key_or_a_time_are_rejected_in_their_order() -> None:
    result = build(within="10us", name="both").process(
        *tables([(1, None, "a"), (0, 5, None), (0, 5, "a"), (1, 5, None)])
    )
    rejects = result.outputs["rejects"].select(["_rank", "_offset", "step", "reason"]).to_pylist()
    assert [tuple(row.values()) for row in rejects] == [
        (1, 0, "both", "no time"),
        (0, 1, "both", "no id"),
        (1, 3, "both", "no id"),
    ]


def test_a_restored_join_continues_with_its_watermark() -> None:
    step, other = build(within="10us", how="left"), build(within="10us", how="left")
    step.process(*tables([(0, 5, "a"), (1, 6, "a"), (0, 8, "b"), (0, 9, "b")]))
    step.ended(Watermark(7))
    other.restore(step.save())
    assert isinstance(other, FindsLateRecords)
    other.resume(Watermark(7))
    for each in (step, other):
        assert matches(each, [(1, 7, "b"), (1, 6, "b")], start=4) == [(4, 2), (4, 3)]
        assert unmatched(each, None) == []


# Many records


def expected_matches(rows: Sequence[Row], within: int) -> list[tuple[int, int]]:
    """All matches by comparing each record with all before it."""
    return [
        (late, early)
        for late, (side, time, key) in enumerate(rows)
        for early, (of, before, same) in enumerate(rows[:late])
        if of != side and same == key and abs(before - time) <= within  # type: ignore[operator]
    ]


def test_a_join_in_many_epochs_makes_the_pairs_of_a_comparison_of_all_records() -> None:
    dice = random.Random(5)
    rows: list[Row] = [
        (dice.randrange(2), number // 3 + dice.randrange(40), f"{dice.randrange(30)}") for number in range(3000)
    ]
    step = build(within="25us", how="outer")
    found, lonely, watermark = [], [], 0
    for start in range(0, len(rows), 100):
        epoch = rows[start : start + 100]
        found += matches(step, epoch, start)
        watermark = min((time or 0 for _, time, _ in rows[start + 100 :]), default=10**9)
        lonely += unmatched(step, watermark)
        if start == 1500:
            saved = step.save()
            step = build(within="25us", how="outer")
            step.restore(saved)
    assert found == expected_matches(rows, 25)
    assert sorted(lonely) == sorted(set(range(len(rows))) - set(itertools.chain(*found)))
    assert dict(step.save()) == {}


def test_memory_is_freed_while_records_leave() -> None:
    """The state of a join with ends does not grow: the rows in memory stay below a bound, however many pass."""
    step = build(within="10us")
    sizes = []
    for number in range(40):
        table = numbered(20_000, number * 20_000, np.full(20_000, number * 100))
        step.process([table, RIGHT.empty_table()], np.zeros(20_000, np.int8))
        step.ended(Watermark(number * 100 + 50))
        waiting = step._waiting  # type: ignore[attr-defined]
        sizes.append((waiting._sizes[0], len(waiting._names)))
        assert len(waiting) == 0
    assert max(rows for rows, _ in sizes) <= 100_000
    assert max(names for _, names in sizes) <= 100_000


def test_a_million_open_keys_wait_and_more_than_a_shards_part_of_most_are_an_error() -> None:
    rows = 1_000_000
    table = numbered(rows, 0, np.arange(rows))
    step = build(within="10s", most=64 * 16_000)  # the keys are not quite even: 15,398 to 15,920 in a shard
    step.process([table, RIGHT.empty_table()], np.zeros(rows, np.int8))
    assert matches(step, [(1, 7, "999999"), *[(0, 7, "x")] * 167]) == [(0, 999_999)]
    message = r"step 'join' holds 16,001 records that wait for others in shard 10, and `most` 1,024,000 allows 16,000"
    with pytest.raises(StepFailed, match=rf"{message} in each of 64 shards; the key with the most is 'x'; join within"):
        matches(step, [(0, 7, "x")])


# Configs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "idd"}, "step 'join', `by`: the records have no column 'idd' here; did you mean `id`?"),
        ({"by": "score"}, "step 'join', `by`: keys are text, but 'score' is double; name a text column"),
        ({"by": ["id", "label"]}, "`by`: the records have no column 'label' here; there are id, text, score"),
    ],
)
def test_a_key_that_is_no_text_of_both_streams_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        build(within="1s", **options)
    assert message in str(refused.value)


def test_the_stream_without_the_key_is_named() -> None:
    config = Join.model_validate({"by": "score", "within": "1s", "name": "both"})
    scored = LEFT.set(LEFT.get_field_index("score"), pa.field("score", pa.string()))
    message = "step 'both', `by`, stream 'labels': the records have no column 'score' here; there are id, text, label"
    with pytest.raises(ConfigError, match=f"^{message}$"):
        build_node(NamedStep("both", config), [scored, RIGHT], ("texts", "labels"))


def test_a_join_needs_two_streams_and_fields_that_can_wait() -> None:
    config = Join.model_validate({"by": "id", "within": "1s"})
    with pytest.raises(ConfigError, match=r"a join reads two streams, and `from` names 1"):
        config.build([LEFT])
    with pytest.raises(ConfigError, match=r"records with 'features', a list<.*>, cannot wait for others"):
        config.build([LEFT.append(pa.field("features", pa.list_(pa.int32()))), RIGHT])


def test_a_stream_can_be_joined_twice_with_streams_of_the_same_fields() -> None:
    """As in a chain of two joins that both read one source on the right."""
    inputs, order = tables([(0, 1, "a"), (1, 2, "a")])
    made = build(within="10us").process(inputs, order).records
    second = Join.model_validate({"by": "id", "within": "10us"}).build([made.schema, RIGHT])
    later, _ = tables([(1, 3, "a")], start=7)
    [joined] = second.process([made, later[1]], np.array([0, 1], np.int8)).records.to_pylist()
    fields = {name: value for name, value in joined.items() if not name.startswith("_")}
    assert fields == {
        "id": "a", "text": "text 0", "score": 0.0, "right_text": "text 1", "label": "label 1",
        "right_right_text": "text 7", "right_label": "label 7",
    }  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [{}, {"within": "1s", "window": {"size": "1h"}}, {"window": {"size": "1h"}, "lateness": "1m"}, {"within": "-1s"}],
)
def test_a_join_has_one_bound(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Join.model_validate({"by": "id", **options})


def test_the_traits_say_keyed_and_waiting_for_time() -> None:
    traits = build(within="10us").traits
    assert (traits.scope, traits.key_fields, traits.held_back) == (Scope.KEYED, ("id",), 0)
    assert traits.ends == frozenset({"time"})


@pytest.mark.parametrize(
    "options",
    [
        {"within": "6us"},
        {"within": "6us", "how": "left", "lateness": "2us"},
        {"window": {"size": "7us"}, "how": "outer"},
        {"within": "9us", "how": "outer", "by": ["id", "text"]},
    ],
)
def test_join_passes_the_battery(options: dict[str, Any]) -> None:
    dice = random.Random(9)
    rows: list[Row] = [
        (dice.randrange(2), dice.choice([None, *[number + dice.randrange(3)] * 9]), dice.choice(["a", "b", "c", None]))
        for number in range(90)
    ]
    inputs, _ = tables(rows)
    same = [table.set_column(4, "text", pa.array(["x"] * len(table))) for table in inputs]
    check_join(Join.model_validate({"by": "id", **options}), same)
