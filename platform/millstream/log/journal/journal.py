"""The journal: an append-only log of byte strings on one machine.

The epoch log, the embedded log, and the open file of a `files` sink are journals.

One writer appends entries; an append may carry a *tag* (an epoch). Several readers, in any process, can read at the
same time; they see an append when all of it is in the file. The files are *segments*, named by their first entry. Old
segments can be dropped: each segment begins with the data that must not be lost with them (the journal's id, the last
tag, and a header that the writer chooses). Entries that are appended together are stored as line blocks if none
contains a newline.

Appended entries survive the death of the writer's process. Entries appended before the last `sync` survive a loss of
power. When the journal is opened again, the incomplete end that an interrupted write may have left is cut off.
"""

from __future__ import annotations

import bisect
import itertools
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from millstream.errors import InUse
from millstream.log.journal.durability import make_folder, sync_data, sync_file, sync_folder
from millstream.log.journal.frames import encode_empty_frame, encode_entries, encode_lines, encode_note
from millstream.log.journal.line_blocks import Entry
from millstream.log.journal.lock import FolderLock
from millstream.log.journal.packed_segment import PackedSegment, open_segment, pack_block, packed_file
from millstream.log.journal.reader import JournalReader, newest_segment
from millstream.log.journal.segment import Segment, first_indexes, segment_head, segment_path, segment_seed

__all__ = ["Journal"]

_MAKING, _PACKING = "_making", "_packing"


