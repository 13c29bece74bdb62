"""Entries as they lie together in a journal, for who wants many of them without an object for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from millstream.log.journal.frames import COUNT_BYTES, Frame

__all__ = ["Block", "Entry", "are_lines", "as_lines"]

_NEWLINE = b"\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a journal: its index, its mark (-1 for none), its bytes."""

    index: int
    tag: int
    payload: bytes


class Block(NamedTuple):
    r"""The entries [first, stop), all of the same mark.

    `lines` has each of them with a newline behind it, and none has one within. An entry that lies alone has no `lines`
    but a `payload`, whatever that may be.

    >>> Block(7, 9, -1, memoryview(b"one\ntwo\n"), b"").entries()
    [Entry(index=7, tag=-1, payload=b'one'), Entry(index=8, tag=-1, payload=b'two')]
    """

    first: int
    stop: int
    tag: int
    lines: memoryview | None
    payload: bytes

    @staticmethod
    def of(frame: Frame, first: int, start: int, stop: int) -> Block:
        """Of what a frame holds, whose first entry is `first`: the entries at [start, stop)."""
        if frame.entries == 1:
            return Block(first, first + 1, frame.tag, None, frame.payload)
        lines, end = memoryview(frame.payload)[COUNT_BYTES:], first + frame.entries
        if start <= first and end <= stop:
            return Block(first, end, frame.tag, lines, b"")
        start, stop = max(start, first), min(stop, end)
        ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == _NEWLINE[0]) + 1
        begin = int(ends[start - first - 1]) if start > first else 0
        return Block(start, stop, frame.tag, lines[begin : int(ends[stop - first - 1])], b"")

    def payloads(self) -> list[bytes]:
        """The bytes of each."""
        return [self.payload] if self.lines is None else self.lines.tobytes().split(_NEWLINE)[:-1]

    def entries(self) -> list[Entry]:
        """One by one."""
        return [Entry(index, self.tag, payload) for index, payload in enumerate(self.payloads(), self.first)]


def as_lines(blocks: Iterable[Block]) -> bytes:
    r"""All their entries, each with a newline behind it.

    >>> as_lines([Block(0, 2, -1, memoryview(b"one\ntwo\n"), b""), Block(2, 3, -1, None, b"three")])
    b'one\ntwo\nthree\n'
    """
    pieces: list[bytes | memoryview] = []
    for block in blocks:
        pieces += (block.payload, _NEWLINE) if block.lines is None else (block.lines,)
    return b"".join(pieces)


def are_lines(blocks: Iterable[Block]) -> bool:
    """Whether none of their entries has a newline within."""
    return not any(_NEWLINE in block.payload for block in blocks)
