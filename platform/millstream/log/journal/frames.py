"""What a journal's files are made of: frames with checksums, and how a torn one is told from an altered one.

A frame is `length and flags, mark, crc of the payload, check of these and of the frame's place`, then the payload: an
entry; or nothing, beside a mark of its own (a note); or several entries (a block), how many and then each with a
newline behind it, which none of them has within. So many entries are written and read at the cost of their bytes.

The check is seeded with the journal's id and the frame's byte position, so a frame that was moved, or came from
another journal (perhaps as the payload of an entry), is never taken for a good one.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from crc32c import crc32c

from millstream.errors import AlteredLog

__all__ = [
    "COUNT_BYTES",
    "HEADER_BYTES",
    "Frame",
    "cut_short",
    "empty_frame",
    "frames",
    "in_blocks",
    "joined",
    "refuse_altered",
]

_FIELDS = struct.Struct("<IqI")
_CHECK = struct.Struct("<I")
_HEADER = struct.Struct("<IqII")
HEADER_BYTES = _HEADER.size
_MORE = 1 << 31
_NO_ENTRY = 1 << 30  # a note, which has no payload, or a block, which has one
_LENGTH = _NO_ENTRY - 1
_READ = 64 << 10

_COUNT = struct.Struct("<I")
COUNT_BYTES = _COUNT.size
_BLOCK = 256 << 10
"""About the greatest block: what has to be read for one entry in the middle."""
_NEWLINE = b"\n"


class Frame(NamedTuple):
    """A good frame: where it lies in the file, and what it says."""

    start: int
    stop: int
    more: bool
    """Whether the same append goes on in the next frame: without that one, this one does not count."""
    entries: int
    """How many there are in it: none in a note, several in a block."""
    tag: int
    payload: bytes


def _header(at: int, length: int, tag: int, crc: int, flags: int, seed: int) -> bytes:
    if length > _LENGTH:
        message = f"an entry of {length:,} bytes is too long for a journal (at most {_LENGTH:,})"
        raise ValueError(message)
    fields = _FIELDS.pack(length | flags, tag, crc)
    return fields + _CHECK.pack(crc32c(fields, (seed ^ at) & 0xFFFFFFFF))


def joined(at: int, payloads: Sequence[bytes], tag: int, seed: int) -> bytes:
    """The frames of one append that begins at byte `at`, an entry each: all of them count, or none."""
    if len(payloads) == 1:  # where every microsecond counts
        return _header(at, len(payloads[0]), tag, crc32c(payloads[0]), 0, seed) + payloads[0]
    parts: list[bytes] = []
    for index, payload in enumerate(payloads, 1):
        flags = _MORE if index < len(payloads) else 0
        parts.append(_header(at, len(payload), tag, crc32c(payload), flags, seed) + payload)
        at += len(parts[-1])
    return b"".join(parts)


def in_blocks(at: int, lines: bytes, tag: int, seed: int) -> tuple[bytes, int]:
    r"""The frames of one append of lines, which all end in a newline, and how many entries that is: a line each.

    A line by itself is a frame like that of any entry.

    >>> in_blocks(0, b"one\ntwo\n", -1, 0)[1], in_blocks(0, b"one\n", -1, 0) == (joined(0, [b"one"], -1, 0), 1)
    (2, True)
    """
    if lines.find(_NEWLINE) == len(lines) - 1:  # the usual case where they come one by one
        return joined(at, (lines[:-1],), tag, seed), 1
    if not lines.endswith(_NEWLINE):
        message = f"the last of the lines does not end in a newline: ...{lines[-40:]!r}"
        raise ValueError(message)
    parts: list[bytes | memoryview] = []
    view, signs = memoryview(lines), np.frombuffer(lines, np.uint8)
    start = entries = 0
    while start < len(lines):
        stop = _end_of_block(lines, start)
        flags = _MORE if stop < len(lines) else 0
        if lines.find(_NEWLINE, start) == stop - 1:
            payload, length, count, head = view[start : stop - 1], stop - 1 - start, 1, b""
        else:
            payload, flags = view[start:stop], flags | _NO_ENTRY
            count = int(np.count_nonzero(signs[start:stop] == _NEWLINE[0]))
            head = _COUNT.pack(count)
            length = len(head) + stop - start
        parts += (_header(at, length, tag, crc32c(payload, crc32c(head)), flags, seed), head, payload)
        at += HEADER_BYTES + length
        start, entries = stop, entries + count
    return b"".join(parts), entries


def _end_of_block(lines: bytes, start: int) -> int:
    """Where the block of lines ends that begins at `start`: at the end of a line, even if that goes too far."""
    if len(lines) - start <= _BLOCK:
        return len(lines)
    return (lines.rfind(_NEWLINE, start, start + _BLOCK) + 1) or (lines.index(_NEWLINE, start) + 1)


def empty_frame(at: int, tag: int, seed: int) -> bytes:
    """A frame with a mark alone."""
    return _header(at, 0, tag, crc32c(b""), _NO_ENTRY, seed)


def _fields(header: bytes, at: int, seed: int) -> tuple[int, int, int] | None:
    """(length and flags, mark, crc) of a frame's header at byte `at`, if it is one."""
    if len(header) < HEADER_BYTES:
        return None
    (check,) = _CHECK.unpack_from(header, _FIELDS.size)
    if crc32c(header[: _FIELDS.size], (seed ^ at) & 0xFFFFFFFF) != check:
        return None
    fields: tuple[int, int, int] = _FIELDS.unpack_from(header)
    return fields


