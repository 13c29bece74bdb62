"""Digests of state: equal if the names in two states, and the type, shape and bits of each value, are equal."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

from millstream.state.dirty_rows import Value
from millstream.state.keyed_state import KeyedSnapshot

__all__ = ["state_digest", "states_digest"]


def state_digest(state: Mapping[str, Value]) -> str:
    """Return a digest of named arrays and byte strings, independent of the order of the names.

    >>> counts = np.array([1.0, 2.0])
    >>> state_digest({"a": counts, "b": b"x"}) == state_digest({"b": b"x", "a": counts.copy()})
    True
    >>> state_digest({"a": counts}) == state_digest({"a": counts.astype(np.float32)})
    False
    """
    return _digest([("", state)])


def states_digest(states: Mapping[str, Mapping[str, Value]]) -> str:
    """Return a digest of the states of several steps, independent of the order of the steps."""
    return _digest(sorted((f"{step}/", state) for step, state in states.items()))


def _digest(states: Iterable[tuple[str, Mapping[str, Value]]]) -> str:
    digest = hashlib.sha256()
    for step, state in states:
        for name, value in state.in_order() if isinstance(state, KeyedSnapshot) else sorted(state.items()):
            if not isinstance(value, bytes):
                if value.dtype.hasobject:
                    message = f"state {name!r} is an array of Python objects; save arrays of numbers, or bytes of JSON"
                    raise TypeError(message)
                digest.update(f"{step}{name}\0{value.dtype.str}{value.shape}\0".encode())
                digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
            else:
                digest.update(f"{step}{name}\0bytes({len(value)})\0".encode())
                digest.update(value)
    return digest.hexdigest()[:32]
