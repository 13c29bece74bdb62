"""The check that a state has plain values: arrays of numbers and byte strings, and no pickle in either of them."""

from __future__ import annotations

import pickletools

import numpy as np

from millstream.state.dirty_rows import ArraySnapshot
from millstream.steps.contracts import State

__all__ = ["find_object"]

_PROTOCOL = b"\x80"
_LAST = b"."
_PADDING = 16
"""The most zero bytes after a pickle, which fill the last item of an array."""


def find_object(state: State) -> str | None:
    """Describe the first value of a state that holds Python objects; None if there is none.

    >>> import pickle
    >>> find_object({"counts": np.arange(3), "names": b'["a", "b"]'})
    >>> find_object({"model": np.frombuffer(pickle.dumps([1, 2]), np.uint8)})
    "'model' in its state as a pickle in an array; use arrays of numbers, or JSON"
    """
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
    if _is_pickle(np.ascontiguousarray(np.asarray(value)).tobytes()):
        return "a pickle in an array; use arrays of numbers, or JSON"
    return None


def _is_pickle(content: bytes) -> bool:
    """True if the content is one whole pickle, of a protocol that begins with a mark."""
    body = content.rstrip(b"\0") if len(content) - len(content.rstrip(b"\0")) <= _PADDING else content
    if body[:1] != _PROTOCOL or body[-1:] != _LAST:
        return False
    try:
        *_, (last, _, position) = pickletools.genops(body)
    except Exception:  # the bytes are something else; genops raises errors of many kinds
        return False
    return last.name == "STOP" and position == len(body) - 1
