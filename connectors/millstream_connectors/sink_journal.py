"""The journal of a sink: its tags are epoch numbers, its notes and its header have the progress."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from millstream.errors import ConfigError, ForeignSink
from millstream.log.contracts import Progress
from millstream.log.journal import Journal, JournalReader

__all__ = ["SinkJournal", "progress_of", "state_of"]

_PROGRESS = "progress"


def state_of(reader: JournalReader) -> dict[str, Any]:
    """The state in the header of the newest segment of a sink's journal."""
    _, header = reader.segment_start(reader.end())
    return dict(json.loads(header)) if header else {}


def progress_of(folder: Path) -> Progress | None:
    """The current progress of a sink's journal, also while a run appends to it; None if nothing was ever appended."""
    try:
        reader = JournalReader(folder)
    except ConfigError:  # it does not exist yet
        return None
    with reader:
        state = state_of(reader)
        if state.get("log") is None and reader.end() > 0:
            raise _not_a_sinks(folder)
        return _progress(reader.note, state)


def _progress(note: bytes, state: Mapping[str, Any]) -> Progress | None:
    """The progress in the last note; or in the state, if no rows were appended since the segment began."""
    line = json.loads(note) if note else state.get(_PROGRESS)
    return None if line is None else Progress.from_line(line)


def _not_a_sinks(folder: Path) -> ForeignSink:
    return ForeignSink(f"{folder} holds a journal that no run has written; choose another path for this sink")


class SinkJournal:
    """Appends rows with progress. Every segment's header has `state`: the epoch log's id, and keys that the sink adds.

    Progress without rows is not written before the next rows, the next segment or `close`: the guard knows the epochs
    without rows.

    >>> import tempfile
    >>> journal = SinkJournal(Path(tempfile.mkdtemp()))
    >>> journal.append([b"a row"], Progress("some epoch log", 3))
    >>> journal.progress().epoch
    3
    """

    def __init__(self, folder: Path) -> None:
        self.state: dict[str, Any] = {}
        self._folder = folder
        self._progress: Progress | None = None
        self._journal = Journal(folder, header=self._header)
        try:
            self.state |= json.loads(self._journal.header) if self._journal.header else {}
            if self.state.get("log") is None and self._journal.next_index > 0:
                raise _not_a_sinks(folder)
            self._progress = self._written = _progress(self._journal.note, self.state)
        except BaseException:
            self._journal.close()
            raise

    def _header(self) -> bytes:
        progress = None if self._progress is None else self._progress.line()
        return json.dumps({**self.state, _PROGRESS: progress}).encode()

    @property
    def next_index(self) -> int:
        return self._journal.next_index

    def progress(self) -> Progress | None:
        return self._progress

    def append(self, payloads: Sequence[bytes], progress: Progress) -> None:
        """Append the payloads and the progress atomically; durable if there are payloads."""
        self._bind(progress)
        if payloads:
            self._journal.append_many(payloads, progress.epoch, _note(progress))
            self._journal.sync()
            self._written = progress
        self._progress = progress

    def append_lines(self, lines: bytes, progress: Progress) -> None:
        """Append entries as lines that end in a newline, and the progress, atomically; durable if there are lines."""
        self._bind(progress)
        if lines:
            self._journal.append_lines(lines, progress.epoch, _note(progress))
            self._journal.sync()
            self._written = progress
        self._progress = progress

    def _bind(self, progress: Progress) -> None:
        """Bind the journal to the epoch log of its first progress; refuse another epoch log."""
        if self._progress is None and self.state.get("log") != progress.log:
            self.roll(log=progress.log)
        elif self.state["log"] != progress.log:
            message = (
                f"{self._folder} holds rows of the epoch log {self.state['log']}, not of {progress.log}; "
                "choose another path, or move it away"
            )
            raise ForeignSink(message)

    def roll(self, **state: Any) -> None:
        """Begin a new segment with these keys in its state; the progress is kept. All of it is durable."""
        before = dict(self.state)
        self.state |= state
        try:
            self._journal.roll()
        except BaseException:
            self.state = before
            raise
        self._written = self._progress

    def drop_before(self, index: int) -> None:
        self._journal.drop_before(index)

    def abandon(self) -> None:
        """Close the journal without a sync."""
        self._journal.close()

    def close(self) -> None:
        """Make the last progress durable, and close the journal."""
        if self._progress is not None and self._progress != self._written:
            self._journal.append_many((), self._progress.epoch, _note(self._progress))
        self._journal.sync()
        self._journal.close()


def _note(progress: Progress) -> bytes:
    return json.dumps(progress.line(), separators=(",", ":")).encode()
