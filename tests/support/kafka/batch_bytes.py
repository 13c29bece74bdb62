"""Encodes record batches byte by byte, as Kafka's documentation describes them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import crc32c
import pyarrow as pa

from millstream_connectors.kafka.client.codecs import CODECS

__all__ = ["CONTROL", "LOG_APPEND_TIME", "TRANSACTIONAL", "Message", "batch", "control_record", "number"]

Header = tuple[bytes, bytes | None]


@dataclass(frozen=True)
class Message:
    offset: int
    value: bytes | None = b"{}"
    key: bytes | None = None
    time: int = 1000
    headers: Sequence[Header] = field(default=())


def number(value: int) -> bytes:
    """A number of variable length, as in a record."""
    value = (value << 1) ^ (value >> 63)
    written = b""
    while value > 127:
        written += bytes([value & 127 | 128])
        value >>= 7
    return written + bytes([value])


def text(value: bytes | None) -> bytes:
    return number(-1) if value is None else number(len(value)) + value


def batch(
    messages: Sequence[Message],
    *,
    base: int | None = None,
    last: int | None = None,
    codec: str = "none",
    attributes: int = 0,
    newest: int = 0,
    producer: int = -1,
) -> bytes:
    """A batch; `base` and `last` are given where compaction has removed the first or the last message."""
    base = messages[0].offset if base is None else base
    last = messages[-1].offset if last is None else last
    time = messages[0].time if messages else -1
    records = b""
    for one in messages:
        record = b"\0" + number(one.time - time) + number(one.offset - base) + text(one.key) + text(one.value)
        record += number(len(one.headers)) + b"".join(text(name) + text(value) for name, value in one.headers)
        records += number(len(record)) + record
    if codec != "none":
        records = bytes(pa.Codec(codec).compress(records, asbytes=True))
        attributes |= CODECS.index(codec)
    covered = struct.pack(">hiqqqhii", attributes, last - base, time, newest, producer, 0, 0, len(messages)) + records
    counted = struct.pack(">ibI", 0, 2, crc32c.crc32c(covered)) + covered
    return struct.pack(">qi", base, len(counted)) + counted


TRANSACTIONAL, CONTROL, LOG_APPEND_TIME = 0x10, 0x20, 0x08


def control_record(offset: int, producer: int, *, commit: bool) -> bytes:
    key = struct.pack(">hh", 0, int(commit))
    message = Message(offset, struct.pack(">hi", 0, 0), key)
    return batch([message], attributes=TRANSACTIONAL | CONTROL, producer=producer)
