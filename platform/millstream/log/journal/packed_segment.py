"""Packed segments: closed segments of lines, rewritten in columns; entries may have been left out.

A packed segment has the name of the segment that it replaces. It begins with a magic string of its own and a head,
which has the number of its blocks; each block is a frame with the indexes of some entries, and their lines in columns.
It is written completely and then renamed, so a damaged or short file was altered.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from millstream.errors import AlteredLog
from millstream.log.journal.frames import Frame, encode_entries, frame_ends, read_frames
from millstream.log.journal.line_blocks import Entry
from millstream.log.journal.line_columns import pack_lines, unpack_lines
from millstream.log.journal.segment import Segment, segment_path, segment_seed

__all__ = ["PackedSegment", "open_segment", "pack_block", "packed_file"]

_MAGIC = b"MSPACK1\n"
_HEAD = struct.Struct("<16sqqI")
_LENGTH = struct.Struct("<I")
_BLOCK = 2048
"""The entries of a block: packing a block takes some milliseconds."""


def packed_file(journal: str, first: int, end: int, header: bytes, blocks: Sequence[bytes]) -> bytes:
    """The bytes of a packed segment of the entries [first, end)."""
    head = _HEAD.pack(bytes.fromhex(journal), first, end, len(blocks)) + header
    data, seed = _MAGIC + encode_entries(len(_MAGIC), [head], -1, 0), segment_seed(journal)
    for block in blocks:
        data += encode_entries(len(data), [block], -1, seed)
    return data


def pack_block(entries: Sequence[Entry]) -> Iterator[bytes]:
    """Pack entries without tags block by block."""
    for start in range(0, len(entries), _BLOCK):
        some = entries[start : start + _BLOCK]
        assert all(entry.tag < 0 for entry in some), "a packed segment has no tags"
        indexes = np.array([entry.index for entry in some], np.int64)
        packed = zlib.compress(np.diff(indexes, prepend=0).tobytes())
        yield _LENGTH.pack(len(packed)) + packed + pack_lines([entry.payload for entry in some])


def open_segment(folder: Path, first: int, points: list[tuple[int, int]] | None = None) -> Segment | PackedSegment:
    """Open a segment of either kind. `points` is the sparse index of a segment that is not packed."""
    file = os.open(segment_path(folder, first), os.O_RDONLY)  # once: a packed segment may take the name at any time
    if os.pread(file, len(_MAGIC), 0) == _MAGIC:
        return PackedSegment(folder, first, file)
    return Segment(folder, first, points, file)


class PackedSegment:
    """A packed segment that is open for reading, with the methods of `Segment` that readers of old segments need.

    The segment closes the open `file`.
    """

    _file = -1
    ready = True

    def __init__(self, folder: Path, first: int, file: int) -> None:
        self.path = segment_path(folder, first)
        self._file = file
        head = next(read_frames(self._file, len(_MAGIC), 0), None)
        if head is None or len(head.payload) < _HEAD.size:
            self._refuse(len(_MAGIC))
        identity, self.first, self.end, self._blocks = _HEAD.unpack_from(head.payload)
        self.journal: str = identity.hex()
        self.header = head.payload[_HEAD.size :]
        self._begin = head.stop
        if self.first != first:
            message = f"{self.path} was renamed: its head says that it begins with entry {self.first}"
            raise AlteredLog(message)

    def frames(self, start: int, stop: int, *, to_its_end: bool) -> Iterator[tuple[int, Frame]]:
        """Yield the entries at [start, stop) that are left, each as a frame."""
        at, blocks = self._begin, 0
        for block in read_frames(self._file, at, segment_seed(self.journal)):
            at, blocks = block.stop, blocks + 1
            indexes, lines = _unpack(block.payload)
            if indexes and indexes[-1] >= start:
                for index, line in zip(indexes, lines(), strict=True):
                    if start <= index < stop:
                        yield index, Frame(block.start, block.stop, False, 1, -1, line)
            if indexes and indexes[-1] >= stop and not to_its_end:
                return
        if blocks < self._blocks or at != os.fstat(self._file).st_size:
            self._refuse(at)

    def check_length(self) -> None:
        """Refuse a file that does not end with its last block. Reads the headers of the blocks only."""
        ends = [self._begin, *frame_ends(self._file, self._begin, segment_seed(self.journal))]
        if len(ends) != 1 + self._blocks or ends[-1] != os.fstat(self._file).st_size:
            self._refuse(ends[-1])

    def _refuse(self, at: int) -> NoReturn:
        message = (
            f"{self.path} was cut or damaged at byte {at:,}: a packed segment is written as a whole. Restore the file "
            "from a copy, or start over with --fresh"
        )
        raise AlteredLog(message)

    def points(self) -> list[tuple[int, int]]:
        """No sparse index: blocks are read in turn."""
        return []

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> PackedSegment:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def _unpack(block: bytes) -> tuple[list[int], Any]:
    """The indexes of a block's entries, and a function that returns their lines."""
    (length,) = _LENGTH.unpack_from(block)
    begin = _LENGTH.size
    differences = np.frombuffer(zlib.decompress(block[begin : begin + length]), np.int64)
    return differences.cumsum().tolist(), lambda: unpack_lines(block[begin + length :])
