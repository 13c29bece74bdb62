"""A join with `to: all`: owners of shards that share left records and all hold the right ones make the rows of one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millstream.digests import Digest
from millstream.errors import StepFailed
from millstream.records import no_records
from millstream.state.digests import state_digest
from millstream.state.keyed_state import KeyedSnapshot, ShardedSnapshot
from millstream.state.shards import SHARDS
from millstream.steps.child_paths import with_child_paths, with_partner_paths
from millstream.steps.contracts import JoinStep, OwnsShards, ReadsAll
from millstream.steps.join import Join
from millstream.steps.keys import position_keys, shards_of
from millstream.steps.round_paths import rounds_of
from millstream.substreams import Watermark

IDENTITY = [("_rank", pa.int32()), ("_offset", pa.int64()), ("_time", pa.int64()), ("_path", pa.binary())]
LEFT = pa.schema([*IDENTITY, ("id", pa.string()), ("text", pa.string())])
RIGHT = pa.schema([*IDENTITY, ("id", pa.string()), ("rate", pa.int64())])
Epoch = tuple[pa.Table, pa.Table, np.ndarray[Any, Any]]


def build(to_all: bool = True, **options: Any) -> JoinStep:
    config = Join.model_validate({"by": "id", "within": "20us", "how": "left", "lateness": "5us", **options})
    return config.build_to_all([LEFT, RIGHT]) if to_all else config.build([LEFT, RIGHT])


def records(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def epochs(count: int, dice: random.Random) -> Iterator[Epoch]:
    """Epochs of 60 records, some without a key or a time; left ones are often siblings, and six of ten have one key."""
    for epoch in range(count):
        sides, rows = [], list[list[tuple[Any, ...]]]([[], []])
        for number in range(60):
            side = int(dice.random() < 0.2)
            key = dice.choice(["eur"] * 6 + ["usd", "chf", "gbp", None])
            time = None if dice.random() < 0.05 else epoch * 10 + dice.randrange(-8, 10)
            at = epoch * 60 + number
            for child in range(1 if side else dice.randrange(1, 3)):
                sides.append(side)
                rows[side].append((side, at, time, child.to_bytes(4), key, at if side else f"text {at}"))
        yield records(LEFT, rows[0]), records(RIGHT, rows[1]), np.array(sides, np.int8)


class Owners:
    """Some owners of the shards of one step."""

    def __init__(self, count: int, **options: Any) -> None:
        self.steps = [build(**options) for _ in range(count)]
        for index, step in enumerate(self.steps):
            assert isinstance(step, OwnsShards)
            step.own(lambda shard, index=index: shard % count == index)  # type: ignore[misc]

    def process(self, left: pa.Table, right: pa.Table, order: np.ndarray[Any, Any]) -> list[dict[str, Any]]:
        owner = shards_of(position_keys(left), SHARDS) % len(self.steps)
        made = []
        for index, step in enumerate(self.steps):
            here = np.ones(len(order), np.bool_)
            here[order == 0] = owner == index
            result = step.process([left.filter(pa.array(owner == index)), right], order[here])
            made.append({"joined": result.records, **result.outputs})
        return made

    def ended(self, time: int) -> list[dict[str, Any]]:
        return [dict(step.ended(Watermark(time)).outputs) for step in self.steps]

    def save(self) -> ShardedSnapshot:
        """The state of all shards, each from its owner."""
        saved = [step.save() for step in self.steps]
        parts: list[KeyedSnapshot] = []
        for shard in range(SHARDS):
            owned = [state.by_shard[shard] for state in saved if isinstance(state, ShardedSnapshot)]
            assert sum(len(part) > 0 for part in owned) <= 1, f"two owners of shard {shard}"
            parts.append(owned[shard % len(saved)])
        return ShardedSnapshot(parts)

    def restore(self, state: ShardedSnapshot, time: int) -> None:
        for step in self.steps:
            step.restore(state)
            step.resume(Watermark(time))  # type: ignore[attr-defined]


def together(made: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of all owners, in one order."""
    names = {name for each in made for name in each}
    rows = {name: [row for each in made if name in each for row in each[name].to_pylist()] for name in names}
    return {name: sorted(each, key=repr) for name, each in rows.items() if each}


@pytest.mark.parametrize("restart", [False, True])
def test_owners_together_make_the_rows_and_the_state_of_one(restart: bool) -> None:
    one, several = Owners(1), Owners(3)
    seen = set[str]()
    for number, epoch in enumerate(epochs(25, random.Random(4))):
        expected = together(one.process(*epoch))
        assert together(several.process(*epoch)) == expected
        seen |= expected.keys()
        time = number * 10 + 9
        expected = together(one.ended(time))
        assert together(several.ended(time)) == expected
        seen |= expected.keys()
        state = one.save()
        assert state_digest(several.save(), "join") == state_digest(state, "join") != Digest()
        if restart and number % 4 == 1:
            several = Owners(2 + number % 3)
            several.restore(state, time)
    assert seen == {"joined", "late", "rejects", "unmatched"}
    one.ended(10**9)
    assert not one.save().to_dict()


def test_the_matches_are_those_of_the_join_by_key_and_those_that_a_left_record_completes_are_the_same() -> None:
    step, plain = build(), build(to_all=False)
    for number, (left, right, order) in enumerate(epochs(20, random.Random(2))):
        made, other = (each.process([left, right], order).records for each in (step, plain))
        assert sorted(map(repr, without_path(made))) == sorted(map(repr, without_path(other)))
        assert [row for row in made.to_pylist() if row["_rank"] == 0] == [
            row for row in other.to_pylist() if row["_rank"] == 0
        ]
        for each in (step, plain):
            each.ended(Watermark(number * 10))


