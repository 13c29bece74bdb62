"""Shards: the divisions of a step's state by key. Each shard has one owner, and sections of its own in checkpoints."""

from __future__ import annotations

import hashlib

__all__ = ["SHARDS", "shard_of"]

SHARDS = 64
"""The default number of shards."""


def shard_of(key: str | None, shards: int) -> int:
    """The shard of a key, the same in every process; records without a key belong to shard 0.

    >>> [shard_of(key, 64) for key in ("ann", "bob", "cleo", None)]
    [13, 52, 34, 0]
    """
    if key is None:
        return 0
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little") % shards
