"""Encodes messages as record batches, the format in which the leader of a partition accepts and keeps them.

kafka-python's own producer takes 11 us a message, most of it for options that are the same for all messages here: one
header or none, one timestamp, no compression.
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
"""Attributes, last offset, first and last timestamp, producer's id and epoch, sequence number, count."""
_VERSION = 2
_TRANSACTIONAL = 0x10
_NO_BASE, _NO_LEADER_EPOCH = 0, -1
_HEADER = struct.calcsize(">qiibIhiqqqhii")
_LENGTH = 5
"""The maximal bytes of the length of a message."""


@dataclass(frozen=True)
class Batch:
    """Encoded messages that are sent together."""

    messages: bytes
    count: int
    millis: int

    @property
    def size(self) -> int:
        """The size that the broker compares with the topic's limit, in bytes."""
        return _HEADER + len(self.messages)

    def encode(self, producer: int, epoch: int, sequence: int, *, transactional: bool) -> bytes:
        """The record batch, with the producer's id, epoch and sequence number."""
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
    """Messages for one partition: keys and values, all with the same header or all without one, of one timestamp.

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
        """A batch of messages from `first` on that takes up to `largest` bytes, or of one message that takes more."""
        end = _varint(0) if self.header is None else _headers(self.header[0].encode(), self.header[1])
        parts: list[bytes] = []
        size, count = _HEADER, 0
        for key, value in self.content[first:] if first else self.content:
            encoded_key = _NO_KEY if key is None else _varint(len(key)) + key
            # Two zero bytes: no attributes, and the timestamp of the batch.
            message = b"".join((b"\0\0", _varint(count), encoded_key, _varint(len(value)), value, end))
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
    """A number in Kafka's zigzag encoding, seven bits a byte."""
    left = (number << 1) ^ (number >> 63)
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


_NO_KEY = _varint(-1)