class Journal:
    """The one writer of a journal. A second one is refused, in another process and in the same one.

    `append` and `sync` may be called from different threads. `header` is called for each new segment and returns its
    header. A segment is full when it has `segment_bytes`. An append may have a *note*, bytes that are no entry; `note`
    is the last one of the newest segment, so `header` has to carry over what is still needed.

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

    def __init__(
        self, folder: Path, *, header: Callable[[], bytes] = lambda: b"", segment_bytes: int = 8 << 20
    ) -> None:
        self._folder = folder
        self._header = header
        self._segment_bytes = segment_bytes
        self._lock = threading.RLock()
        self._file = -1
        self._reader: JournalReader | None = None
        self._firsts: list[int] = []
        """The first entry of each segment."""
        self._packed = 0
        """A segment before which no other one is left to be packed."""
        make_folder(folder)
        self._writer = FolderLock(folder)  # locked before any file is changed
        try:
            self._open()
        except BaseException:
            self._writer.release()
            raise

    def _open(self) -> None:
        for partial in (_MAKING, _PACKING):
            (self._folder / partial).unlink(missing_ok=True)
        newest = newest_segment(self._folder, remove=True)
        if newest is None:
            self.id = secrets.token_hex(16)
            self.next_index, self.last_tag, self.note = 0, -1, b""
            self._begin_segment()
        else:
            self._continue(newest)

    def _continue(self, segment: Segment) -> None:
        sync_folder(
            self._folder
        )  # the process that created the segment may have been killed before it synced the folder
        with segment:
            segment.refresh()
            self.id, self.header = segment.journal, segment.header
            self.next_index, self.last_tag, self.note = segment.end, segment.tag, segment.note
            self._first, self._seed, self._size = segment.first, segment.seed, segment.end_byte
            self._firsts = first_indexes(self._folder)
            self._file = os.open(segment.path, os.O_RDWR)
            if os.fstat(self._file).st_size > self._size:
                os.ftruncate(self._file, self._size)

    @property
    def first_index(self) -> int:
        """The first entry that has not been dropped."""
        return self._firsts[0]

    @property
    def second_index(self) -> int | None:
        """The first entry of the second segment; None if there is only one segment."""
        with self._lock:
            return self._firsts[1] if len(self._firsts) > 1 else None

    def append(self, payload: bytes, tag: int = -1) -> int:
        """Append one entry and return its index; `sync` makes it durable."""
        with self._lock:
            index = self.next_index
            self._roll_if_full()
            self._append(encode_entries(self._size, (payload,), tag, self._seed), 1, tag)
            return index

    def append_many(self, payloads: Iterable[bytes], tag: int = -1, note: bytes = b"") -> None:
        """Append entries in one write: readers, and a start after a crash, see all of these entries or none.

        Without entries, only the tag and the note are appended.
        """
        with self._lock:
            payloads = list(payloads)
            self._roll_if_full()
            head = self._note_frame(note, tag, more=bool(payloads))
            at, data, entries = self._size + len(head), b"", 0
            if len(payloads) > 1:
                data, entries = encode_lines(at, b"\n".join([*payloads, b""]), tag, self._seed)
            if entries != len(payloads):  # a single entry, or an entry with a newline in it
                data = encode_entries(at, payloads, tag, self._seed)
            self._append(head + data, len(payloads), tag, note)

    def append_lines(self, lines: bytes, tag: int = -1, note: bytes = b"") -> None:
        """Append lines in one write, each as an entry. A newline ends each line and is not part of the entry."""
        with self._lock:
            self._roll_if_full()
            head = self._note_frame(note, tag, more=bool(lines))
            data, entries = encode_lines(self._size + len(head), lines, tag, self._seed) if lines else (b"", 0)
            self._append(head + data, entries, tag, note)

    def _note_frame(self, note: bytes, tag: int, *, more: bool) -> bytes:
        return encode_note(self._size, note, tag, self._seed, more=more) if note else b""

    def _roll_if_full(self) -> None:
        self._check_writer()
        if self._size >= self._segment_bytes:
            self.roll()

    def _append(self, data: bytes, entries: int, tag: int, note: bytes = b"") -> None:
        if data:
            self._write_append(data)
        elif tag >= 0:
            self._write_append(encode_empty_frame(self._size, tag, self._seed))
        self.note = note or self.note
        self.next_index += entries
        if tag >= 0:
            self.last_tag = tag

    def _check_writer(self) -> None:
        if not self._writer.held:
            message = f"{self._folder} was closed: nothing was appended"
            raise InUse(message)

    def _write_append(self, data: bytes) -> None:
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
            raise OSError(error.errno, message, str(segment_path(self._folder, first))) from error

    def sync(self) -> None:
        """Make all entries that were appended so far durable: they survive a loss of power."""
        with self._lock:
            file = os.dup(self._file)  # `roll` may close the file during this call, but syncs it first
        try:
            sync_data(file)
        finally:
            os.close(file)

    def roll(self) -> None:
        """Begin a new segment, with the header that `header()` returns now."""
        with self._lock:
            self._check_writer()
            sync_file(self._file)
            old = self._file
            try:
                self._begin_segment()
            finally:
                if self._file != old:
                    os.close(old)

    def _begin_segment(self) -> None:
        header = self._header()
        head = segment_head(self.id, self.next_index, self.last_tag, header)
        path, making = segment_path(self._folder, self.next_index), self._folder / _MAKING
        file = os.open(making, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            self._write(file, self.next_index, 0, head)
            sync_file(file)
            making.rename(path)
        except BaseException:
            os.close(file)
            raise
        self.header, self.note = header, b""
        self._file, self._first, self._size, self._seed = file, self.next_index, len(head), segment_seed(self.id)
        if self._firsts[-1:] != [self._first]:
            self._firsts.append(self._first)
        sync_folder(self._folder)

    def drop_before(self, index: int) -> None:
        """Delete the segments that have only entries before `index`."""
        self._check_writer()
        while (second := self.second_index) is not None and second <= index:
            self._drop_first()

    def drop_oldest(self) -> None:
        """Delete the oldest segment durably, which is not the newest one."""
        self._check_writer()
        assert self.second_index is not None, "the newest segment is never dropped"
        self._drop_first()
        sync_folder(self._folder)

    def _drop_first(self) -> None:
        segment_path(self._folder, self._firsts[0]).unlink()
        with self._lock:
            del self._firsts[0]

    def closed_segments(self) -> list[tuple[int, int]]:
        """The closed segments that are not packed, oldest first: for each its first entry and that of the next one."""
        with self._lock:
            firsts = self._firsts[bisect.bisect_left(self._firsts, self._packed) :]
        found: list[tuple[int, int]] = []
        for first, following in reversed(list(itertools.pairwise(firsts))):
            with open_segment(self._folder, first) as segment:
                if isinstance(segment, PackedSegment):
                    break
            found.insert(0, (first, following))
        self._packed = found[0][0] if found else firsts[-1]
        return found

    def header_of(self, first: int) -> bytes:
        """The header of the segment with this first entry."""
        with open_segment(self._folder, first) as segment:
            return segment.header

    def pack(self, first: int, end: int, entries: Sequence[Entry]) -> Iterator[None]:
        """Replace a closed segment by a packed one with these of its entries; yields after each step.

        The replacement is one atomic step: readers see all entries of the closed segment, or these.
        """
        self._check_writer()
        blocks = []
        for block in pack_block(entries):
            blocks.append(block)
            yield
        packing = self._folder / _PACKING
        with packing.open("wb") as file:
            file.write(packed_file(self.id, first, end, self.header_of(first), blocks))
            file.flush()
            sync_file(file.fileno())
        yield
        self._check_writer()
        packing.rename(segment_path(self._folder, first))
        sync_folder(self._folder)

    def entries(self, start: int, stop: int | None = None) -> Iterator[Entry]:
        """The entries from `start` on, up to `stop` or to the end."""
        if self._reader is None:
            self._reader = JournalReader(self._folder)
        return self._reader.read(start, stop)

    def close(self) -> None:
        """Close the files and release the lock, without a `sync`."""
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
