"""Parses record batches, in the format in which brokers keep and send them, into columns.

A batch is a header of 61 bytes and then its records, which may be compressed. A record is its length and fields of
variable length, so its start is known only from the end of the record before. Only the search for these starts is a
loop over the records; everything else is computed a column at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream_connectors.kafka.client.codecs import decompress
from millstream_connectors.kafka.client.errors import InvalidData, MessagesLost

__all__ = ["Records", "Scan", "scan"]

Array = np.ndarray[Any, Any]

_HEAD = struct.Struct(">qiibIhiqqqhii")
_LENGTH_FROM = 12  # the first byte that the length counts
_CHECKSUM_FROM = 21  # the first byte that the checksum covers
_MAGIC_AT = 16
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_ABORTED = 0
_INLINE = 12  # values of up to so many bytes are stored in the view itself


@dataclass(frozen=True)
class _Field:
    """One field of all records: the index of its first byte in the data, and its length, which is -1 for null."""

    begins: Array
    sizes: Array

    def values(self, data: bytes, first: int) -> pa.Array:
        """The values as Arrow binary, without a Python object for each; `first` is the offset of the first record."""
        sizes = np.maximum(self.sizes, 0)
        if (self.begins + sizes > len(data)).any() or len(data) >= 2**31:
            message = (
                f"offset {first:,} or a later one: a field is longer than its message, or the batches exceed 2 GiB"
            )
            raise MessagesLost(message)
        octets = np.frombuffer(data, np.uint8)
        # A view is a size and then 12 bytes of the value, or 4 bytes of it, the number of a buffer and an index.
        views = np.zeros((len(sizes), 16), np.uint8)
        numbers = views.view(np.int32)
        numbers[:, 0] = sizes
        short = np.flatnonzero((sizes > 0) & (sizes <= _INLINE))
        within = np.arange(_INLINE) < sizes[short, None]
        indices = np.where(within, self.begins[short, None] + np.arange(_INLINE), 0)
        views[short, 4:] = np.where(within, octets[indices], 0) if len(short) else 0
        long = np.flatnonzero(sizes > _INLINE)
        views[long, 4:8] = octets[self.begins[long, None] + np.arange(4)] if len(long) else 0
        numbers[long, 3] = self.begins[long]
        buffers = [None, pa.py_buffer(views), pa.py_buffer(data)]
        found = pa.Array.from_buffers(pa.binary_view(), len(sizes), buffers).cast(pa.binary())
        return found if (self.sizes >= 0).all() else pc.if_else(pa.array(self.sizes >= 0), found, None)


@dataclass(frozen=True)
class Records:
    """Records in columns: offsets, timestamps (milliseconds; -1 for none), and the other fields on request."""

    offsets: Array
    timestamps: Array
    _data: bytes
    _keys: _Field
    _values: _Field
    _headers: _Field
    """The start of each record's headers, and their number in place of a length."""

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def _first(self) -> int:
        return int(self.offsets[0]) if len(self) else 0

    def keys(self) -> list[bytes | None]:
        keys: list[bytes | None] = self.key_column().to_pylist()
        return keys

    def values(self) -> list[bytes | None]:
        values: list[bytes | None] = self.value_column().to_pylist()
        return values

    def headers(self, name: bytes) -> list[bytes | None]:
        headers: list[bytes | None] = self.header_column(name).to_pylist()
        return headers

    def key_column(self) -> pa.Array:
        """The keys as Arrow binary, without a Python object for each."""
        return self._keys.values(self._data, self._first)

    def value_column(self) -> pa.Array:
        return self._values.values(self._data, self._first)

    def header_column(self, name: bytes) -> pa.Array:
        """The values of the header of this name; of several headers of a record the last one."""
        octets = np.frombuffer(self._data, np.uint8)
        begins = np.zeros(len(self), np.int64)
        sizes = np.full(len(self), -1, np.int64)
        rows = np.arange(len(self))
        at = self._headers.begins
        for number in range(int(self._headers.sizes.max(initial=0))):
            more = self._headers.sizes[rows] > number
            rows, at = rows[more], at[more]
            key = _field(octets, at)
            value = _field(octets, key.begins + key.sizes)
            same = key.sizes == len(name)
            if len(name):
                letters = octets[key.begins[same, None] + np.arange(len(name))]
                same[same] = (letters == np.frombuffer(name, np.uint8)).all(axis=1)
            begins[rows[same]], sizes[rows[same]] = value.begins[same], value.sizes[same]
            at = value.begins + np.maximum(value.sizes, 0)
        return _Field(begins, sizes).values(self._data, self._first)


@dataclass(frozen=True)
class Scan:
    """The requested records of the complete batches, and the first offset after these batches.

    The average bytes of a record and the size of the largest batch are an estimate for the next request.
    """

    records: Records
    position: int
    record_bytes: float
    batch_bytes: int


