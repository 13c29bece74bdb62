"""Journals: append-only logs of byte strings on one machine, with one writer and several readers."""

from millstream.log.journal.journal import Journal
from millstream.log.journal.line_blocks import Block, Entry, are_lines, as_lines
from millstream.log.journal.reader import JournalReader

__all__ = ["Block", "Entry", "Journal", "JournalReader", "are_lines", "as_lines"]
