"""Messages as record batches, the form in which a partition's leader takes and keeps them.

kafka-python's own producer spends 11 us on a message, most of it on options that are the same for all of ours: one
header or none, one time, no compression.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from crc32c import crc32c

__all__ = ["Batch", "Message", "Messages"]

Message = tuple[bytes | None, bytes]
"""A key and a value."""

_BEFORE_CHECKSUM = struct.Struct(">qiib")  # base offset, length, leader epoch, version of the format
_CHECKSUM = struct.Struct(">I")
_AFTER_CHECKSUM = struct.Struct(">hiqqqhii")
"""Attributes, last offset, first and last time, producer's id and epoch, sequence, count."""
_VERSION = 2
_TRANSACTIONAL = 0x10
_NO_BASE, _NO_LEADER_EPOCH = 0, -1
_HEADER = struct.calcsize(">qiibIhiqqqhii")
_LENGTH = 5
"""The most bytes that a message's own length takes."""


@dataclass(frozen=True)
class Batch:
    """Messages that are sent together."""

    messages: bytes
    count: int
    millis: int

    @property
    def size(self) -> int:
        """How many bytes the broker counts."""
        return _HEADER + len(self.messages)

    def encode(self, producer: int, epoch: int, sequence: int, *, transactional: bool) -> bytes:
        """The record batch, as of this producer."""
        attributes = _TRANSACTIONAL if transactional else 0
        after = _AFTER_CHECKSUM.pack(
            attributes, self.count - 1, self.millis, self.millis, producer, epoch, sequence, self.count
        )
        checksum = _CHECKSUM.pack(crc32c(self.messages, crc32c(after)))
        length = self.size - struct.calcsize(">qi")
        return b"".join(
            (_BEFORE_CHECKSUM.pack(_NO_BASE, length, _NO_LEADER_EPOCH, _VERSION), checksum, after, self.messages)
        )


@dataclass(frozen=True)
class Messages:
    """What one partition gets: keys and values, all with one header or all without, as of one time.

    >>> messages = Messages([(b"key", b"value")] * 5, header=("by", b"us"), millis=0)
    >>> [messages.batch(first, largest=120).count for first in (0, 2, 4)]
    [2, 2, 1]
    """

    content: Sequence[Message]
    header: tuple[str, bytes] | None
    millis: int

    def __len__(self) -> int:
        return len(self.content)

    def batch(self, first: int, largest: int) -> Batch:
        """Messages from `first` on that take up to `largest` bytes together, or one that takes more alone."""
        end = _varint(0) if self.header is None else _headers(self.header[0].encode(), self.header[1])
        parts: list[bytes] = []
        size, count = _HEADER, 0
        for key, value in self.content[first:] if first else self.content:
            named = _NO_KEY if key is None else _varint(len(key)) + key
            # No attributes, and no time beyond the batch's.
            message = b"".join((b"\0\0", _varint(count), named, _varint(len(value)), value, end))
            size += len(message) + _LENGTH
            if size > largest and parts:
                break
            parts += (_varint(len(message)), message)
            count += 1
        return Batch(b"".join(parts), count, self.millis)


def _headers(name: bytes, text: bytes) -> bytes:
    return b"".join((_varint(1), _varint(len(name)), name, _varint(len(text)), text))


@lru_cache(maxsize=1 << 16)
def _varint(number: int) -> bytes:
    """A number in Kafka's zigzag form, seven bits a byte."""
    rest = (number << 1) ^ (number >> 63)
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


_NO_KEY = _varint(-1)
