"""Journals in a folder: their payloads, their segments, and one with several small segments."""

from __future__ import annotations

from pathlib import Path

from millstream.log.journal import Journal, JournalReader

__all__ = ["payloads", "segments", "with_segments_of_five"]


def payloads(folder: Path, start: int = 0) -> list[bytes]:
    """The payloads of the entries of a journal, from `start` on."""
    with JournalReader(folder) as reader:
        return [entry.payload for entry in reader.read(start)]


def segments(folder: Path) -> list[Path]:
    """The segments of a journal, oldest first."""
    return sorted(folder.glob("*.journal"))


def with_segments_of_five(folder: Path, entries: int) -> list[bytes]:
    """A journal with a new segment after every five entries."""
    written = [b"entry %d" % number for number in range(entries)]
    with Journal(folder) as journal:
        for number, payload in enumerate(written):
            if number and number % 5 == 0:
                journal.roll()
            journal.append(payload, tag=number // 5)
    return written
