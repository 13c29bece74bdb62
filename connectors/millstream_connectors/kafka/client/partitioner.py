"""The partition of a message with a key, as Java's producer chooses it."""

from __future__ import annotations

from kafka.partitioner.default import murmur2

__all__ = ["key_hash"]


def key_hash(key: bytes) -> int:
    """A number that is at least 0; modulo the number of partitions it is the index of the key's partition.

    >>> key_hash(b"abc") % 5
    2
    """
    return int(murmur2(key)) & 0x7FFFFFFF
