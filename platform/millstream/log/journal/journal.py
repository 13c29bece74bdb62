"""The journal: an append-only log of byte strings on one machine.

The epoch log, the embedded log, and the part that a file sink is writing are journals.

One writer appends, each entry with an optional *mark* (an epoch); several readers beside it, in any process, see an
append once all of it is there. Files are *parts*, named by their first entry. Old parts can be dropped; each part
begins with what must outlive them: the journal's id, the last mark, and a header of the writer's own. Entries that are
appended together lie together, as lines where that is possible: many cost little more than their bytes.

Everything the writer has appended survives the death of its process; what was there at the last `sync` survives a
loss of power. What an interrupted write left at the very end is cut when the journal is opened again.
"""

from __future__ import annotations

import itertools
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from millstream.errors import InUse
from millstream.log.journal.durability import make_folder, sync_folder
from millstream.log.journal.frames import empty_frame, in_blocks, joined
from millstream.log.journal.line_blocks import Entry
from millstream.log.journal.lock import FolderLock
from millstream.log.journal.reader import JournalReader, newest_part
from millstream.log.journal.segment import Part, first_indexes, part_head, part_path, part_seed

__all__ = ["Journal"]

_MAKING = "_making"


class Journal:
    """The one writer of a journal. A second process is refused; in the same process the newest one takes over.

    `append` and `sync` may be called from different threads.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with Journal(folder) as journal:
    ...     journal.append(b"first", tag=0)
    ...     journal.append_many([b"second", b"third"], tag=1)
    ...     journal.sync()
    0
    >>> [(entry.index, entry.tag, entry.payload) for entry in JournalReader(folder).read(1)]
    [(1, 1, b'second'), (2, 1, b'third')]
    """

    def __init__(self, folder: Path, *, header: Callable[[], bytes] = lambda: b"", part_bytes: int = 8 << 20) -> None:
        self._folder = folder
        self._header = header
        self._part_bytes = part_bytes
        self._lock = threading.RLock()
        self._file = -1
        self._reader: JournalReader | None = None
        make_folder(folder)
        self._writer = FolderLock(folder)  # before anything is changed
        try:
            self._open()
        except BaseException:
            self._writer.release()
            raise

    def _open(self) -> None:
        (self._folder / _MAKING).unlink(missing_ok=True)
        newest = newest_part(self._folder, remove=True)
        if newest is None:
            self.id = secrets.token_hex(16)
            self.next_index, self.last_tag = 0, -1
            self._begin_part()
        else:
            self._go_on(newest)

    def _go_on(self, part: Part) -> None:
        sync_folder(self._folder)  # whoever made the part may have been killed just before that
        with part:
            part.look()
            self.id, self.header = part.journal, part.header
            self.next_index, self.last_tag = part.end, part.tag
            self._first, self._seed, self._size = part.first, part.seed, part.end_byte
            self._file = os.open(part.path, os.O_RDWR)
            if os.fstat(self._file).st_size > self._size:
                os.ftruncate(self._file, self._size)

    @property
    def first_index(self) -> int:
        """The first entry that has not been dropped."""
        return first_indexes(self._folder)[0]

    def append(self, payload: bytes, tag: int = -1) -> int:
        """Add one entry and return its index; it is with the operating system, and not yet synced."""
        with self._lock:
            index = self.next_index
            self._make_room()
            self._keep(joined(self._size, (payload,), tag, self._seed), 1, tag)
            return index

    def append_many(self, payloads: Iterable[bytes], tag: int = -1) -> None:
        """Add entries in one write: after a crash, and for readers, all of them are there or none.

        Without entries, the mark alone is kept.
        """
        with self._lock:
            payloads = list(payloads)
            self._make_room()
            data, entries = b"", 0
            if len(payloads) > 1:
                data, entries = in_blocks(self._size, b"\n".join([*payloads, b""]), tag, self._seed)
            if entries != len(payloads):  # there is only one, or there are newlines in them
                data = joined(self._size, payloads, tag, self._seed)
            self._keep(data, len(payloads), tag)

    def append_lines(self, lines: bytes, tag: int = -1) -> None:
        """The same for entries that are lines, each with a newline behind it, which is no part of the entry."""
        with self._lock:
            self._make_room()
            data, entries = in_blocks(self._size, lines, tag, self._seed) if lines else (b"", 0)
            self._keep(data, entries, tag)

    def _make_room(self) -> None:
        self._check_writer()
        if self._size >= self._part_bytes:
            self.roll()

    def _keep(self, data: bytes, entries: int, tag: int) -> None:
        if entries:
            self._add(data)
        elif tag >= 0:
            self._add(empty_frame(self._size, tag, self._seed))
        self.next_index += entries
        if tag >= 0:
            self.last_tag = tag

    def _check_writer(self) -> None:
        if not self._writer.held:
            message = f"{self._folder} was closed, or is written by a later start in this process: nothing was appended"
            raise InUse(message)

    def _add(self, data: bytes) -> None:
        try:
            self._write(self._file, self._first, self._size, data)
        except BaseException:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(data)

    def _write(self, file: int, first: int, at: int, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                written = os.pwrite(file, view, at)
                at, view = at + written, view[written:]
        except OSError as error:
            message = f"cannot append {len(data):,} bytes: {error.strerror}"
            raise OSError(error.errno, message, str(part_path(self._folder, first))) from error

    def sync(self) -> None:
        """Make everything appended so far outlive a loss of power."""
        with self._lock:
            file = os.dup(self._file)  # a roll closes the file meanwhile, having synced it
        try:
            os.fdatasync(file)
        finally:
            os.close(file)

    def roll(self) -> None:
        """Begin a new part, with what `header` gives now."""
        with self._lock:
            self._check_writer()
            os.fsync(self._file)
            old = self._file
            self._begin_part()
            os.close(old)

    def _begin_part(self) -> None:
        header = self._header()
        head = part_head(self.id, self.next_index, self.last_tag, header)
        path, making = part_path(self._folder, self.next_index), self._folder / _MAKING
        file = os.open(making, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            self._write(file, self.next_index, 0, head)
            os.fsync(file)
            making.rename(path)
        except BaseException:
            os.close(file)
            raise
        sync_folder(self._folder)
        self.header = header
        self._file, self._first, self._size, self._seed = file, self.next_index, len(head), part_seed(self.id)

    def drop_before(self, index: int) -> None:
        """Remove the parts that hold only entries before `index`."""
        self._check_writer()
        firsts = first_indexes(self._folder)
        for first, following in itertools.pairwise(firsts):
            if following <= index:
                part_path(self._folder, first).unlink()

    def entries(self, start: int) -> Iterator[Entry]:
        """The entries from `start` on."""
        if self._reader is None:
            self._reader = JournalReader(self._folder)
        return self._reader.read(start)

    def close(self) -> None:
        """Let go of the files; nothing is synced."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
            self._writer.release()
        if self._reader is not None:
            self._reader.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
