"""Digests of state: equal when every name has the same type, shape and bits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

__all__ = ["state_digest"]


def state_digest(state: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]] | bytes]) -> str:
    """A digest of named arrays and byte strings, free of the order of the names.

    >>> counts = np.array([1.0, 2.0])
    >>> state_digest({"a": counts, "b": b"x"}) == state_digest({"b": b"x", "a": counts.copy()})
    True
    >>> state_digest({"a": counts}) == state_digest({"a": counts.astype(np.float32)})
    False
    """
    digest = hashlib.sha256()
    for name in sorted(state):
        value = state[name]
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                message = f"state {name!r} is an array of Python objects; save numbers, or text as JSON bytes"
                raise TypeError(message)
            digest.update(f"{name}\0{value.dtype.str}{value.shape}\0".encode())
            digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
        else:
            digest.update(f"{name}\0bytes({len(value)})\0".encode())
            digest.update(value)
    return digest.hexdigest()[:32]
