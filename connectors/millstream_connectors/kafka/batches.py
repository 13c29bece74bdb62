"""Record batches, as brokers keep and send them, into columns.

A batch is a head of 61 bytes and its records behind, perhaps compressed. A record is its length and fields of varying
length, so where it begins is known only from the one before: that walk is a loop, all else is done a column at a time.
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

from millstream.errors import AlteredLog
from millstream_connectors.kafka.codecs import decompressed

__all__ = ["Broken", "Records", "Scan", "scan"]

Array = np.ndarray[Any, Any]

_HEAD = struct.Struct(">qiibIhiqqqhii")
_LENGTH_FROM = 12  # what the length counts
_CHECKSUM_FROM = 21  # what the checksum covers
_MAGIC_AT = 16
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_ABORTED = 0
_SHORT = 12  # bytes that Arrow keeps beside the size, and nowhere else


class Broken(ValueError):
    """A batch that cannot be read; `offset` is its first."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


@dataclass(frozen=True)
class _Field:
    """Where a field of each record begins in the data, and its length; -1 where it is null."""

    begins: Array
    sizes: Array

    def of(self, data: bytes, first: int) -> pa.Array:
        """Them as Arrow's binary, without an object for each; `first` is the offset of the first record."""
        sizes = np.maximum(self.sizes, 0)
        if (self.begins + sizes > len(data)).any() or len(data) >= 2**31:
            message = f"from offset {first:,} on: what a message holds is longer than it is, or than 2 GiB with others"
            raise AlteredLog(message)
        signs = np.frombuffer(data, np.uint8)
        views = np.zeros((len(sizes), 16), np.uint8)  # a size, then 12 bytes, or 4 of them, a buffer's number, a place
        numbers = views.view(np.int32)
        numbers[:, 0] = sizes
        short = np.flatnonzero((sizes > 0) & (sizes <= _SHORT))
        within = np.arange(_SHORT) < sizes[short, None]
        places = np.where(within, self.begins[short, None] + np.arange(_SHORT), 0)
        views[short, 4:] = np.where(within, signs[places], 0) if len(short) else 0
        long = np.flatnonzero(sizes > _SHORT)
        views[long, 4:8] = signs[self.begins[long, None] + np.arange(4)] if len(long) else 0
        numbers[long, 3] = self.begins[long]
        buffers = [None, pa.py_buffer(views), pa.py_buffer(data)]
        found = pa.Array.from_buffers(pa.binary_view(), len(sizes), buffers).cast(pa.binary())
        return found if (self.sizes >= 0).all() else pc.if_else(pa.array(self.sizes >= 0), found, None)


@dataclass(frozen=True)
class Records:
    """Records in columns: their offsets, timestamps (milliseconds; -1 for none), and the rest on request."""

    offsets: Array
    timestamps: Array
    _data: bytes
    _keys: _Field
    _values: _Field
    _headers: _Field
    """Where they begin, and how many there are."""

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
        """The keys as Arrow's binary; so do the values and headers come, many at a time, without an object for each."""
        return self._keys.of(self._data, self._first)

    def value_column(self) -> pa.Array:
        return self._values.of(self._data, self._first)

    def header_column(self, name: bytes) -> pa.Array:
        """The values of the header of this name, the last one where there are several."""
        signs = np.frombuffer(self._data, np.uint8)
        begins = np.zeros(len(self), np.int64)
        sizes = np.full(len(self), -1, np.int64)
        rows = np.arange(len(self))
        at = self._headers.begins
        for number in range(int(self._headers.sizes.max(initial=0))):
            more = self._headers.sizes[rows] > number
            rows, at = rows[more], at[more]
            key = _field(signs, at)
            value = _field(signs, key.begins + key.sizes)
            same = key.sizes == len(name)
            if len(name):
                letters = signs[key.begins[same, None] + np.arange(len(name))]
                same[same] = (letters == np.frombuffer(name, np.uint8)).all(axis=1)
            begins[rows[same]], sizes[rows[same]] = value.begins[same], value.sizes[same]
            at = value.begins + np.maximum(value.sizes, 0)
        return _Field(begins, sizes).of(self._data, self._first)


@dataclass(frozen=True)
class Scan:
    """What whole batches hold: the records asked for, and the first offset behind the batches.

    How many bytes a record took, and the largest batch, tell how many to ask for the next time.
    """

    records: Records
    position: int
    record_bytes: float
    batch_bytes: int


