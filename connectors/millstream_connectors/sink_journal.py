"""A journal that also remembers whose epochs its marks are: what our sinks append to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from millstream.errors import ConfigError, ForeignSink
from millstream.log.contracts import Progress
from millstream.log.journal import Journal, JournalReader

__all__ = ["SinkJournal", "progress_of", "state_of"]


def state_of(reader: JournalReader) -> dict[str, Any]:
    """What the newest part of a sink's journal begins with."""
    _, header = reader.segment_start(reader.end())
    return dict(json.loads(header)) if header else {}


def progress_of(folder: Path) -> Progress | None:
    """The mark of a sink's journal as it is now, also beside its writer; None if nothing was ever appended."""
    try:
        reader = JournalReader(folder)
    except ConfigError:  # it has not begun
        return None
    with reader:
        end = reader.end()
        log = state_of(reader).get("log")
        if log is None and end > 0:
            raise _not_a_sinks(folder)
        return None if log is None or reader.last_tag < 0 else Progress(log, reader.last_tag)


def _not_a_sinks(folder: Path) -> ForeignSink:
    return ForeignSink(f"{folder} holds a journal that no run has written; choose another path for this sink")


class SinkJournal:
    """Appends with marks. `state` (the epoch log's id, and what the sink adds) begins every part of the journal.

    >>> import tempfile
    >>> journal = SinkJournal(Path(tempfile.mkdtemp()))
    >>> journal.append([b"a row"], Progress("some epoch log", 3))
    >>> journal.progress()
    Progress(log='some epoch log', epoch=3)
    """

    def __init__(self, folder: Path) -> None:
        self.state: dict[str, Any] = {}
        self._folder = folder
        self._journal = Journal(folder, header=lambda: json.dumps(self.state).encode())
        self.state |= json.loads(self._journal.header) if self._journal.header else {}
        if self.state.get("log") is None and self._journal.next_index > 0:
            self._journal.close()
            raise _not_a_sinks(folder)

    @property
    def next_index(self) -> int:
        return self._journal.next_index

    def progress(self) -> Progress | None:
        if self._journal.last_tag < 0:
            return None
        return Progress(self.state["log"], self._journal.last_tag)

    def append(self, payloads: Sequence[bytes], progress: Progress) -> None:
        """All of the payloads with the mark, or nothing; durable if there are payloads."""
        self._take_log(progress)
        self._journal.append_many(payloads, progress.epoch)
        if payloads:
            self._journal.sync()

    def append_lines(self, lines: bytes, progress: Progress) -> None:
        """The same for entries that are lines, each with a newline behind it."""
        self._take_log(progress)
        self._journal.append_lines(lines, progress.epoch)
        if lines:
            self._journal.sync()

    def _take_log(self, progress: Progress) -> None:
        """Be the journal of the mark's epoch log from the first append on, and of no other."""
        if self._journal.last_tag < 0 and self.state.get("log") != progress.log:
            self.roll(log=progress.log)
        elif self.state["log"] != progress.log:
            message = (
                f"{self._folder} holds rows of the epoch log {self.state['log']}, not of {progress.log}; "
                "choose another path, or move it away"
            )
            raise ForeignSink(message)

    def roll(self, **state: Any) -> None:
        """Begin a new part with this in its state; the mark goes on, and all is durable."""
        before = dict(self.state)
        self.state |= state
        try:
            self._journal.roll()
        except BaseException:
            self.state = before
            raise

    def drop_before(self, index: int) -> None:
        self._journal.drop_before(index)

    def abandon(self) -> None:
        """Let go of the journal as it is."""
        self._journal.close()

    def close(self) -> None:
        """Let go of the journal, its last mark made durable."""
        self._journal.sync()
        self._journal.close()
