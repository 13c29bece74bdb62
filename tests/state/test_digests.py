"""Two states have the same digest only if their names, types, shapes and bits are equal."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from support.row_hash import sums_of

from millstream.digests import Digest
from millstream.state.digests import state_digest, states_digest
from millstream.state.keyed_state import Entries, KeyedSnapshot, KeyedStore
from millstream.steps.contracts import State

NUMBERS = np.arange(6, dtype=np.float64)


def stored(entries: dict[str, bytes]) -> KeyedSnapshot:
    store = KeyedStore()
    store.restore(entries)
    return store.snapshot()


@pytest.mark.parametrize(
    "other",
    [
        {"b": NUMBERS},
        {"a": NUMBERS.reshape(2, 3)},
        {"a": NUMBERS.view(np.int64)},
        {"a": NUMBERS.tobytes()},
        {"a": np.where(NUMBERS == 0, -0.0, NUMBERS)},
        {"a": NUMBERS, "b": b""},
        {},
    ],
)
def test_different_states_have_different_digests(
    other: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]],
) -> None:
    assert state_digest({"a": NUMBERS}) != state_digest(other)


def test_bytes_cannot_imitate_another_name() -> None:
    assert state_digest({"a": b"xb\0bytes(1)\0y"}) != state_digest({"a": b"x", "b": b"y"})


def test_the_memory_layout_of_an_array_does_not_change_its_digest() -> None:
    table = NUMBERS.reshape(2, 3)
    assert state_digest({"a": table}) == state_digest({"a": np.asfortranarray(table)})
    assert state_digest({"a": NUMBERS[::2]}) == state_digest({"a": NUMBERS[::2].copy()})


def test_an_empty_array_and_a_single_number_have_digests() -> None:
    assert state_digest({"a": np.zeros(0)}) != state_digest({"a": np.array(0.0)})


def test_the_digest_of_a_state_is_that_of_the_plain_definition() -> None:
    table = np.array([[1.0, 2.0], [0.0, 0.0], [0.0, -0.0]])
    head = pa.table({"step": ["s"], "name": ["a"], "dtype": ["<f8"], "shape": pa.array([[3, 2]], pa.list_(pa.int64()))})
    values = [row.tobytes() for row in table[[0, 2]]]
    rows = pa.table({"step": ["s", "s"], "name": ["a", "a"], "row": [0, 2], "value": pa.array(values, pa.binary())})
    alone = pa.table({"step": ["s"], "name": ["b"], "value": pa.array([b"x"], pa.binary())})
    expected = sum((Digest(*sums_of(each)) for each in (head, rows, alone)), Digest())
    assert state_digest({"a": table, "b": b"x"}, "s") == expected == states_digest({"s": {"a": table, "b": b"x"}})


def test_rows_of_zeros_add_nothing() -> None:
    table = np.zeros((100_000, 3), np.float32)
    table[70_000] = 1
    assert state_digest({"a": table}).count == 2  # the shape and one row
    moved = np.roll(table, 1, axis=0)
    assert state_digest({"a": table}) != state_digest({"a": moved})


@pytest.mark.parametrize("owned", [dict, Entries, stored], ids=["names", "keys", "store"])
def test_the_digests_of_keys_dealt_to_three_owners_add(owned: Callable[[dict[str, bytes]], State]) -> None:
    dice = random.Random(4)
    keys = {f"key {number}": dice.randbytes(dice.randrange(30)) for number in range(40_000)}
    dealt: list[dict[str, bytes]] = [{}, {}, {}]
    for key, value in keys.items():
        dealt[dice.randrange(3)][key] = value
    added = sum((state_digest(owned(part), "per_key") for part in dealt), Digest())
    assert added == state_digest(owned(keys), "per_key")
    assert added.count == len(keys)
    assert added != state_digest(owned(keys), "another_step")


def test_python_objects_are_refused_with_a_hint() -> None:
    with pytest.raises(
        TypeError, match="state 'a' is an array of Python objects; save arrays of numbers, or bytes of JSON"
    ):
        state_digest({"a": np.array(["x"], np.object_)})
