"""Reading a journal, beside its writer or without one."""

from __future__ import annotations

import bisect
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from millstream.errors import AlteredLog, ConfigError, Truncated
from millstream.log.journal.frames import Frame
from millstream.log.journal.line_blocks import Block, Entry
from millstream.log.journal.segment import Part, first_indexes, part_name

__all__ = ["JournalReader", "newest_part"]


def newest_part(folder: Path, *, remove: bool = False) -> Part | None:
    """The newest part whose making was not interrupted."""
    while firsts := first_indexes(folder) if folder.is_dir() else []:
        for first in reversed(firsts):
            try:
                part = Part(folder, first)
            except FileNotFoundError:  # dropped since it was listed
                break
            if part.ready:
                return part
            part.close()
            if remove:
                part.path.unlink()
        else:
            return None
    return None


class JournalReader:
    """Reads a journal beside its writer; reading on costs no more than what has come since.

    Not for several threads at once: each may have a reader of its own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        newest = newest_part(folder)
        if newest is None:
            message = f"{folder} holds no journal: `millstream log append {folder}` makes one"
            raise ConfigError(message)
        self._newest = newest
        self._older: Part | None = None
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
        """The mark given last, as far as `end` has looked; -1 if there was none."""
        return self._newest.tag

    def end(self) -> int:
        """One past the last entry that is there now."""
        while True:
            self._newest.look()
            if self._is_newest():
                return self._newest.end
            newest = newest_part(self._folder)
            if newest is None or newest.journal != self.id:
                message = f"{self._folder} no longer holds the journal {self.id}: it was removed, or made anew"
                raise AlteredLog(message)
            if newest.first == self._newest.first and newest.inode == self._newest.inode:
                newest.close()
                return self._newest.end
            self._points[self._newest.first] = self._newest.points()
            self._newest = newest  # the old one is closed when nobody reads in it any more
            self._firsts = first_indexes(self._folder)

    def _is_newest(self) -> bool:
        part = self._newest
        try:
            if os.stat(part.path).st_ino != part.inode:
                return False
        except FileNotFoundError:
            return False
        return part.end == part.first or not os.path.exists(os.path.join(self._folder, part_name(part.end)))

    def read(self, start: int, stop: int | None = None) -> Iterator[Entry]:
        """The entries at [start, stop), or up to what is there now."""
        upto = self._reach(stop)
        for index, frame in self._frames(start, upto):
            if frame.entries == 1:
                yield Entry(index, frame.tag, frame.payload)
            else:
                yield from Block.of(frame, index, start, upto).entries()

    def blocks(self, start: int, stop: int | None = None) -> Iterator[Block]:
        """The same as they lie in the files: many at a time if they were appended together."""
        upto = self._reach(stop)
        for index, frame in self._frames(start, upto):
            yield Block.of(frame, index, start, upto)

    def _reach(self, stop: int | None) -> int:
        """`stop`, or what is there now if that is less."""
        if stop is not None and stop <= self._newest.end:
            return stop
        end = self.end()
        return end if stop is None else min(stop, end)

    def _frames(self, start: int, stop: int) -> Iterator[tuple[int, Frame]]:
        while start < stop:
            part, following = self._part_of(start)
            upto = min(stop, following)
            yield from part.frames(start, upto, to_its_end=upto == following)
            start = upto

    def part_start(self, index: int) -> tuple[int, bytes]:
        """The first index and the header of the part that holds the entry `index`, or will hold it."""
        if index >= self._newest.end:
            self.end()
        part, _ = self._part_of(index)
        return part.first, part.header

    def _part_of(self, index: int) -> tuple[Part, int]:
        """The part that holds an entry, and where the next part begins."""
        if index >= self._newest.first:
            return self._newest, sys.maxsize
        while True:
            number = bisect.bisect_right(self._firsts, index) - 1
            if number < 0:
                message = (
                    f"{self._folder}: entry {index:,} was dropped, the first that is left is {self.first_index:,}. "
                    "Keep more (`keep:`), or start over with --fresh"
                )
                raise Truncated(message)
            first, following = self._firsts[number], self._firsts[number + 1]
            if self._older is None or self._older.first != first:
                if self._older is not None:
                    self._points[self._older.first] = self._older.points()
                try:
                    self._older = self._opened(first)
                except FileNotFoundError:
                    self._firsts = [known for known in first_indexes(self._folder) if known != first]
                    continue
            return self._older, following

    def _opened(self, first: int) -> Part:
        part = Part(self._folder, first, self._points.get(first))
        if not part.ready or part.journal != self.id:
            message = f"{part.path} is not a part of the journal {self.id} that its neighbours belong to"
            raise AlteredLog(message)
        return part

    def close(self) -> None:
        self._newest.close()
        if self._older is not None:
            self._older.close()

    def __enter__(self) -> JournalReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
