"""Frames: the records with checksums that a journal's files consist of.

A frame is a header (length and flags, tag, checksum of the payload, check of the header) and a payload. There are four
kinds of payload: one entry; nothing (an empty frame, which carries only a tag); a line block, which is a count and
that many entries, each with a newline behind it and none within; or a note, which is a count of 0 and any bytes.
Writing and reading a line block costs time for its bytes, not for each entry.

The check covers the header, and is seeded with the journal's id and the frame's byte position. So a frame that was
moved, or copied from another journal (perhaps as the payload of an entry), is not a good frame.

A damaged frame at the end of a file is an interrupted write; a damaged frame with a good frame behind it is an altered
file.
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
    "encode_empty_frame",
    "encode_entries",
    "encode_lines",
    "encode_note",
    "frame_ends",
    "is_cut_short",
    "read_frames",
    "refuse_altered",
]

_FIELDS = struct.Struct("<IqI")
_CHECK = struct.Struct("<I")
_HEADER = struct.Struct("<IqII")
HEADER_BYTES = _HEADER.size
_MORE = 1 << 31
_NO_ENTRY = 1 << 30  # not a single entry: an empty frame, or (with a payload) a line block or a note
_LENGTH = _NO_ENTRY - 1
_READ = 64 << 10

_COUNT = struct.Struct("<I")
COUNT_BYTES = _COUNT.size
_BLOCK = 256 << 10
"""The usual maximum size of a line block. To read one entry of a block, the whole block is read."""
_NEWLINE = b"\n"


class Frame(NamedTuple):
    """A good frame: its position in the file and its contents."""

    start: int
    stop: int
    more: bool
    """True if the append continues in the next frame. Without the next frame, this frame is not valid."""
    entries: int
    """The number of entries: 0 in an empty frame and in a note, several in a line block."""
    tag: int
    payload: bytes

    @property
    def note(self) -> bytes:
        """The bytes of a note; empty in other frames."""
        return b"" if self.entries else self.payload[COUNT_BYTES:]


def _header(at: int, length: int, tag: int, crc: int, flags: int, seed: int) -> bytes:
    if length > _LENGTH:
        message = f"an entry of {length:,} bytes is too long for a journal (at most {_LENGTH:,})"
        raise ValueError(message)
    fields = _FIELDS.pack(length | flags, tag, crc)
    return fields + _CHECK.pack(crc32c(fields, (seed ^ at) & 0xFFFFFFFF))


def encode_entries(at: int, payloads: Sequence[bytes], tag: int, seed: int) -> bytes:
    """Encode one append that begins at byte `at`, with a frame for each entry: readers see all entries or none."""
    if len(payloads) == 1:  # the fast way for the most frequent case
        return _header(at, len(payloads[0]), tag, crc32c(payloads[0]), 0, seed) + payloads[0]
    frames: list[bytes] = []
    for index, payload in enumerate(payloads, 1):
        flags = _MORE if index < len(payloads) else 0
        frames.append(_header(at, len(payload), tag, crc32c(payload), flags, seed) + payload)
        at += len(frames[-1])
    return b"".join(frames)


def encode_lines(at: int, lines: bytes, tag: int, seed: int) -> tuple[bytes, int]:
    r"""Encode one append of lines, which all end in a newline, as line blocks; returns the bytes and the line count.

    A single line is encoded like any single entry.

    >>> encode_lines(0, b"one\ntwo\n", -1, 0)[1]
    2
    >>> encode_lines(0, b"one\n", -1, 0) == (encode_entries(0, [b"one"], -1, 0), 1)
    True
    """
    if lines.find(_NEWLINE) == len(lines) - 1:  # the fast way for a single line
        return encode_entries(at, (lines[:-1],), tag, seed), 1
    if not lines.endswith(_NEWLINE):
        message = f"the last of the lines does not end in a newline: ...{lines[-40:]!r}"
        raise ValueError(message)
    pieces: list[bytes | memoryview] = []
    view, chars = memoryview(lines), np.frombuffer(lines, np.uint8)
    start = entries = 0
    while start < len(lines):
        stop = _end_of_block(lines, start)
        flags = _MORE if stop < len(lines) else 0
        if lines.find(_NEWLINE, start) == stop - 1:
            payload, length, count, head = view[start : stop - 1], stop - 1 - start, 1, b""
        else:
            payload, flags = view[start:stop], flags | _NO_ENTRY
            count = int(np.count_nonzero(chars[start:stop] == _NEWLINE[0]))
            head = _COUNT.pack(count)
            length = len(head) + stop - start
        pieces += (_header(at, length, tag, crc32c(payload, crc32c(head)), flags, seed), head, payload)
        at += HEADER_BYTES + length
        start, entries = stop, entries + count
    return b"".join(pieces), entries


def _end_of_block(lines: bytes, start: int) -> int:
    """The end of the line block that begins at `start`: after a line, even if this line makes the block too long."""
    if len(lines) - start <= _BLOCK:
        return len(lines)
    return (lines.rfind(_NEWLINE, start, start + _BLOCK) + 1) or (lines.index(_NEWLINE, start) + 1)


def encode_empty_frame(at: int, tag: int, seed: int) -> bytes:
    """Encode a frame that has a tag and no payload."""
    return _header(at, 0, tag, crc32c(b""), _NO_ENTRY, seed)


def encode_note(at: int, note: bytes, tag: int, seed: int, *, more: bool) -> bytes:
    """Encode a frame with a note. `more`: the append continues in the next frame."""
    payload = _COUNT.pack(0) + note
    return _header(at, len(payload), tag, crc32c(payload), _NO_ENTRY | (_MORE if more else 0), seed) + payload


def _fields(header: bytes, at: int, seed: int) -> tuple[int, int, int] | None:
    """(length and flags, tag, crc) of the frame header at byte `at`; None if these bytes are no good header."""
    if len(header) < HEADER_BYTES:
        return None
    (check,) = _CHECK.unpack_from(header, _FIELDS.size)
    if crc32c(header[: _FIELDS.size], (seed ^ at) & 0xFFFFFFFF) != check:
        return None
    fields: tuple[int, int, int] = _FIELDS.unpack_from(header)
    return fields


def read_frames(file: int, at: int, seed: int) -> Iterator[Frame]:
    """Yield the good frames from byte `at` on; stop before the first frame that is incomplete or damaged."""
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
        if first + length > len(data):  # and the next header, so that consecutive line blocks take one call each
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


def frame_ends(file: int, at: int, seed: int) -> Iterator[int]:
    """Yield the end of each whole frame from byte `at` on. Reads the headers of frames, and no payload."""
    size = os.fstat(file).st_size
    while (fields := _fields(os.pread(file, HEADER_BYTES, at), at, seed)) is not None:
        at += HEADER_BYTES + (fields[0] & _LENGTH)
        if at > size:
            return
        yield at


def is_cut_short(file: int, at: int, seed: int) -> bool:
    """True if the file ends within the frame that begins at byte `at`, or before it."""
    left = os.fstat(file).st_size - at
    if left < HEADER_BYTES:
        return True
    fields = _fields(os.pread(file, HEADER_BYTES, at), at, seed)
    return fields is not None and HEADER_BYTES + (fields[0] & _LENGTH) > left


def refuse_altered(path: Path, file: int, at: int, seed: int) -> None:
    """Raise `AlteredLog` if an interrupted write cannot explain the bytes from `at` on, where no good frame begins.

    An interrupted write leaves an incomplete frame, or (after a loss of power) damaged bytes up to the end of the file.
    If a good frame follows a damaged frame, the file was altered.
    """
    if is_cut_short(file, at, seed):
        return
    rest = os.pread(file, os.fstat(file).st_size - at, at)
    for index in range(1, len(rest.rstrip(b"\0"))):
        if _fields(rest[index : index + HEADER_BYTES], at + index, seed) is None:
            continue
        if (
            next(read_frames(file, at + index, seed), None) is not None
            and next(read_frames(file, at, seed), None) is None
        ):
            message = (
                f"{path} was altered: the entry at byte {at:,} is damaged, yet good entries follow at byte "
                f"{at + index:,}. Restore the file from a copy, or begin a new journal"
            )
            raise AlteredLog(message)
