"""Two states have the same digest only if their names, types, shapes and bits are equal."""

from __future__ import annotations

import numpy as np
import pytest

from millstream.state.digests import state_digest

NUMBERS = np.arange(6, dtype=np.float64)


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


def test_python_objects_are_refused_with_a_hint() -> None:
    with pytest.raises(
        TypeError, match="state 'a' is an array of Python objects; save arrays of numbers, or bytes of JSON"
    ):
        state_digest({"a": np.array(["x"], np.object_)})
