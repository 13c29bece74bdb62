"""The epoch log: the durable order in which a run processes its records.

The epoch log is a journal with four kinds of lines: an epoch (a cut and its events), a receipt (the results of
processing an epoch), a checkpoint, and a commit. Each segment begins with the totals over all lines before it
(`Totals`). So a start reads the newest segment only, and old segments can be dropped.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from millstream.log.epochs.epoch import Added, Epoch, Skipped
from millstream.log.epochs.merged_receipts import merge_receipts
from millstream.log.epochs.reader import EpochReader, line_of
from millstream.log.epochs.receipt import EpochReceipt
from millstream.log.epochs.totals import Base, Totals
from millstream.log.journal import Entry, Journal, JournalReader

__all__ = ["EpochLog"]

_ENCODER = json.JSONEncoder(separators=(",", ":"))


class EpochLog:
    """The one writer of an epoch log. Appended lines are durable after `sync`; a new log begins with totals `begin`.

    The base moves in steps: `move_base`, then `drop_oldest` until it returns false. After each step the log is whole.
    """

    def __init__(self, folder: Path, begin: Totals | None = None, segment_bytes: int = 8 << 20) -> None:
        self.totals = begin or Totals()
        self._lock = threading.RLock()  # reentrant for the simulator, which runs the background in the driver's thread
        self._journal = Journal(folder, header=lambda: self.totals.header(), segment_bytes=segment_bytes)
        self.folder = folder
        try:
            self.totals = Totals.from_header(self._journal.header)
            newest, _ = JournalReader(folder).segment_start(self._journal.next_index)
            for entry in self._journal.entries(newest):
                self.totals.add_line(line_of(entry))
        except BaseException:
            self._journal.close()
            raise

    @property
    def id(self) -> str:
        return self._journal.id

    def reader(self) -> EpochReader:
        return EpochReader(self.folder)

    def cut(self, epoch: Epoch) -> None:
        """Append the next epoch: its number follows the last one, and its ranges begin at the current positions."""
        with self._lock:
            self._check_next(epoch)
            self._append(epoch.line())
            self.totals.add_epoch(epoch)

    def receipt(self, receipt: EpochReceipt) -> None:
        """Append the receipt of an epoch that was cut."""
        with self._lock:
            assert 0 <= receipt.epoch < self.totals.next_epoch, f"epoch {receipt.epoch} was processed and never cut"
            self._append(receipt.line())
            self.totals.add_receipt(receipt)

    def commit(self, epoch: int) -> None:
        """Append a commit. Its epoch is not lower than the last commit, and not higher than the last epoch cut."""
        with self._lock:
            committed, cut = self.totals.committed, self.totals.next_epoch - 1
            assert committed <= epoch <= cut, f"a commit of epoch {epoch} after {committed}, with {cut} the last cut"
            self._append({"commit": epoch})
            self.totals.committed = epoch

    def checkpoint(self, number: int, epoch: int, manifest: str, digest: str) -> None:
        """Append the line of a checkpoint after this epoch; the checkpoint counts once the line is durable."""
        with self._lock:
            assert number == self.totals.checkpoint + 1, (number, self.totals.checkpoint)
            self._append({"checkpoint": number, "epoch": epoch, "manifest": manifest, "digest": digest})
            self.totals.checkpoint = number

    def move_base(self, base: Base) -> None:
        """Begin a segment whose header has the new base, durably; earlier epochs are refused from now on."""
        with self._lock:
            assert self.totals.base.epoch < base.epoch <= self.totals.committed, (self.totals.base, base)
            self.totals.base = base
            try:
                self._journal.roll()
            finally:  # the disk may be full: then the newest segment still has the old base
                self.totals.base = Totals.from_header(self._journal.header).base

    def drop_oldest(self) -> bool:
        """Drop the oldest segment, if all its lines are of epochs up to the base; false if there is none to drop."""
        following = self._journal.second_index
        if following is None or self._next_epoch(following) > self.totals.base.epoch + 1:
            return False
        self._journal.drop_oldest()
        return True

    def _next_epoch(self, segment: int) -> int:
        """The first epoch that is not cut before a segment."""
        return self._totals_before(segment).next_epoch

    def _totals_before(self, segment: int) -> Totals:
        return Totals.from_header(self._journal.header_of(segment))

    def compact(self, settled: int, boundaries: Collection[int]) -> Iterator[None]:
        """Pack the closed segments of which all epochs are settled, and merge receipts in them.

        Yields after each step. No merged receipt passes an epoch of `boundaries`, or the beginning of a sink.
        """
        for first, end in self._journal.closed_segments():
            if self._next_epoch(end) - 1 > settled:
                return
            begun = self._totals_before(first)
            sinks = {begin - 1 for begin in (*begun.sinks.values(), *begun.returned.values())}
            lines: list[Entry] = []
            with JournalReader(self.folder) as reader:
                for entry in merge_receipts(list(reader.read(first, end)), {*boundaries, *sinks}):
                    if entry is None:
                        yield
                    else:
                        lines.append(entry)
            yield from self._journal.pack(first, end, lines)
            yield

    def _check_next(self, epoch: Epoch) -> None:
        totals = self.totals
        assert epoch.number == totals.next_epoch, f"epoch {epoch.number} was cut after {totals.next_epoch - 1}"
        assert epoch.at >= totals.at, f"epoch {epoch.number} was cut at {epoch.at}, before {totals.at}"
        moved: dict[int, int] = {}
        partitions = len(totals.partitions)
        for event in epoch.events:
            if isinstance(event, Added):
                moved[partitions] = event.at
                partitions += 1
            elif isinstance(event, Skipped):
                assert event.to >= totals.positions[event.rank], f"{event} goes back in epoch {epoch.number}"
                moved[event.rank] = event.to
        for rank, (start, stop) in epoch.cut.items():
            position = moved[rank] if rank in moved else totals.positions[rank]
            assert start == position <= stop, f"epoch {epoch.number} reads [{start}, {stop}) at position {position}"

    def sync(self) -> None:
        """Make all lines that were appended so far durable."""
        self._journal.sync()

    def close(self) -> None:
        self._journal.close()

    def _append(self, line: dict[str, Any]) -> None:
        self._journal.append(_ENCODER.encode(line).encode())