def scan(data: bytes, aborted: Sequence[tuple[int, int]], start: int, stop: int) -> Scan:
    """The records in [start, stop) in the batches of an answer; the last batch may be incomplete.

    `aborted` lists transactions, each by its producer and its first offset, whose records are skipped. Control records,
    which end transactions, are skipped too. `InvalidData` if a batch does not match its checksum, or has a format older
    than Kafka 0.11.
    """
    open_aborts = sorted(aborted, key=lambda one: one[1], reverse=True)
    aborting: set[int] = set()
    starts = _RecordStarts(data)
    position, first, used, largest = start, start, 0, 0
    at, size = 0, len(data)
    while at + _MAGIC_AT < size and position < stop:
        if data[at + _MAGIC_AT] != 2:
            base = int.from_bytes(data[at : at + 8])
            raise InvalidData(
                base, f"a message of format {data[at + _MAGIC_AT]}, and only format 2 (Kafka 0.11) is read"
            )
        if at + _HEAD.size > size:
            break
        base, length, _, _, crc, attributes, last, time, newest, producer, _, _, count = _HEAD.unpack_from(data, at)
        begin, at = at, at + _LENGTH_FROM + length
        if at > size:
            break
        if crc32c.crc32c(memoryview(data)[begin + _CHECKSUM_FROM : at]) != crc:
            raise InvalidData(base, "its checksum is wrong")
        first = base if begin == 0 else first
        position = max(position, base + last + 1)
        used, largest = at, max(largest, at - begin)
        if base >= stop:
            break
        while open_aborts and open_aborts[-1][1] <= base + last:
            aborting.add(open_aborts.pop()[0])
        if attributes & _CONTROL:
            if _control_type(data, begin + _HEAD.size) == _ABORTED:
                aborting.discard(producer)
        elif count and base + last >= start and not (attributes & _TRANSACTIONAL and producer in aborting):
            times = (newest, 0) if attributes & _LOG_APPEND_TIME else (time, 1)
            starts.add(begin + _HEAD.size, at, attributes & _CODEC, count, base, times)
    return Scan(starts.records(start, stop), position, used / max(position - first, 1), largest)


class _RecordStarts:
    """The starts of records: indices into the answer, followed by the decompressed content of compressed batches."""

    def __init__(self, data: bytes) -> None:
        self._pieces = [data]
        self._size = len(data)
        self._begins: list[int] = []
        self._batches: list[tuple[int, int, int, int]] = []

    def add(self, begin: int, end: int, codec: int, count: int, offset: int, times: tuple[int, int]) -> None:
        piece, shift = self._pieces[0], 0
        if codec:
            try:
                piece = decompress(codec, piece[begin:end])
            except ValueError as error:
                raise InvalidData(offset, str(error)) from None
            shift, begin, end = self._size, 0, len(piece)
            self._pieces.append(piece)
            self._size += len(piece)
        self._batches.append((count, offset, *times))
        add = self._begins.append
        at = begin
        try:
            for _ in range(count):
                length = piece[at]
                at += 1
                if length > 127:  # seven bits a byte, the lowest first; the lowest bit, the sign, is never set here
                    byte = piece[at]
                    at += 1
                    length += (byte - 1) << 7
                    bits = 14
                    while byte > 127:
                        byte = piece[at]
                        at += 1
                        length += (byte - 1) << bits
                        bits += 7
                add(at + shift)
                at += length >> 1
        except IndexError:
            at = -1
        if at != end:
            raise InvalidData(offset, "its records are longer or shorter than the batch")

    def records(self, start: int, stop: int) -> Records:
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        octets = np.frombuffer(data, np.uint8)
        at: Array = np.array(self._begins, np.int64)
        batches: Array = np.array(self._batches, np.int64).reshape(-1, 4)
        columns: list[Array] = [np.repeat(batches[:, column], batches[:, 0]) for column in (1, 2, 3)]
        offsets, times, timed = columns
        delta, at = _numbers(octets, at + 1)  # after the attributes, which have no meaning yet
        times = times + delta * timed
        delta, at = _numbers(octets, at)
        offsets = offsets + delta
        wanted = slice(*np.searchsorted(offsets, (start, stop)))
        offsets, times, at = offsets[wanted], times[wanted], at[wanted]
        keys = _field(octets, at)
        values = _field(octets, keys.begins + np.maximum(keys.sizes, 0))
        counts, at = _numbers(octets, values.begins + np.maximum(values.sizes, 0))
        return Records(offsets, times, data, keys, values, _Field(at, counts))


def _field(octets: Array, at: Array) -> _Field:
    sizes, begins = _numbers(octets, at)
    return _Field(begins, sizes)


def _numbers(octets: Array, at: Array) -> tuple[Array, Array]:
    """The numbers of variable length that start at these indices, and the indices after them."""
    byte = octets[at]
    value = (byte & 127).astype(np.uint64)
    after = at + 1
    rows = np.flatnonzero(byte > 127)
    shift = 7
    while len(rows):
        byte = octets[after[rows]]
        value[rows] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
        after[rows] += 1
        rows = rows[byte > 127]
        shift += 7
    sign = -(value & np.uint64(1)).astype(np.int64)
    return (value >> np.uint64(1)).astype(np.int64) ^ sign, after


def _control_type(data: bytes, at: int) -> int:
    """The type of a control record, commit or abort: the second number of its key."""
    octets = np.frombuffer(data, np.uint8)
    index: Array = np.array([at])
    _, index = _numbers(octets, index)
    _, index = _numbers(octets, index + 1)
    _, index = _numbers(octets, index)
    key = _field(octets, index)
    begin = int(key.begins[0])
    return int.from_bytes(data[begin + 2 : begin + 4])
