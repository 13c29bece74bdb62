"""The check that a state has plain values: arrays of numbers and byte strings, and no pickle in either of them."""

from __future__ import annotations

import io
import pickletools
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np

from millstream.state.dirty_rows import ArraySnapshot

__all__ = ["find_object"]

_PADDING = 16
"""The most zero bytes after a pickle, which fill the last item of an array."""
_LENGTHS = (0, 4, 8)
"""The sizes of a length that comes before a pickle; 0: there is no length."""
_ORDERS: tuple[Literal["little", "big"], ...] = ("little", "big")
_FEWEST = 3
"""The fewest operations of a pickle that says more than `None`. Two bytes could be a number by chance."""


def find_object(state: object) -> str | None:
    """Describe the first value of a state that holds Python objects; None if there is none.

    >>> import pickle
    >>> find_object({"counts": np.arange(3), "names": b'["a", "b"]'})
    >>> find_object({"model": np.frombuffer(pickle.dumps([1, 2]), np.uint8)})
    "'model' in its state as a pickle in an array; use arrays of numbers, or JSON"
    """
    if not isinstance(state, Mapping):
        return f"a state of the type {type(state).__name__}; let `save` return a dict of arrays and bytes"
    for name, value in state.items():
        if (found := _object_in(value)) is not None:
            return f"{name!r} in its state as {found}"
    return None


def _object_in(value: object) -> str | None:
    if isinstance(value, bytes):
        return "a pickle; use arrays, or JSON" if _is_pickle(value) else None
    if not isinstance(value, np.ndarray | ArraySnapshot):
        return f"{type(value).__name__}; use arrays of numbers, or bytes"
    if value.dtype.hasobject:
        return "an array of Python objects; use arrays of numbers, or bytes"
    if any(_is_pickle(content) for content in _contents(np.ascontiguousarray(np.asarray(value)))):
        return "a pickle in an array; use arrays of numbers, or JSON"
    return None


def _contents(array: np.ndarray[Any, Any]) -> Iterator[bytes]:
    """The bytes of an array, and of each of its items if the items are byte strings or texts."""
    yield array.tobytes()
    if array.dtype.kind == "S":
        yield from array.ravel().tolist()
    if array.dtype.kind == "U":
        yield from (text.encode("latin-1", "ignore") for text in array.ravel().tolist())


def _is_pickle(content: bytes) -> bool:
    """True if the content is one whole pickle of any protocol, or begins with a length and a pickle of that length."""
    return any(_pickle_ends(content, size) for size in _LENGTHS)


def _pickle_ends(content: bytes, start: int) -> bool:
    """True if a pickle begins at `start`, and ends with the content or where the length before it says."""
    try:
        operations, size = 0, 0
        for _, _, position in pickletools.genops(content[start:]):
            operations, size = operations + 1, (position or 0) + 1
        pickletools.dis(content[start : start + size], io.StringIO())  # raises if the stack is not empty at the end
    except Exception:  # the bytes are something else; these functions raise errors of many kinds
        return False
    rest = content[start + size :]
    lengths = [int.from_bytes(content[:start], order) for order in _ORDERS] if start else []
    whole = len(rest) <= _PADDING and not rest.strip(b"\0")
    return operations >= _FEWEST and (whole or size in lengths)
