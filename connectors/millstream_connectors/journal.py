"""The embedded log: journals as source and sink, one entry a record, without a server."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.errors import AlteredLog, ConfigError, Truncated
from millstream.log.contracts import OpenContext, Partition, Progress
from millstream.log.formats.json_lines import parse_block, parse_lines
from millstream.log.formats.rows import json_lines, table_of
from millstream.log.journal import JournalReader, LineBlock, are_lines, as_lines
from millstream.log.journal.lock import LOCK, FolderLock
from millstream.log.journal.segment import first_indexes, segment_path
from millstream_connectors.fields import USUAL_FIELDS, Fields
from millstream_connectors.sink_journal import SinkJournal, progress_of

__all__ = ["JournalLog", "JournalSink", "JournalSource"]

_AT_ONCE = 2 << 20
_ONLY = "0"


class JournalSource(BaseModel):
    """Records from a journal: one JSON object an entry, the entry's index as offset.

    >>> import tempfile
    >>> from millstream.log.journal import Journal
    >>> context = OpenContext(folder=Path(tempfile.mkdtemp()), cache=Path("run"))
    >>> with Journal(context.folder / "news") as journal:
    ...     _ = journal.append(b'{"text": "rain", "label": "weather"}')
    >>> log = JournalSource(path="news").open(context)
    >>> [batch["text"].to_pylist() for batch in log.read("0", 0, log.end("0"))]
    [['rain']]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["journal"] = "journal"
    path: str = Field(min_length=1, description="The journal's folder.")
    fields: Fields = USUAL_FIELDS

    def open(self, context: OpenContext) -> JournalLog:
        return JournalLog(_folder(context, self.path), self.fields)

    @property
    def bounded(self) -> bool:
        return False

    def problems(self, context: OpenContext) -> Sequence[tuple[str, str]]:
        try:
            JournalReader(_folder(context, self.path)).close()
        except ConfigError as error:
            return [("path", f"{error}, and so does a pipeline with a sink of `type: journal`")]
        return []

    def reads(self, context: OpenContext, location: str) -> bool:
        return os.path.normpath(_folder(context, self.path)) == os.path.normpath(location)


class JournalLog:
    """A journal as a log of one partition."""

    def __init__(self, folder: Path, fields: Mapping[str, str]) -> None:
        self._folder = folder
        self._fields = fields
        self._ends = JournalReader(folder)
        self._reader = JournalReader(folder)  # a second reader, because `read` may run in another thread than `end`

    @property
    def fields(self) -> Sequence[str]:
        return [name for name in self._fields if name != "time"]

    def partitions(self) -> Sequence[Partition]:
        return [Partition(_ONLY, 0)]

    def beginning(self, partition: str, *, joined: bool = False) -> int:
        return self._ends.first_index

    def resume(self, partition: str, wanted: int) -> int:
        if wanted < self._ends.first_index:
            message = (
                f"{self._folder} begins with entry {self._ends.first_index:,}, and entry {wanted:,} is wanted: "
                "its old segments were dropped; start over with --fresh"
            )
            raise Truncated(message)
        return wanted

    def end(self, partition: str) -> int:
        return self._ends.end()

    def is_current(self, partition: str) -> bool:
        return True

    def ended(self, partition: str) -> bool:
        return False

    def identity(self, partition: str, upto: int) -> str:
        """The journal's id; another string if the journal ends before `upto`."""
        end = self._ends.end()
        return self._ends.id if end >= upto else f"{self._ends.id}, cut to {end} entries"

    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        stopped = start
        for blocks in _group(self._reader.blocks(start, stop)):
            first, stopped = blocks[0].first, blocks[-1].stop
            if len(blocks) < stopped - first and are_lines(blocks):
                yield parse_block(as_lines(blocks), self._fields, first)
            else:
                yield parse_lines([payload for block in blocks for payload in block.payloads()], self._fields, first)
        if stopped < stop:
            message = f"{self._folder} ends with entry {stopped - 1:,}, and entry {stop - 1:,} was read"
            raise AlteredLog(message)

    def close(self) -> None:
        self._ends.close()
        self._reader.close()


class JournalSink(BaseModel):
    """Rows in a journal, each as an entry with a JSON object: a source for other pipelines.

    >>> import tempfile
    >>> context = OpenContext(folder=Path(tempfile.mkdtemp()), cache=Path("run"))
    >>> rows = pa.table({"_offset": [0, 1], "predicted": ["a", "b"]})
    >>> sink = JournalSink(path="out").open(context, "predictions", rows.schema)
    >>> sink.append(rows, Progress("some epoch log", 0))
    >>> [entry.payload for entry in JournalReader(context.folder / "out").read(1)]
    [b'{"_offset": 1, "predicted": "b"}']
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["journal"] = "journal"
    path: str = Field(min_length=1, description="The journal's folder; made if it is not there.")

    def open(
        self,
        context: OpenContext,
        output: str,
        schema: pa.Schema,
        *,
        identity: Sequence[str] = (),
        guarded: bool = True,
    ) -> JournalRows:
        return JournalRows(_folder(context, self.path), schema)

    def read(self, context: OpenContext, output: str, schema: pa.Schema) -> Iterator[pa.Table]:
        return _read(_folder(context, self.path), schema)

    def problems(self, context: OpenContext) -> Iterable[tuple[str, str]]:
        return ()

    def progress(self, context: OpenContext, output: str) -> Progress | None:
        return progress_of(_folder(context, self.path))

    def location(self, context: OpenContext, output: str) -> str:
        return str(_folder(context, self.path))

    def may_clear(self, context: OpenContext, output: str) -> None:
        pass  # `progress` raises for a journal that no run has written

    def clear(self, context: OpenContext, output: str) -> None:
        """Delete the journal's own files, the newest last, because it has the progress."""
        folder = _folder(context, self.path)
        if not folder.is_dir() or not first_indexes(folder):
            return
        with FolderLock(folder):
            for first in first_indexes(folder):
                segment_path(folder, first).unlink()
            (folder / LOCK).unlink()


class JournalRows:
    """A journal, open for the run that appends its rows."""

    keeps = True

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder = folder
        self._schema = schema
        self._journal = SinkJournal(folder)

    def progress(self) -> Progress | None:
        return self._journal.progress()

    def fence(self, term: int) -> Progress | None:
        """Return the progress: this process holds the journal's lock, so no other process appends."""
        return self.progress()

    def append(self, rows: pa.Table, progress: Progress) -> None:
        self._journal.append_lines(json_lines(rows.select(self._schema.names)), progress)

    def read(self) -> Iterator[pa.Table]:
        return _read(self._folder, self._schema)

    def close(self) -> None:
        self._journal.close()

    def abandon(self) -> None:
        self._journal.abandon()


def _folder(context: OpenContext, path: str) -> Path:
    return context.folder / Path(path).expanduser()


def _read(folder: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    try:
        reader = JournalReader(folder)
    except ConfigError:  # nothing was ever appended
        return
    with reader:
        for blocks in _group(reader.blocks(reader.first_index)):
            yield table_of(as_lines(blocks), schema)


def _group(blocks: Iterator[LineBlock]) -> Iterator[Sequence[LineBlock]]:
    """Group line blocks: enough for efficient parsing, and few enough for little memory."""
    group: list[LineBlock] = []
    size = 0
    for block in blocks:
        group.append(block)
        size += len(block.payload if block.lines is None else block.lines)
        if size >= _AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group
