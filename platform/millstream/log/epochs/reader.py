"""The reader of an epoch log, for use while a writer in another thread or process appends to the epoch log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from millstream.digests import Digest
from millstream.errors import AlteredLog, Truncated
from millstream.log.epochs.epoch import Epoch
from millstream.log.epochs.receipt import EpochReceipt
from millstream.log.epochs.totals import Base, Totals
from millstream.log.journal import Entry, JournalReader

__all__ = ["EpochReader", "line_of"]

_Read = TypeVar("_Read")


class EpochReader:
    """Reads an epoch log, also while a writer in another thread or process appends to the epoch log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reader = JournalReader(folder)
        self._next: int | None = None
        """The next entry of `follow`."""
        self._following = 0
        """The next epoch of `follow`."""

    @property
    def id(self) -> str:
        return self._reader.id

    @property
    def base(self) -> Base:
        """The base of the epoch log: the epochs up to it are gone."""
        return Totals.from_header(self._reader.segment_start(self._reader.end())[1]).base

    def with_base(self, read: Callable[[Base], _Read]) -> _Read:
        """The result of `read` for the base. If the base moves past what `read` needs, `read` gets the new base."""
        while True:
            base = self.base
            try:
                return read(base)
            except Truncated:
                if self.base == base:
                    raise

    @property
    def beginning(self) -> int:
        """The index of the first entry that is still needed: all lines before it are of epochs up to the base."""
        return self._begin(None)[0]

    def base_totals(self) -> Totals:
        """The totals with which a log of the same epochs begins after the base: without counts, and without sinks."""
        return self.with_base(self.totals_at)

    def totals_at(self, base: Base) -> Totals:
        """The totals with which a log of the same epochs begins after this base: that of this log, or a later one."""
        return self._totals_at_base(base).begun_at_base()

    def rows_before_base(self) -> dict[str, Digest]:
        """By sink, the digest of the rows of epochs up to the base."""
        return self.with_base(self._totals_at_base).delivered

    def last_rows(self, upto: int) -> dict[str, int]:
        """By output, the last epoch up to `upto` that made rows, also an epoch before the base."""
        return self.totals_upto(upto).last_rows

    def _totals_at_base(self, base: Base) -> Totals:
        totals = self.totals_upto(base.epoch)
        totals.base, totals.committed = base, base.epoch
        return totals

    def totals_upto(self, epoch: int) -> Totals:
        """The totals over the cuts and receipts of epochs up to this one, which is not before the base."""
        start, first = self._begin(epoch + 1)
        totals = Totals.from_header(self._reader.segment_start(start)[1])
        for entry in self._reader.read(start):
            line = line_of(entry)
            if "cut" in line and line["epoch"] < first:
                totals.add_epoch(Epoch.from_line(line))
            elif "receipt" in line:
                receipt = EpochReceipt.from_line(line)
                if receipt.last >= first:
                    break
                totals.add_receipt(receipt)
        return totals

    def lines(self, first: int | None = None) -> Iterator[dict[str, Any]]:
        """Return the lines of the epoch log, from the line with the cut of `first` to the current end of the log.

        Without `first`, from the first epoch after the base. An epoch up to the base is refused.
        """
        return self._lines(*self._begin(first))

    def _lines(self, start: int, first: int) -> Iterator[dict[str, Any]]:
        following = first
        try:
            for entry in self._reader.read(start):
                line = line_of(entry)
                if "cut" in line and line["epoch"] == following:
                    following += 1
                if following > first:
                    yield line
        except Truncated:
            raise self._dropped(following, self.base) from None

    def epochs(self, first: int | None = None) -> Iterator[Epoch]:
        """Return the epochs with the number `first` or a larger number, up to the current end of the epoch log."""
        return (Epoch.from_line(line) for line in self.lines(first) if "cut" in line)

    def receipts(self, first: int | None = None) -> Iterator[EpochReceipt]:
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
        if self._next is None:
            self._next, self._following = self._begin(first)
        try:
            for entry in self._reader.read(self._next):
                self._next = entry.index + 1
                if entry.payload.startswith(b'{"epoch"'):
                    epoch = Epoch.from_line(line_of(entry))
                    self._following = epoch.number + 1
                    if epoch.number >= first:
                        yield epoch
        except Truncated:
            raise self._dropped(max(first, self._following), self.base) from None

    def check_segments(self) -> None:
        """Refuse an epoch log in which epochs since the base are missing, as far as the headers of segments show."""
        self._reader.check_segments(self.beginning)

    def _begin(self, first: int | None) -> tuple[int, int]:
        """Return the index of an entry before the cut of `first`, and `first`; refuse an epoch up to the base."""
        if first is None:
            return self.with_base(lambda base: self._begin(base.epoch + 1))
        base = self.base
        if first <= base.epoch:
            raise self._dropped(first, base)
        try:
            start = self._segment_before(first)
            left = Totals.from_header(self._reader.segment_start(start)[1]).next_epoch
        except Truncated:  # segments were dropped since they were listed
            return self._begin(first)
        if left <= first:
            return start, first
        if self.base != base:
            return self._begin(first)
        message = (
            f"{self._folder}: epoch {first} is missing: the first segment that is left begins with epoch {left}, "
            f"and the base of the log is epoch {base.epoch}; put the files back, or start over with --fresh"
        )
        raise AlteredLog(message)

    def _dropped(self, epoch: int, base: Base) -> Truncated:
        message = (
            f"{self._folder}: epoch {epoch} was dropped: the log begins after epoch {base.epoch}, its base "
            f"(checkpoint {base.checkpoint}); `keep` in the config is the period that it reaches back"
        )
        return Truncated(message)

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
