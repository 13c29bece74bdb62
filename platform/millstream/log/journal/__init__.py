"""Journals: append-only logs of byte strings on one machine, with one writer and several readers."""

from millstream.log.journal.journal import Journal
from millstream.log.journal.line_blocks import Entry, LineBlock, are_lines, as_lines
from millstream.log.journal.reader import JournalReader

__all__ = ["Entry", "Journal", "JournalReader", "LineBlock", "are_lines", "as_lines"]
