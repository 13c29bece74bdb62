"""Pickles in the state of a model are found, whatever their protocol and wherever the state hides them."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable

import numpy as np
import pytest

from millstream.steps.checks.plain_state import find_object
from millstream.steps.contracts import Array

PLACES: dict[str, Callable[[bytes], Array | bytes]] = {
    "bytes": lambda content: content,
    "bytes behind a length of 8 bytes": lambda content: struct.pack("<Q", len(content)) + content,
    "bytes behind a length, with more behind them": lambda content: struct.pack(">I", len(content)) + content + b"more",
    "an array of bytes": lambda content: np.frombuffer(content, np.uint8),
    "an array of bytes behind a length": lambda content: np.frombuffer(
        struct.pack("<Q", len(content)) + content, np.uint8
    ),
    "numbers of 8 bytes": lambda content: np.frombuffer(content + bytes(-len(content) % 8), np.int64),
    "one of several byte strings": lambda content: np.array([b"", content, bytes(200) + b"x"]),
    "one of several texts": lambda content: np.array(["", content.decode("latin-1"), "x" * 400]),
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("place", PLACES)
def test_a_pickle_is_found(place: str, protocol: int) -> None:
    content = pickle.dumps({"counts": [1, 2.5], "names": ("a", None)}, protocol)
    found = find_object({"model": PLACES[place](content)})
    assert found is not None and found.startswith("'model' in its state as a pickle")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b".",
        b"N.",
        b'["a", "b"]',
        b"12.",
        b"(a text.)",
        np.zeros(1000),
        np.array([46]),
        np.array(["N.", "a text."]),
    ],
    ids=repr,
)
def test_plain_values_are_no_pickles(value: Array | bytes) -> None:
    assert find_object({"model": value}) is None


def test_random_bytes_are_no_pickles() -> None:
    dice = np.random.default_rng(1)
    states = {f"{number}": dice.integers(0, 256, number % 40).astype(np.uint8) for number in range(1000)}
    assert find_object(states) is None