def scan(data: bytes, aborted: Sequence[tuple[int, int]], start: int, stop: int) -> Scan:
    """The records at [start, stop) in the batches of an answer, the last of which may be cut off.

    `aborted` are transactions whose records are left out: the producer, and the first offset. Marks of transactions are
    no records. `Broken` if a batch is not what its checksum says, or of a form older than Kafka 0.11.
    """
    open_aborts = sorted(aborted, key=lambda one: one[1], reverse=True)
    aborting: set[int] = set()
    walk = _Walk(data)
    position, first, used, largest = start, start, 0, 0
    at, size = 0, len(data)
    while at + _MAGIC_AT < size and position < stop:
        if data[at + _MAGIC_AT] != 2:
            base = int.from_bytes(data[at : at + 8])
            raise Broken(base, f"a message of format {data[at + _MAGIC_AT]}, and only format 2 (Kafka 0.11) is read")
        if at + _HEAD.size > size:
            break
        base, length, _, _, crc, attributes, last, time, newest, producer, _, _, count = _HEAD.unpack_from(data, at)
        begin, at = at, at + _LENGTH_FROM + length
        if at > size:
            break
        if crc32c.crc32c(memoryview(data)[begin + _CHECKSUM_FROM : at]) != crc:
            raise Broken(base, "its checksum is wrong")
        first = base if begin == 0 else first
        position = max(position, base + last + 1)
        used, largest = at, max(largest, at - begin)
        if base >= stop:
            break
        while open_aborts and open_aborts[-1][1] <= base + last:
            aborting.add(open_aborts.pop()[0])
        if attributes & _CONTROL:
            if _mark(data, begin + _HEAD.size) == _ABORTED:
                aborting.discard(producer)
        elif count and base + last >= start and not (attributes & _TRANSACTIONAL and producer in aborting):
            times = (newest, 0) if attributes & _LOG_APPEND_TIME else (time, 1)
            walk.batch(begin + _HEAD.size, at, attributes & _CODEC, count, base, times)
    return Scan(walk.records(start, stop), position, used / max(position - first, 1), largest)


class _Walk:
    """Finds where the records of batches begin: in the answer, or behind it in what was compressed."""

    def __init__(self, data: bytes) -> None:
        self._pieces = [data]
        self._size = len(data)
        self._begins: list[int] = []
        self._batches: list[tuple[int, int, int, int]] = []

    def batch(self, begin: int, end: int, codec: int, count: int, offset: int, times: tuple[int, int]) -> None:
        piece, shift = self._pieces[0], 0
        if codec:
            try:
                piece = decompressed(codec, piece[begin:end])
            except ValueError as error:
                raise Broken(offset, str(error)) from None
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
                if length > 127:  # seven bits a byte, the lowest first; the lowest of all is the sign, never set here
                    byte = piece[at]
                    at += 1
                    length += (byte - 1) << 7
                    place = 14
                    while byte > 127:
                        byte = piece[at]
                        at += 1
                        length += (byte - 1) << place
                        place += 7
                add(at + shift)
                at += length >> 1
        except IndexError:
            at = -1
        if at != end:
            raise Broken(offset, "its records are longer or shorter than it is")

    def records(self, start: int, stop: int) -> Records:
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        signs = np.frombuffer(data, np.uint8)
        at: Array = np.array(self._begins, np.int64)
        batches: Array = np.array(self._batches, np.int64).reshape(-1, 4)
        columns: list[Array] = [np.repeat(batches[:, column], batches[:, 0]) for column in (1, 2, 3)]
        offsets, times, timed = columns
        delta, at = _numbers(signs, at + 1)  # behind the attributes, which mean nothing yet
        times = times + delta * timed
        delta, at = _numbers(signs, at)
        offsets = offsets + delta
        wanted = slice(*np.searchsorted(offsets, (start, stop)))
        offsets, times, at = offsets[wanted], times[wanted], at[wanted]
        keys = _field(signs, at)
        values = _field(signs, keys.begins + np.maximum(keys.sizes, 0))
        counts, at = _numbers(signs, values.begins + np.maximum(values.sizes, 0))
        return Records(offsets, times, data, keys, values, _Field(at, counts))


def _field(signs: Array, at: Array) -> _Field:
    sizes, begins = _numbers(signs, at)
    return _Field(begins, sizes)


def _numbers(signs: Array, at: Array) -> tuple[Array, Array]:
    """The numbers of varying length that begin at these places, and the places behind them."""
    byte = signs[at]
    value = (byte & 127).astype(np.uint64)
    behind = at + 1
    rows = np.flatnonzero(byte > 127)
    shift = 7
    while len(rows):
        byte = signs[behind[rows]]
        value[rows] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
        behind[rows] += 1
        rows = rows[byte > 127]
        shift += 7
    sign = -(value & np.uint64(1)).astype(np.int64)
    return (value >> np.uint64(1)).astype(np.int64) ^ sign, behind


def _mark(data: bytes, at: int) -> int:
    """Which end of a transaction a control record marks: the second number of its key."""
    signs = np.frombuffer(data, np.uint8)
    place: Array = np.array([at])
    _, place = _numbers(signs, place)
    _, place = _numbers(signs, place + 1)
    _, place = _numbers(signs, place)
    key = _field(signs, place)
    begin = int(key.begins[0])
    return int.from_bytes(data[begin + 2 : begin + 4])
