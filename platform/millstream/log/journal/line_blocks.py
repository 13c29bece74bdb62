"""Line blocks: entries that are stored together in a journal, to be read without one object for each entry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from millstream.log.journal.frames import COUNT_BYTES, Frame

__all__ = ["Entry", "LineBlock", "are_lines", "as_lines"]

_NEWLINE = b"\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a journal: its index, its tag (-1 for none), its bytes."""

    index: int
    tag: int
    payload: bytes


class LineBlock(NamedTuple):
    r"""The entries [first, stop), which have the same tag.

    `lines` has all entries with a newline behind each; no entry contains a newline. For an entry in a frame of its own,
    `lines` is None and `payload` is the entry, which may contain any bytes.

    >>> LineBlock(7, 9, -1, memoryview(b"one\ntwo\n"), b"").entries()
    [Entry(index=7, tag=-1, payload=b'one'), Entry(index=8, tag=-1, payload=b'two')]
    """

    first: int
    stop: int
    tag: int
    lines: memoryview | None
    payload: bytes

    @staticmethod
    def of(frame: Frame, first: int, start: int, stop: int) -> LineBlock:
        """The entries at [start, stop) that are in a frame whose first entry has the index `first`."""
        if frame.entries == 1:
            return LineBlock(first, first + 1, frame.tag, None, frame.payload)
        lines, end = memoryview(frame.payload)[COUNT_BYTES:], first + frame.entries
        if start <= first and end <= stop:
            return LineBlock(first, end, frame.tag, lines, b"")
        start, stop = max(start, first), min(stop, end)
        ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == _NEWLINE[0]) + 1
        begin = int(ends[start - first - 1]) if start > first else 0
        return LineBlock(start, stop, frame.tag, lines[begin : int(ends[stop - first - 1])], b"")

    def payloads(self) -> list[bytes]:
        """The bytes of each entry."""
        return [self.payload] if self.lines is None else self.lines.tobytes().split(_NEWLINE)[:-1]

    def entries(self) -> list[Entry]:
        """Each entry as an object."""
        return [Entry(index, self.tag, payload) for index, payload in enumerate(self.payloads(), self.first)]


def as_lines(blocks: Iterable[LineBlock]) -> bytes:
    r"""The entries of all blocks, with a newline behind each.

    >>> as_lines([LineBlock(0, 2, -1, memoryview(b"one\ntwo\n"), b""), LineBlock(2, 3, -1, None, b"three")])
    b'one\ntwo\nthree\n'
    """
    pieces: list[bytes | memoryview] = []
    for block in blocks:
        pieces += (block.payload, _NEWLINE) if block.lines is None else (block.lines,)
    return b"".join(pieces)


def are_lines(blocks: Iterable[LineBlock]) -> bool:
    """True if no entry of these blocks contains a newline."""
    return not any(_NEWLINE in block.payload for block in blocks)
