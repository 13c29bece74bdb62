"""One JSON Lines file as an append-only log: rows are counted as the file grows, and any row is found by seeking.

A line is a row once it ends in a newline. The last line counts without a newline if it is a whole JSON object already
(bytes appended later cannot belong to this object), or if the file is known to be complete.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from millstream.errors import AlteredLog

__all__ = ["LinesFile"]

_EVERY = 1024  # rows between two entries of the index
_FAR = 8 * _EVERY
_CHUNK = 4 << 20
_SAVE_AFTER = 64 << 20
_NEWLINE = 10


class LinesFile:
    """Rows of a file, with a sparse index of their first bytes; the file `index` has it for other processes and starts.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.jsonl").write_text('{"text": "a"}\\n{"text": "b"}\\n{"te')
    >>> file = LinesFile(folder / "a.jsonl", folder / "index.npy")
    >>> file.count(), list(file.blocks(1, 2))
    (2, [(1, b'{"text": "b"}\\n')])
    """

    def __init__(self, path: Path, index: Path, *, complete: bool = False) -> None:
        self.path = path
        self._index = index
        self._complete = complete
        self._inode = 0
        self._seen = (-1, -1)  # size and time of change at the last count
        self._rows, self._byte = 0, 0  # the number of whole lines, and the byte after them
        self._last = 0  # 1 if a last line without a newline counts
        self._points = [0]  # the first bytes of rows 0, 1024, 2048, ...
        self._read_to = (0, 0)  # the row and byte at which the last `blocks` stopped
        self._saved = 0
        self._load()

    def count(self) -> int:
        """The number of rows that the file has now."""
        try:
            stat = os.stat(self.path)
        except FileNotFoundError:
            message = f"{self.path} is gone, and this run has read it; put it back"
            raise AlteredLog(message) from None
        if (stat.st_size, stat.st_mtime_ns) != self._seen:
            if stat.st_size < self._byte or self._inode not in (0, stat.st_ino):
                message = f"{self.path} was cut or replaced while it was read; put the old one back, or start over"
                raise AlteredLog(message)
            self._inode = stat.st_ino
            self._count_new()
            self._seen = (stat.st_size, stat.st_mtime_ns)
            if self._byte - self._saved > _SAVE_AFTER or self._saved == 0:
                self.save()
        return self._rows + self._last

    def _count_new(self) -> None:
        with self.path.open("rb", buffering=0) as file:
            file.seek(self._byte)
            at, tail = self._byte, b""
            while chunk := file.read(_CHUNK):
                ends = np.flatnonzero(np.frombuffer(chunk, dtype=np.uint8) == _NEWLINE)
                first = _EVERY - 1 - self._rows % _EVERY  # the row after this line of the chunk is in the index
                self._points.extend((ends[first::_EVERY] + (at + 1)).tolist())
                at += len(chunk)
                if len(ends):
                    self._rows += len(ends)
                    self._byte = at - len(chunk) + int(ends[-1]) + 1
                    tail = b""
                tail += chunk[int(ends[-1]) + 1 if len(ends) else 0 :]
        self._last = 1 if tail and (self._complete or _is_whole(tail)) else 0

    def blocks(self, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """The lines of rows [start, stop) in blocks: the number of the first row, and the bytes of the lines."""
        row, byte = self._row_before(start)
        with self.path.open("rb", buffering=0) as file:
            file.seek(byte)
            pending, ended = b"", True
            while row < stop:
                wanted = max(len(pending), min(_CHUNK, (stop - row) * 512), 64 << 10)
                chunk = file.read(wanted)
                block = pending + chunk
                ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == _NEWLINE)
                if len(chunk) < wanted and block and not block.endswith(b"\n"):  # the file's last line
                    ends = np.append(ends, len(block) - 1)
                if not len(ends):
                    if not chunk:
                        message = f"{self.path} has {row:,} rows, and row {stop - 1:,} was to be read: it was cut"
                        raise AlteredLog(message)
                    pending = block
                    continue
                skipped = min(max(start - row, 0), len(ends))
                taken = min(len(ends), stop - row)
                begin = int(ends[skipped - 1]) + 1 if skipped else 0
                end = int(ends[taken - 1]) + 1
                byte += end
                ended = block.endswith(b"\n", 0, end)
                if taken > skipped:
                    yield row + skipped, block[begin:end]
                row += taken
                pending = block[end:]
            if ended:  # otherwise the next row begins after a newline that is not written yet
                self._read_to = (row, byte)

    def _row_before(self, row: int) -> tuple[int, int]:
        """A row at or before this one whose first byte is known, and that byte."""
        index = min(row // _EVERY, len(self._points) - 1)
        if row - index * _EVERY > _FAR:
            self._load()  # another process may have counted on
            index = min(row // _EVERY, len(self._points) - 1)
        found = (index * _EVERY, self._points[index])
        return self._read_to if found[0] < self._read_to[0] <= row else found

    def digest(self, upto: int) -> str:
        """A digest of the first `upto` rows without the last line end, so appended bytes do not change it."""
        last, end = self._first_byte(max(upto - 1, 0)), self._first_byte(upto)
        whole, left = hashlib.sha256(), last
        with self.path.open("rb") as file:
            while left and (chunk := file.read(min(_CHUNK, left))):
                left -= len(chunk)
                whole.update(chunk)
            whole.update(file.read(end - last).rstrip(b"\r\n"))
        return whole.hexdigest()

    def _first_byte(self, row: int) -> int:
        """The first byte of a row, or the end of the file if there is no such row."""
        known, byte = self._row_before(row)
        with self.path.open("rb", buffering=0) as file:
            file.seek(byte)
            while known < row and (chunk := file.read(_CHUNK)):
                ends = np.flatnonzero(np.frombuffer(chunk, dtype=np.uint8) == _NEWLINE)
                if known + len(ends) >= row:
                    return byte + int(ends[row - known - 1]) + 1
                known += len(ends)
                byte += len(chunk)
        return byte

    # The index

    def _load(self) -> None:
        try:
            size, changed, rows, byte, last, *points = np.load(self._index).tolist()
            stat = os.stat(self.path)
        except (FileNotFoundError, ValueError, EOFError):
            return
        if stat.st_size < size or (stat.st_size == size and stat.st_mtime_ns != changed) or byte < self._byte:
            return
        self._rows, self._byte, self._last, self._points = rows, byte, last, points
        self._saved = max(byte, 1)
        if stat.st_size == size:
            self._seen = (size, changed)

    def save(self) -> None:
        """Write the index to its file."""
        known = [*self._seen, self._rows, self._byte, self._last, *self._points]
        partial = self._index.with_name(f"{self._index.name}.{os.getpid()}.tmp.npy")
        np.save(partial, np.array(known, dtype=np.int64))
        partial.rename(self._index)
        self._saved = max(self._byte, 1)


def _is_whole(line: bytes) -> bool:
    if not line.rstrip().endswith(b"}"):
        return False
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict)
