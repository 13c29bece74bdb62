"""One file of a journal: its head, and walking over its entries without reading from its start every time."""

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
from millstream.log.journal.frames import Frame, cut_short, frames, joined, refuse_altered

__all__ = ["Part", "first_indexes", "part_head", "part_name", "part_path", "part_seed"]

_FORMAT = 2
_MAGIC = b"MSJRNL%d\n" % _FORMAT
_ANY = re.compile(rb"MSJRNL(\d)\n")
_HEAD = struct.Struct("<16sq")
_SUFFIX = ".journal"
_EVERY = 256  # entries between two remembered places


def part_path(folder: Path, first: int) -> Path:
    """The file of the part whose first entry is `first`."""
    return folder / part_name(first)


def part_name(first: int) -> str:
    """The name of that file."""
    return f"{first:020d}{_SUFFIX}"


def first_indexes(folder: Path) -> list[int]:
    """The first index of every part, in order."""
    names = (name.removesuffix(_SUFFIX) for name in os.listdir(folder) if name.endswith(_SUFFIX))
    return sorted(int(name) for name in names if len(name) == 20 and name.isdigit())


def part_seed(journal: str) -> int:
    """What the checks of a journal's frames begin with."""
    return crc32c(bytes.fromhex(journal))


def part_head(journal: str, first: int, tag: int, header: bytes) -> bytes:
    """The bytes that a part begins with."""
    return _MAGIC + joined(len(_MAGIC), [_HEAD.pack(bytes.fromhex(journal), first) + header], tag, 0)


class Part:
    """A part, open for reading; `ready` is false where its making was interrupted before its head was whole."""

    _file = -1

    def __init__(self, folder: Path, first: int, points: list[tuple[int, int]] | None = None) -> None:
        self.path = part_path(folder, first)
        self.first = first
        self._file = os.open(self.path, os.O_RDONLY)
        self.inode = os.fstat(self._file).st_ino
        self.ready = False
        head = next(frames(self._file, len(_MAGIC), 0), None)
        magic = os.pread(self._file, len(_MAGIC), 0)
        if head is None and _MAGIC.startswith(magic) and cut_short(self._file, len(_MAGIC), 0):
            return
        if head is None or magic != _MAGIC:
            raise _refusal(self.path, magic)
        identity, named = _HEAD.unpack_from(head.payload)
        if named != first:
            message = f"{self.path} was renamed: its head says that it begins with entry {named}"
            raise AlteredLog(message)
        self.ready = True
        self.journal: str = identity.hex()
        self.seed = part_seed(self.journal)
        self.header = head.payload[_HEAD.size :]
        self.end, self.end_byte, self.tag = first, head.stop, head.tag
        self._looked = 0
        self._left = (first, head.stop)  # where the last reading ended
        self._points = points if points is not None else []
        if not self._points:
            self._points.append((first, head.stop))

    def look(self) -> None:
        """Find the entries that have come since; an append counts once all of it is there."""
        size = os.fstat(self._file).st_size
        if size == self._looked:
            return
        if size < self.end_byte:
            message = (
                f"{self.path} was cut to {size:,} bytes while it was read: it had entries up to byte {self.end_byte:,}"
            )
            raise AlteredLog(message)
        append: list[Frame] = []
        at = self.end_byte
        for frame in frames(self._file, at, self.seed):
            append.append(frame)
            at = frame.stop
            if not frame.more:
                self._count(append)
                append = []
        if at < size:
            refuse_altered(self.path, self._file, at, self.seed)
        self._looked = size if size == self.end_byte else 0

    def _count(self, append: list[Frame]) -> None:
        for frame in append:
            if frame.entries:
                self._remember(self.end, frame.start)
                self.end += frame.entries
            if frame.tag >= 0:
                self.tag = frame.tag
        self.end_byte = append[-1].stop

    def _remember(self, index: int, byte: int) -> None:
        if index - self._points[-1][0] >= _EVERY:
            self._points.append((index, byte))

    def frames(self, start: int, stop: int, *, to_its_end: bool) -> Iterator[tuple[int, Frame]]:
        """The frames of the entries at [start, stop), which are known to be there, each after its first entry's index.

        `to_its_end` if the next part begins at `stop`.
        """
        index = bisect.bisect_right(self._points, start, key=lambda point: point[0]) - 1
        index, at = self._points[index]
        if index < self._left[0] <= start:
            index, at = self._left
        if index < stop:
            for frame in frames(self._file, at, self.seed):
                at = frame.stop
                if not frame.entries:
                    continue
                self._remember(index, frame.start)
                first, index = index, index + frame.entries
                if index >= stop:
                    self._left = (index, at) if index == stop else (first, frame.start)
                if index > start:
                    yield first, frame
                if index >= stop:
                    break
        if index < stop:
            refuse_altered(self.path, self._file, at, self.seed)
            message = (
                f"{self.path} was cut or damaged at byte {at:,}: entry {index:,} is not there, though later parts of "
                f"the journal are (up to entry {stop:,}). Restore the file from a copy, or begin a new journal"
            )
            raise AlteredLog(message)
        if to_its_end:
            self._refuse_more(index, at, stop)

    def _refuse_more(self, index: int, at: int, stop: int) -> None:
        for frame in frames(self._file, at, self.seed):
            index += frame.entries
            at = frame.stop
        if index > stop:
            message = (
                f"{self.path} holds more, up to byte {at:,}, than the next part allows, which begins with entry "
                f"{stop:,}"
            )
            raise AlteredLog(message)
        if at != os.fstat(self._file).st_size:
            message = f"{self.path} is damaged at byte {at:,}, after its last entry. Restore the file from a copy"
            raise AlteredLog(message)

    def points(self) -> list[tuple[int, int]]:
        """What it has learned about where entries lie, for another object of the same part."""
        return self._points

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Part:
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
    message = f"{path} does not begin like the part of a journal (byte 0): it was altered, or is another file"
    return AlteredLog(message)
