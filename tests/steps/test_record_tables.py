"""Records in slots: what is taken, merged and freed, and that no call copies more than it has to."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from millstream.steps import record_tables
from millstream.steps.record_tables import RecordTables, take_rows

SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string()), ("path", pa.binary()), ("right", pa.bool_())])
LARGEST = 4_000


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_tables, "LARGEST", LARGEST)


def copied() -> int:
    """The bytes that Arrow has allocated until now, also those that are free again."""
    return int(pa.default_memory_pool().total_bytes_allocated())


def records(first: int, count: int, size: int = 30, dice: random.Random | None = None) -> pa.Table:
    """Numbered records with texts of this size, or of random sizes up to it, and then also nulls."""
    sizes = [dice.randrange(size) if dice else size for _ in range(count)]
    texts = [None if dice and dice.random() < 0.1 else "x" * size for size in sizes]
    columns = [range(first, first + count), texts, [b"p"] * count, [number % 3 == 0 for number in range(count)]]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)


def sizes(tables: RecordTables) -> list[int]:
    return [batch.nbytes for batch in tables._batches]


def test_records_of_random_slots_are_those_of_one_table_whatever_was_merged_and_freed(small_batches: None) -> None:
    dice = random.Random(3)
    tables, whole = RecordTables(SCHEMA), SCHEMA.empty_table()
    most = 0
    for number in range(300):
        added = records(1_000 * number, dice.randrange(1, 40), 60, dice)
        if number % 7 == 0:  # a table of several pieces
            added = pa.concat_tables([added.slice(0, 3), added.slice(3)])
        tables.add(added)
        whole = pa.concat_tables([whole, added]).combine_chunks()
        slots = np.array(dice.choices(range(whole.num_rows), k=dice.randrange(60)), np.int64)
        assert tables.take(slots).equals(whole.take(pa.array(slots)))
        most = max(most, len(sizes(tables)))
        if number % 40 == 39:
            live = np.array([dice.random() < 0.3 for _ in range(whole.num_rows)])
            tables.leave(np.flatnonzero(~live))
            before = tables.held
            assert tables.gone == pytest.approx(whole.filter(~live).nbytes, rel=0.1)
            tables.free(live)
            whole = whole.filter(pa.array(live))
            assert (tables.held, tables.gone) == (sum(sizes(tables)), 0)
            assert tables.held < 0.5 * before
    assert max(sizes(tables)) <= 1.1 * LARGEST
    assert most < 60, "small batches are merged"


def test_what_is_taken_comes_in_batches_of_a_bounded_size_and_a_larger_record_alone(small_batches: None) -> None:
    tables = RecordTables(SCHEMA)
    tables.add(records(0, 50, 100))
    tables.add(records(50, 1, 3 * LARGEST))
    slots = np.array([*range(50), 50, 0, 50, 50, *[1] * 200])
    parts = list(tables.parts(slots))
    assert pa.Table.from_batches(parts)["number"].to_pylist() == slots.tolist()
    assert all(part.nbytes <= 1.1 * LARGEST or part.num_rows == 1 for part in parts)
    assert len(parts) < 15
    assert take_rows(records(0, 50, 1_000), np.array([*range(49, -1, -1)])).equals(
        records(0, 50, 1_000).take(pa.array(range(49, -1, -1)))
    )


def test_a_column_may_have_more_than_two_gibibytes() -> None:
    """The records share one text in memory, so that the test needs only this memory and that of the result."""
    size = 1 << 26
    data, ends = pa.py_buffer(bytes(size)), pa.py_buffer(np.array([0, size], np.int32))
    text = pa.StringArray.from_buffers(1, ends, data)
    tables = RecordTables(SCHEMA)
    for number in range(40):
        tables.add(pa.table([pa.array([number]), text, pa.array([b""]), pa.array([True])], schema=SCHEMA))
    assert tables.held > 2**31
    taken = tables.take(np.array([35]))
    assert taken["number"].to_pylist() == [35] and taken.nbytes == pytest.approx(size, rel=0.01)
    tables.leave(np.arange(39))
    tables.free(np.arange(40) == 39)
    assert tables.held == pytest.approx(size, rel=0.01)
    assert tables.take(np.array([0]))["number"].to_pylist() == [39]


@pytest.mark.parametrize("waiting", [1_000, 60_000])
def test_what_taking_a_record_copies_does_not_depend_on_the_records_that_are_held(waiting: int) -> None:
    tables = RecordTables(SCHEMA)
    for first in range(0, waiting, 500):
        tables.add(records(first, 500, 300))
    before = copied()
    assert tables.take(np.array([waiting - 1, 7]))["number"].to_pylist() == [waiting - 1, 7]
    assert 600 < copied() - before < 20_000


def test_only_a_batch_with_records_that_are_gone_is_copied(small_batches: None) -> None:
    tables = RecordTables(SCHEMA)
    for first in range(0, 2_000, 20):
        tables.add(records(first, 20, 150))
    gone = np.arange(990, 1_010)
    before = list(tables._batches)
    tables.free(~np.isin(np.arange(2_000), gone))
    assert tables.take(np.array([989, 990]))["number"].to_pylist() == [989, 1_010]
    copies = sum(all(batch is not old for old in before) for batch in tables._batches)
    assert (len(before), len(tables._batches), copies) == (100, 99, 1)
