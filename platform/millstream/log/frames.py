"""What a journal's files are made of: frames with checksums, and how a torn one is told from an altered one.

A frame is `length and flags, mark, crc of the payload, check of these and of the frame's place`, then the payload.
The check is seeded with the journal's id and the frame's byte position, so a frame that was moved, or came from
another journal (perhaps as the payload of an entry), is never taken for a good one.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from millstream.errors import AlteredLog

__all__ = ["HEADER_BYTES", "Frame", "cut_short", "frames", "joined", "note", "refuse_altered"]

_FIELDS = struct.Struct("<IqI")
_CHECK = struct.Struct("<I")
_HEADER = struct.Struct("<IqII")
HEADER_BYTES = _HEADER.size
_MORE = 1 << 31
_NOTE = 1 << 30
_LENGTH = _NOTE - 1
_READ = 64 << 10


class Frame(NamedTuple):
    """A good frame: where it lies in the file, and what it says."""

    start: int
    stop: int
    more: bool
    """Whether the same append goes on in the next frame: without that one, this one does not count."""
    is_note: bool
    """Whether it carries a mark only, and is no entry."""
    mark: int
    payload: bytes


def _packed(at: int, payload: bytes, mark: int, flags: int, seed: int) -> bytes:
    if len(payload) > _LENGTH:
        message = f"an entry of {len(payload):,} bytes is too long for a journal (at most {_LENGTH:,})"
        raise ValueError(message)
    fields = _FIELDS.pack(len(payload) | flags, mark, crc32c(payload))
    return fields + _CHECK.pack(crc32c(fields, (seed ^ at) & 0xFFFFFFFF)) + payload


def joined(at: int, payloads: Iterable[bytes], mark: int, seed: int) -> tuple[list[bytes], int]:
    """The frames of one append that begins at byte `at`, and how many bytes they take: all of them count, or none."""
    parts: list[bytes] = []
    payload, start, place = None, at, at
    for following in payloads:
        if payload is not None:
            parts.append(_packed(place, payload, mark, _MORE, seed))
            place += len(parts[-1])
        payload = following
    if payload is not None:
        parts.append(_packed(place, payload, mark, 0, seed))
        place += len(parts[-1])
    return parts, place - start


def note(at: int, mark: int, seed: int) -> bytes:
    """A frame with a mark alone."""
    return _packed(at, b"", mark, _NOTE, seed)


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
        flagged, mark, crc, check = _HEADER.unpack_from(data, offset)
        if crc32c(data[offset : offset + _FIELDS.size], (seed ^ at) & 0xFFFFFFFF) != check:
            return
        length = flagged & _LENGTH
        if first + length > len(data):
            data, base, first = os.pread(file, max(_READ, HEADER_BYTES + length), at), at, HEADER_BYTES
        payload = data[first : first + length]
        if len(payload) < length or crc32c(payload) != crc:
            return
        stop = at + HEADER_BYTES + length
        yield Frame(at, stop, flagged & _MORE != 0, flagged & _NOTE != 0, mark, payload)
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
    for place in range(1, len(rest.rstrip(b"\0"))):
        if _fields(rest[place : place + HEADER_BYTES], at + place, seed) is None:
            continue
        if next(frames(file, at + place, seed), None) is not None and next(frames(file, at, seed), None) is None:
            message = (
                f"{path} was altered: the entry at byte {at:,} is damaged, yet good entries follow at byte "
                f"{at + place:,}. Restore the file from a copy, or begin a new journal"
            )
            raise AlteredLog(message)
