"""Reading a journal, while a writer appends to it or without a writer."""

from __future__ import annotations

import bisect
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from millstream.errors import AlteredLog, ConfigError, Truncated
from millstream.log.journal.frames import Frame
from millstream.log.journal.line_blocks import Entry, LineBlock
from millstream.log.journal.packed_segment import PackedSegment, open_segment
from millstream.log.journal.segment import Segment, first_indexes, segment_name, segment_path

__all__ = ["JournalReader", "newest_segment"]


def newest_segment(folder: Path, *, remove: bool = False) -> Segment | None:
    """The newest complete segment: one whose creation was not interrupted; `remove` deletes newer, incomplete ones."""
    while firsts := first_indexes(folder) if folder.is_dir() else []:
        for first in reversed(firsts):
            try:
                segment = open_segment(folder, first)
            except FileNotFoundError:  # dropped since it was listed
                break
            if isinstance(segment, PackedSegment):
                segment.close()
                if first_indexes(folder)[-1:] > firsts[-1:]:  # the writer has begun a segment, and packed this one
                    break
                raise _following_gone(folder, segment)
            if segment.ready:
                return segment
            segment.close()
            if remove:
                segment.path.unlink()
        else:
            return None
    return None


def _following_gone(folder: Path, packed: PackedSegment) -> AlteredLog:
    """The error for a missing segment: a packed segment was closed, so another one follows it."""
    message = (
        f"{segment_path(folder, packed.end)} is gone: the segment before it, {packed.path.name}, was closed, so the "
        "journal went on in this file. Restore it from a copy, or start over with --fresh"
    )
    return AlteredLog(message)


class JournalReader:
    """Reads a journal while its writer may be appending; continuing to read costs time for new entries only.

    A reader is not for several threads: each thread opens a reader of its own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        newest = newest_segment(folder)
        if newest is None:
            message = f"{folder} holds no journal: `millstream log append {folder}` creates one"
            raise ConfigError(message)
        self._newest = newest
        self._older: Segment | PackedSegment | None = None
        self._points: dict[int, list[tuple[int, int]]] = {}
        self._firsts = first_indexes(folder)
        self.id = newest.journal

    @property
    def first_index(self) -> int:
        """The first entry that has not been dropped."""
        self._firsts = first_indexes(self._folder)
        return self._firsts[0] if self._firsts else self._newest.first

    @property
    def last_tag(self) -> int:
        """The last tag among the entries up to the last result of `end`; -1 if no append had a tag."""
        return self._newest.tag

    @property
    def note(self) -> bytes:
        """The last note of the newest segment, as of the last result of `end`; empty without one."""
        return self._newest.note

    def end(self) -> int:
        """One past the last entry that the journal has now."""
        while True:
            self._newest.refresh()
            if self._is_newest():
                return self._newest.end
            newest = newest_segment(self._folder)
            if newest is None or newest.journal != self.id:
                message = (
                    f"{self._folder} no longer holds the journal {self.id}: "
                    "it was removed, or replaced by a new journal"
                )
                raise AlteredLog(message)
            if newest.first == self._newest.first and newest.inode == self._newest.inode:
                newest.close()
                return self._newest.end
            self._points[self._newest.first] = self._newest.points()
            self._newest = newest  # the old segment closes its file when no iterator uses it any more
            self._firsts = first_indexes(self._folder)

    def _is_newest(self) -> bool:
        segment = self._newest
        try:
            if os.stat(segment.path).st_ino != segment.inode:
                return False
        except FileNotFoundError:
            return False
        return segment.end == segment.first or not os.path.exists(os.path.join(self._folder, segment_name(segment.end)))

    def read(self, start: int, stop: int | None = None) -> Iterator[Entry]:
        """The entries at [start, stop), or from `start` up to the current end."""
        upto = self._limit(stop)
        for index, frame in self._frames(start, upto):
            if frame.entries == 1:
                yield Entry(index, frame.tag, frame.payload)
            else:
                yield from LineBlock.of(frame, index, start, upto).entries()

    def blocks(self, start: int, stop: int | None = None) -> Iterator[LineBlock]:
        """The same entries as line blocks; an entry that is not in a line block is a block of its own."""
        upto = self._limit(stop)
        for index, frame in self._frames(start, upto):
            yield LineBlock.of(frame, index, start, upto)

    def _limit(self, stop: int | None) -> int:
        """`stop`, or the current end if that is less."""
        if stop is not None and stop <= self._newest.end:
            return stop
        end = self.end()
        return end if stop is None else min(stop, end)

    def _frames(self, start: int, stop: int) -> Iterator[tuple[int, Frame]]:
        while start < stop:
            segment, following = self._segment_of(start)
            upto = min(stop, following)
            yield from segment.frames(start, upto, to_its_end=upto == following)
            start = upto

    def segment_start(self, index: int) -> tuple[int, bytes]:
        """The first index and the header of the segment that has the entry `index`, or will have it once appended."""
        if index >= self._newest.end:
            self.end()
        segment, _ = self._segment_of(index)
        return segment.first, segment.header

    def _segment_of(self, index: int) -> tuple[Segment | PackedSegment, int]:
        """The segment that has an entry, and the first entry of the next segment."""
        if index >= self._newest.first:
            return self._newest, sys.maxsize
        while True:
            number = bisect.bisect_right(self._firsts, index) - 1
            if number < 0:
                message = (
                    f"{self._folder}: entry {index:,} was dropped; the first entry that is left is {self.first_index:,}"
                )
                raise Truncated(message)
            first, following = self._firsts[number], self._firsts[number + 1]
            if self._older is None or self._older.first != first:
                if self._older is not None:
                    self._points[self._older.first] = self._older.points()
                try:
                    self._older = self._open(first)
                except FileNotFoundError:
                    self._firsts = [known for known in first_indexes(self._folder) if known != first]
                    continue
            return self._older, following

    def _open(self, first: int) -> Segment | PackedSegment:
        segment = open_segment(self._folder, first, self._points.get(first))
        if not segment.ready or segment.journal != self.id:
            message = (
                f"{segment.path} is not a segment of the journal {self.id}, unlike the other segments in its folder"
            )
            raise AlteredLog(message)
        return segment

    def check_segments(self, start: int) -> None:
        """Refuse missing segments from this one on, and packed segments that were cut, as far as headers show.

        A closed segment that is not packed does not say where it ends: only reading its entries would show that the
        next one is missing.
        """
        firsts = (first for first in first_indexes(self._folder) if first >= start)
        for first, following in itertools.pairwise(firsts):
            with self._open(first) as segment:
                if isinstance(segment, PackedSegment):
                    if segment.end != following:
                        raise _following_gone(self._folder, segment)
                    segment.check_length()

    def close(self) -> None:
        self._newest.close()
        if self._older is not None:
            self._older.close()

    def __enter__(self) -> JournalReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
