"""One file of a journal: its head, and a sparse index of its entries, so that reading need not begin at its start."""

from __future__ import annotations

import bisect
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crc32c import crc32c

from millstream.errors import AlteredLog, Contradiction, UnknownFormat
from millstream.log.journal.frames import Frame, encode_entries, is_cut_short, read_frames, refuse_altered

__all__ = ["Segment", "first_indexes", "segment_head", "segment_name", "segment_path", "segment_seed"]

_FORMAT = 2
_MAGIC = b"MSJRNL%d\n" % _FORMAT
_ANY = re.compile(rb"MSJRNL(\d)\n")
_HEAD = struct.Struct("<16sq")
_SUFFIX = ".journal"
_INDEX_EVERY = 256  # entries between two points of the sparse index


def segment_path(folder: Path, first: int) -> Path:
    """The path of the segment whose first entry is `first`."""
    return folder / segment_name(first)


def segment_name(first: int) -> str:
    """The file name of the segment whose first entry is `first`."""
    return f"{first:020d}{_SUFFIX}"


def first_indexes(folder: Path) -> list[int]:
    """The first index of every segment, in order."""
    names = (name.removesuffix(_SUFFIX) for name in os.listdir(folder) if name.endswith(_SUFFIX))
    return sorted(int(name) for name in names if len(name) == 20 and name.isdigit())


def segment_seed(journal: str) -> int:
    """The seed of the checks in the frames of the journal with this id."""
    return crc32c(bytes.fromhex(journal))


def segment_head(journal: str, first: int, tag: int, header: bytes) -> bytes:
    """The first bytes of a segment: the magic string, and a frame with the journal's id, `first` and the header."""
    return _MAGIC + encode_entries(len(_MAGIC), [_HEAD.pack(bytes.fromhex(journal), first) + header], tag, 0)


class Segment:
    """A segment that is open for reading; `ready` is false if its head is incomplete: its creation was interrupted."""

    _file = -1

    def __init__(
        self, folder: Path, first: int, points: list[tuple[int, int]] | None = None, file: int | None = None
    ) -> None:
        self.path = segment_path(folder, first)
        self.first = first
        self._file = os.open(self.path, os.O_RDONLY) if file is None else file
        self.inode = os.fstat(self._file).st_ino
        self.ready = False
        head = next(read_frames(self._file, len(_MAGIC), 0), None)
        magic = os.pread(self._file, len(_MAGIC), 0)
        if head is None and _MAGIC.startswith(magic) and is_cut_short(self._file, len(_MAGIC), 0):
            return
        if head is None or magic != _MAGIC:
            raise _refusal(self.path, magic)
        identity, stated_first = _HEAD.unpack_from(head.payload)
        if stated_first != first:
            message = f"{self.path} was renamed: its head says that it begins with entry {stated_first}"
            raise AlteredLog(message)
        self.ready = True
        self.journal: str = identity.hex()
        self.seed = segment_seed(self.journal)
        self.header = head.payload[_HEAD.size :]
        self.end, self.end_byte, self.tag, self.note = first, head.stop, head.tag, b""
        self._size_seen = 0
        self._last_stop = (first, head.stop)  # the entry index and the byte at which `frames` stopped last
        self._points = points if points is not None else []
        if not self._points:
            self._points.append((first, head.stop))

    def refresh(self) -> None:
        """Find the entries appended after the last call. An append is visible when all of its frames exist."""
        size = os.fstat(self._file).st_size
        if size == self._size_seen:
            return
        if size < self.end_byte:
            message = (
                f"{self.path} was cut to {size:,} bytes while it was read; it had entries up to byte {self.end_byte:,}"
            )
            raise AlteredLog(message)
        append: list[Frame] = []
        at = self.end_byte
        for frame in read_frames(self._file, at, self.seed):
            append.append(frame)
            at = frame.stop
            if not frame.more:
                self._add(append)
                append = []
        if at < size:
            refuse_altered(self.path, self._file, at, self.seed)
        self._size_seen = size if size == self.end_byte else 0

    def _add(self, append: list[Frame]) -> None:
        for frame in append:
            if frame.entries:
                self._add_point(self.end, frame.start)
                self.end += frame.entries
            if frame.tag >= 0:
                self.tag = frame.tag
            self.note = frame.note or self.note
        self.end_byte = append[-1].stop

    def _add_point(self, index: int, byte: int) -> None:
        if index - self._points[-1][0] >= _INDEX_EVERY:
            self._points.append((index, byte))

    def frames(self, start: int, stop: int, *, to_its_end: bool) -> Iterator[tuple[int, Frame]]:
        """Yield the frames of the entries at [start, stop), each with the index of its first entry.

        The caller knows that these entries exist. `to_its_end`: true if the next segment begins at `stop`.
        """
        index = bisect.bisect_right(self._points, start, key=lambda point: point[0]) - 1
        index, at = self._points[index]
        if index < self._last_stop[0] <= start:
            index, at = self._last_stop
        if index < stop:
            for frame in read_frames(self._file, at, self.seed):
                at = frame.stop
                if not frame.entries:
                    continue
                self._add_point(index, frame.start)
                first, index = index, index + frame.entries
                if index >= stop:
                    self._last_stop = (index, at) if index == stop else (first, frame.start)
                if index > start:
                    yield first, frame
                if index >= stop:
                    break
        if index < stop:
            refuse_altered(self.path, self._file, at, self.seed)
            message = (
                f"{self.path} was cut or damaged at byte {at:,}: entry {index:,} is missing, although the journal had "
                f"all entries before entry {stop:,}. Restore the file from a copy, or begin a new journal"
            )
            raise AlteredLog(message)
        if to_its_end:
            self._refuse_more(index, at, stop)

    def _refuse_more(self, index: int, at: int, stop: int) -> None:
        for frame in read_frames(self._file, at, self.seed):
            index += frame.entries
            at = frame.stop
        if index > stop:
            message = (
                f"{self.path} has more entries, up to byte {at:,}, than it should: the next segment begins with entry "
                f"{stop:,}. Restore the file from a copy"
            )
            raise AlteredLog(message)
        if at != os.fstat(self._file).st_size:
            message = f"{self.path} is damaged at byte {at:,}, after its last entry. Restore the file from a copy"
            raise AlteredLog(message)

    def points(self) -> list[tuple[int, int]]:
        """The sparse index, (entry index, byte) in order, for another object of the same segment."""
        return self._points

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Segment:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def _refusal(path: Path, magic: bytes) -> Contradiction:
    """The error for a file that does not begin with a good head of this format."""
    other = _ANY.fullmatch(magic)
    if other is not None and magic != _MAGIC:
        message = (
            f"{path} is a journal of format {int(other[1])}, and this version of Millstream reads format {_FORMAT}: "
            "use the version that wrote it, or begin a new journal (a run: start over with --fresh)"
        )
        return UnknownFormat(message)
    message = (
        f"{path} does not begin with the head of a journal segment (byte 0): it was altered, or is another kind of file"
    )
    return AlteredLog(message)