def without_path(rows: pa.Table) -> list[Any]:
    return list(rows.drop_columns(["_path"]).to_pylist())


def test_records_of_one_position_that_come_twice_are_saved_and_leave() -> None:
    """With at_least_once, an epoch may come again to the state that has it already."""
    epoch = records(LEFT, [(0, 1, 5, b"", "a", "x"), (0, 2, 5, b"", "b", "y")]), no_records(RIGHT), np.zeros(2, np.int8)
    later = records(LEFT, [(0, 1, 9, b"", "a", "x")]), no_records(RIGHT), np.zeros(1, np.int8)
    step = Owners(1)
    step.process(*epoch)
    step.save()
    step.process(*later)
    state = step.save()
    assert [*state.to_dict()] == ["<0/0"]
    restored = Owners(2)
    restored.restore(state, 0)
    for each in (step, restored):
        first, second = (together(each.ended(time)).get("unmatched", []) for time in (31, 50))
        assert [row["_offset"] for row in first] == [1, 2] and [row["_time"] for row in second] == [9]
        assert not each.save().to_dict()


def test_memory_is_freed_while_records_leave_and_the_state_follows() -> None:
    step, rows = build(), 30_000
    for number in range(7):
        offsets = np.arange(number * rows, (number + 1) * rows)
        columns = [np.zeros(rows, np.int32), offsets, np.full(rows, number * 100), [b""] * rows, ["eur"] * rows]
        table = pa.table(dict(zip(LEFT.names, [*columns, ["x"] * rows], strict=True)), schema=LEFT)
        rate = records(RIGHT, [(1, number, number * 100, b"", "usd", number)])
        step.process([table, rate], np.r_[np.zeros(rows, np.int8), 1])
        step.ended(Watermark(number * 100 + 10))
        if number < 6:  # later records leave after memory was freed, and before they are saved again
            assert len(step.save()) == rows // 16 + 1
    waiting = step._waiting  # type: ignore[attr-defined]
    assert len(waiting) == rows + 1 and waiting._sizes[0] <= 4 * rows
    step.ended(Watermark(10_000))
    assert not dict(step.save())


def test_most_counts_the_left_records_of_a_hot_key_in_all_shards() -> None:
    rows = [(0, offset * 16, 5, b"", "eur", "x") for offset in range(640)]
    given = [records(LEFT, rows), no_records(RIGHT)], np.zeros(640, np.int8)
    with pytest.raises(StepFailed, match="holds 640 records"):
        build(to_all=False, most=64 * 30).process(*given)
    build(most=64 * 30).process(*given)
    with pytest.raises(StepFailed, match=r"in shard \d+, and `most` 128 allows 2 .*; the key with the most is 'eur'"):
        build(most=64 * 2).process(*given)


def test_the_paths_of_partners_tell_all_pairs_apart_and_have_no_rounds() -> None:
    dice = random.Random(1)
    items = [b"", *(number.to_bytes(4) for number in (0, 1, 0x80000001, 0x40000000)), b'["a"]']
    paths = sorted({b"".join(dice.choices(items, k=3)) for _ in range(60)} | {*items})
    partners = [(rank, offset, path) for rank in (-1, 0, 1) for offset in (0, 1, 2**31, 2**40) for path in paths]
    parents = [path for path in paths if b"[" not in path]
    made = list[bytes]()
    for parent in parents:
        ranks, offsets, others = zip(*partners, strict=True)
        own = pa.table({"_path": pa.array([parent] * len(partners), pa.binary())})
        named = with_partner_paths(own, np.array(ranks), np.array(offsets), pa.array(others, pa.binary()))["_path"]
        assert set(rounds_of(named).tolist()) == set(rounds_of(pa.array([parent], pa.binary())).tolist())
        made += named.to_pylist()
        made += with_child_paths(own.slice(0, 3), np.arange(3))["_path"].to_pylist()
    assert len(set(made)) == len(made)


def test_only_the_owner_of_a_shard_counts_its_right_records() -> None:
    rates = [(1, offset, 5, b"", "eur", offset) for offset in range(640)]
    [shard] = {*shards_of(pa.array([">eur"]), SHARDS).tolist()}
    for step, is_owner in zip(Owners(2, most=64 * 30).steps, (shard % 2 == 0, shard % 2 == 1), strict=True):
        given = [no_records(LEFT), records(RIGHT, rates)], np.ones(640, np.int8)
        if is_owner:
            with pytest.raises(StepFailed, match=f"holds 640 records that wait for others in shard {shard}"):
                step.process(*given)
        else:
            step.process(*given)


@pytest.mark.parametrize("owners", [2, 3, 7])
def test_positions_are_spread_evenly(owners: int) -> None:
    offsets = np.arange(100_000)
    keys = position_keys(pa.table({"_rank": offsets.astype(np.int32) % 3, "_offset": offsets // 3}))
    counts = np.bincount(shards_of(keys, SHARDS) % owners)
    even = np.bincount(np.arange(SHARDS) % owners) / SHARDS * len(offsets)
    assert len(counts) == owners and (abs(counts - even) < 0.1 * even).all()


def test_only_joins_that_need_no_unmatched_right_records_can_send_them_to_all() -> None:
    for how, key in (("inner", None), ("left", None), ("outer", "how")):
        config = Join.model_validate({"by": "id", "within": "1s", "how": how})
        assert isinstance(config, ReadsAll)
        wrong = config.not_to_all()
        assert (wrong and wrong[0]) == key
    assert build().traits.to_all and not build(to_all=False).traits.to_all
