"""The memory of a join: what a match, a checkpoint and the records that leave copy, and when memory is freed."""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millstream.state.keyed_state import KeyedSnapshot
from millstream.steps import record_tables, waiting_records
from millstream.steps.contracts import JoinStep
from millstream.steps.join import Join
from millstream.substreams import Watermark

POSITION = [("_rank", pa.int32()), ("_offset", pa.int64()), ("_time", pa.int64())]
SCHEMA = pa.schema([*POSITION, ("id", pa.string()), ("text", pa.string())])


def copied() -> int:
    """The bytes that Arrow has allocated until now, also those that are free again."""
    return int(pa.default_memory_pool().total_bytes_allocated())


def build(schema: pa.Schema = SCHEMA, to_all: bool = False, **options: Any) -> JoinStep:
    config = Join.model_validate({"by": "id", "within": "10us", **options})
    return config.build_to_all([schema, SCHEMA]) if to_all else config.build([schema, SCHEMA])


def records(side: int, first: int, keys: Sequence[str], time: int, text: str | Sequence[str]) -> pa.Table:
    count = len(keys)
    texts = [text] * count if isinstance(text, str) else text
    columns = [[side] * count, range(first, first + count), [time] * count, keys, texts]
    return pa.table([pa.array(c, field.type) for c, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def process(step: JoinStep, side: int, table: pa.Table) -> pa.Table:
    none = SCHEMA.empty_table()
    given = [table, none] if side == 0 else [none, table]
    return step.process(given, np.full(table.num_rows, side, np.int8)).records


@pytest.mark.parametrize("to_all", [False, True])
@pytest.mark.parametrize("waiting", [1_000, 30_000])
def test_what_a_match_copies_does_not_depend_on_the_records_that_wait(waiting: int, to_all: bool) -> None:
    step = build(to_all=to_all)
    for first in range(0, waiting, 500):
        process(step, 0, records(0, first, [str(key) for key in range(first, first + 500)], 5, "x" * 300))
    partner = records(1, 0, ["7"], 5, "y")
    before = copied()
    assert process(step, 1, partner)["_other"].to_pylist() == [{"_rank": 0, "_offset": 7, "_path": b""}]
    assert 300 < copied() - before < 50_000


@pytest.mark.parametrize("to_all", [False, True])
def test_large_records_that_are_gone_are_freed_although_they_are_few(to_all: bool) -> None:
    """12 times 5 MB pass, in 600 records, while 1,000 small ones wait."""
    gc.collect()
    before = pa.total_allocated_bytes()
    step = build(to_all=to_all)
    process(step, 0, records(0, 0, [f"small {number}" for number in range(1_000)], 10**6, "x"))
    held = []
    for number in range(12):
        process(step, 0, records(0, 1_000 + 50 * number, ["large"] * 50, 100 * number, "x" * 100_000))
        step.ended(Watermark(100 * number + 50))
        held.append(pa.total_allocated_bytes() - before)
    assert max(held) < 30e6
    waiting = step._waiting  # type: ignore[attr-defined]
    assert len(waiting) == 1_000
    assert sum(tables.held for tables in waiting._records) <= max(held)


def test_texts_of_a_dictionary_are_freed_with_their_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_records, "_FEWEST_GONE", 100)
    schema = SCHEMA.set(4, pa.field("text", pa.dictionary(pa.int32(), pa.string())))
    gc.collect()
    step, before = build(schema), pa.total_allocated_bytes()
    for number in range(40):
        texts = [f"{number} {row} {'x' * 1_000}" for row in range(50)]
        table = records(0, 50 * number, ["a"] * 50, 100 * number, texts)
        times = pa.array([10**6] + [100 * number] * 49)  # the first one waits for long
        process(step, 0, table.set_column(2, "_time", times).cast(schema))
        step.ended(Watermark(100 * number + 50))
    assert pa.total_allocated_bytes() - before < 500_000, "2 MB have passed"


def rows_of(step: JoinStep, dice: random.Random, other: JoinStep) -> list[Any]:
    """The rows of some epochs with records of very different sizes; after half of them, `other` has the state."""
    made: list[Any] = []
    for number in range(12):
        for side in (0, 1):
            keys = dice.choices("abcdefghijklmnop", [40, *[1] * 15], k=12)
            texts = ["x" * dice.choice([0, 5, 40, 3_000]) for _ in keys]
            made += process(step, side, records(side, 12 * number, keys, 3 * number, texts)).to_pylist()
        rows = step.ended(Watermark(3 * number)).outputs.get("unmatched")
        made += [] if rows is None else rows.to_pylist()
        state = step.save()
        assert isinstance(state, KeyedSnapshot)
        made.append(list(state.in_order()))
        if number == 6:
            other.restore(state)
            other.resume(Watermark(3 * number))  # type: ignore[attr-defined]
            step = other
    rows = step.ended(Watermark(None)).outputs.get("unmatched")
    assert not step.save()
    return made + ([] if rows is None else rows.to_pylist())


@pytest.mark.parametrize("to_all", [False, True])
def test_rows_and_state_are_the_same_whatever_size_batches_have(to_all: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"how": "left" if to_all else "outer", "to_all": to_all, "within": "20us"}
    expected = rows_of(build(**options), random.Random(6), build(**options))
    for module in (record_tables, waiting_records):
        monkeypatch.setattr(module, "LARGEST", 700)
    monkeypatch.setattr(waiting_records, "_FEWEST_GONE", 30)
    monkeypatch.setattr(waiting_records, "_LEAST_GONE", 2_000)
    assert rows_of(build(**options), random.Random(6), build(**options)) == expected


@pytest.mark.parametrize("to_all", [False, True])
def test_no_piece_of_a_checkpoint_or_of_a_restart_is_larger_than_a_batch(
    to_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts of more than two gibibytes could not be in one piece; here the limit is less, and so are the texts."""
    for module in (record_tables, waiting_records):
        monkeypatch.setattr(module, "LARGEST", 10_000)
    step, other = build(how="left", to_all=to_all), build(how="left", to_all=to_all)
    process(step, 0, records(0, 0, [str(number % 3) for number in range(300)], 5, "x" * 200))
    encoded, decoded = sizes_of_pieces(step, other)
    other.restore(step.save())
    assert len(encoded) > 6 and max(encoded) < 15_000
    assert len(decoded) >= 6 and max(decoded) < (15_000 if to_all else 40_000), "one key is not divided"
    rows = other.ended(Watermark(None)).outputs["unmatched"]
    assert rows["_offset"].to_pylist() == [*range(300)]
    assert max(batch.nbytes for batch in rows.to_batches()) < 15_000


def sizes_of_pieces(step: JoinStep, other: JoinStep) -> tuple[list[int], list[int]]:
    """The bytes of each piece that the first step encodes, and that the other one decodes, from now on."""
    encoded, decoded = list[int](), list[int]()
    for codec in step._waiting._codecs:  # type: ignore[attr-defined]

        def encode(rows: Any, flags: Any, usual: Any = codec.encode) -> Any:
            encoded.append(rows.nbytes)
            return usual(rows, flags)

        codec.encode = encode
    for codec in other._waiting._codecs:  # type: ignore[attr-defined]

        def decode(values: Any, usual: Any = codec.decode) -> Any:
            decoded.append(sum(map(len, values)))
            return usual(values)

        codec.decode = decode
    return encoded, decoded
