"""The reader of an epoch log, for use while a writer in another thread or process appends to the epoch log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from millstream.log.epochs.epoch import Epoch
from millstream.log.epochs.receipt import EpochReceipt
from millstream.log.epochs.totals import Totals
from millstream.log.journal import Entry, JournalReader

__all__ = ["EpochReader", "line_of"]


class EpochReader:
    """Reads an epoch log, also while a writer in another thread or process appends to the epoch log."""

    def __init__(self, folder: Path) -> None:
        self._reader = JournalReader(folder)
        self._next = self._reader.first_index

    @property
    def id(self) -> str:
        return self._reader.id

    def lines(self, epoch: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the lines of the epoch log, from the line with the cut of `epoch` to the current end of the log."""
        found = False
        for entry in self._reader.read(self._segment_before(epoch)):
            line = line_of(entry)
            found = found or ("cut" in line and line["epoch"] == epoch)
            if found:
                yield line

    def epochs(self, first: int = 0) -> Iterator[Epoch]:
        """Return the epochs with the number `first` or a larger number, up to the current end of the epoch log."""
        return (Epoch.from_line(line) for line in self.lines(first) if "cut" in line)

    def receipts(self, first: int = 0) -> Iterator[EpochReceipt]:
        """Return the receipts that were written after epoch `first` was cut; a replayed epoch has several receipts."""
        return (EpochReceipt.from_line(line) for line in self.lines(first) if "receipt" in line)

    def totals(self) -> Totals:
        """Return the totals over all lines that the epoch log has now."""
        end = self._reader.end()
        start, header = self._reader.segment_start(end)
        totals = Totals.from_header(header)
        for entry in self._reader.read(start, end):
            totals.add_line(line_of(entry))
        return totals

    def follow(self, first: int) -> Iterator[Epoch]:
        """Yield the epochs from number `first`, out of the lines that no earlier call of this method has read."""
        if self._next <= self._reader.first_index:
            self._next = self._segment_before(first)
        for entry in self._reader.read(self._next):
            self._next = entry.index + 1
            if entry.payload.startswith(b'{"epoch"'):
                epoch = Epoch.from_line(line_of(entry))
                if epoch.number >= first:
                    yield epoch

    def _segment_before(self, epoch: int) -> int:
        """Return the index of the first entry in the newest segment that was begun before `epoch` was cut."""
        low, high = self._reader.first_index, self._reader.end()
        if low == high:
            return low
        first = low
        while low < high:
            start, header = self._reader.segment_start((low + high) // 2)
            if Totals.from_header(header).next_epoch <= epoch:
                first = start
                low = (low + high) // 2 + 1
            else:
                high = start
        return first


def line_of(entry: Entry) -> dict[str, Any]:
    """Decode a journal entry as a line of the epoch log."""
    line: dict[str, Any] = json.loads(entry.payload)
    return line