def frames(file: int, at: int, seed: int) -> Iterator[Frame]:
    """The good frames from byte `at` on; ends before the first that is not whole, or not good."""
    data, base = b"", at
    while True:
        offset = at - base
        first = offset + HEADER_BYTES
        if first > len(data):
            data, base, offset, first = os.pread(file, _READ, at), at, 0, HEADER_BYTES
            if len(data) < HEADER_BYTES:
                return
        flagged, tag, crc, check = _HEADER.unpack_from(data, offset)
        if crc32c(data[offset : offset + _FIELDS.size], (seed ^ at) & 0xFFFFFFFF) != check:
            return
        length = flagged & _LENGTH
        if first + length > len(data):  # and the next header with it, so that a row of blocks is read a block at a time
            data, base, first = os.pread(file, max(_READ, 2 * HEADER_BYTES + length), at), at, HEADER_BYTES
        payload = data[first : first + length]
        if len(payload) < length or crc32c(payload) != crc:
            return
        stop = at + HEADER_BYTES + length
        entries = 1
        if flagged & _NO_ENTRY:
            (entries,) = _COUNT.unpack_from(payload) if payload else (0,)
        yield Frame(at, stop, flagged & _MORE != 0, entries, tag, payload)
        at = stop


def cut_short(file: int, at: int, seed: int) -> bool:
    """Whether the file ends within the frame that begins at byte `at`, or before it."""
    there = os.fstat(file).st_size - at
    if there < HEADER_BYTES:
        return True
    fields = _fields(os.pread(file, HEADER_BYTES, at), at, seed)
    return fields is not None and HEADER_BYTES + (fields[0] & _LENGTH) > there


def refuse_altered(path: Path, file: int, at: int, seed: int) -> None:
    """Raise if the bytes from `at` on, where no good frame begins, are more than the end of an interrupted write.

    A write that was interrupted is short, or (after a loss of power) bad up to the end of the file. A bad frame with
    a good one anywhere behind it has been altered.
    """
    if cut_short(file, at, seed):
        return
    rest = os.pread(file, os.fstat(file).st_size - at, at)
    for index in range(1, len(rest.rstrip(b"\0"))):
        if _fields(rest[index : index + HEADER_BYTES], at + index, seed) is None:
            continue
        if next(frames(file, at + index, seed), None) is not None and next(frames(file, at, seed), None) is None:
            message = (
                f"{path} was altered: the entry at byte {at:,} is damaged, yet good entries follow at byte "
                f"{at + index:,}. Restore the file from a copy, or begin a new journal"
            )
            raise AlteredLog(message)
