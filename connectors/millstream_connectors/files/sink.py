"""The files sink: rows in plain Parquet or JSON Lines files, which anything can read without Millstream.

A folder holds closed part files (`part-00000001.parquet`, ...) and `_open`, the journal with the rows of the next part
file. Spark, pandas and DuckDB leave out names that begin with an underscore. To close a part file, the sink

1. writes its rows to `_closing`, and syncs it;
2. renames `_closing` to the name of the part file;
3. empties the journal, and writes the number of part files to its header; the journal keeps its progress.

After a crash before step 2, the rows are still in the journal, and there is no new part file. After a crash before step
3, there is a part file with a number that the journal does not have yet. The rows of this part file are those in the
journal, and the next start does step 3.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from millstream.config.durations import Duration, Size
from millstream.errors import ConfigError, ForeignSink, Truncated
from millstream.log.contracts import OpenContext, Progress
from millstream.log.formats.rows import json_lines, table_of
from millstream.log.journal import JournalReader
from millstream.log.journal.durability import sync_file, sync_folder
from millstream.log.journal.lock import FolderLock
from millstream.log.journal.segment import first_indexes
from millstream_connectors.sink_journal import SinkJournal, progress_of, state_of

__all__ = ["FilesSink", "PartFiles"]

_OPEN = "_open"
_CLOSING = "_closing"
_PART = re.compile(r"part-(\d{8})\.(parquet|jsonl)")
_TRIES = 100


class FilesSink(BaseModel):
    """Rows in Parquet or JSON Lines files, in a folder of the output's own.

    >>> import tempfile
    >>> context = OpenContext(folder=Path(tempfile.mkdtemp()), cache=Path("run"))
    >>> rows = pa.table({"_offset": [0, 1], "predicted": ["a", "b"]})
    >>> sink = FilesSink(path="out", format="jsonl").open(context, "predictions", rows.schema)
    >>> sink.append(rows, Progress("some epoch log", 0))
    >>> sink.close()
    >>> print((context.folder / "out/part-00000001.jsonl").read_text(), end="")
    {"_offset": 0, "predicted": "a"}
    {"_offset": 1, "predicted": "b"}
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["files"] = "files"
    path: str | None = Field(
        default=None, min_length=1, description="The folder of the files; by default one in the run directory."
    )
    format: Literal["parquet", "jsonl"] = Field(default="parquet", description="Parquet, or JSON Lines.")
    roll_bytes: Size = Field(default=64 << 20, gt=0, description="A file is closed when it is about this large.")
    roll_after: Duration = Field(
        default=600_000_000, gt=0, description="A file is closed when its first rows are this old."
    )

    def open(
        self,
        context: OpenContext,
        output: str,
        schema: pa.Schema,
        *,
        identity: Sequence[str] = (),
        guarded: bool = True,
    ) -> PartFiles:
        return PartFiles(self, self._folder(context, output), schema)

    def read(self, context: OpenContext, output: str, schema: pa.Schema) -> Iterator[pa.Table]:
        return _read(self._folder(context, output), schema)

    def problems(self, context: OpenContext) -> Iterable[tuple[str, str]]:
        return ()

    def progress(self, context: OpenContext, output: str) -> Progress | None:
        return progress_of(self._folder(context, output) / _OPEN)

    def location(self, context: OpenContext, output: str) -> str:
        return str(self._folder(context, output))

    def may_clear(self, context: OpenContext, output: str) -> None:
        pass  # `progress` raises for a journal that no run has written

    def clear(self, context: OpenContext, output: str) -> None:
        """Delete the sink's own files; the journal is the last, because it has the number of part files."""
        folder = self._folder(context, output)
        if not (folder / _OPEN).is_dir():
            return
        with FolderLock(folder / _OPEN):
            try:
                with JournalReader(folder / _OPEN) as reader:
                    last = int(state_of(reader).get("closed", 0)) + 1
            except ConfigError:  # a crash interrupted its creation
                last = 0
            for number, path in _parts(folder).items():
                if number <= last:
                    path.unlink()
            (folder / _CLOSING).unlink(missing_ok=True)
            sync_folder(folder)
            shutil.rmtree(folder / _OPEN)

    def _folder(self, context: OpenContext, output: str) -> Path:
        if self.path is None:
            return context.cache / "outputs" / output
        return context.folder / Path(self.path).expanduser()


class PartFiles:
    """The files of one output, opened by the run that appends to them."""

    keeps = True

    def __init__(
        self, config: FilesSink, folder: Path, schema: pa.Schema, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._folder = folder
        self._schema = schema
        self._clock = clock
        exists = (folder / _OPEN).is_dir() and bool(first_indexes(folder / _OPEN))
        if not exists and _parts(folder):
            message = (
                f"{folder} holds part files that this sink has not written; move them away, or choose another path"
            )
            raise ForeignSink(message)
        self._journal = SinkJournal(folder / _OPEN)
        try:
            self._continue()
        except BaseException:
            self._journal.abandon()
            raise

    def _continue(self) -> None:
        self._closed: int = self._journal.state.setdefault("closed", 0)
        self._open_from: int = self._journal.state.setdefault("open", 0)
        (self._folder / _CLOSING).unlink(missing_ok=True)
        found = _parts(self._folder).get(self._closed + 1)
        if found is not None and self._open_from == self._journal.next_index:
            message = f"this sink has not written {found}; move it away, or choose another path"
            raise ForeignSink(message)
        if found is not None:
            sync_folder(self._folder)  # a crash came before this sync or before step 3, which is done now
            self._empty_journal()
        sizes = [len(payload) for payload in _payloads(self._folder, self._open_from, self._journal.next_index)]
        self._bytes = sum(sizes)
        self._since = self._clock()

    def progress(self) -> Progress | None:
        return self._journal.progress()

    def fence(self, term: int) -> Progress | None:
        """Return the progress: this process holds the journal's lock, so no other process appends."""
        return self.progress()

    def append(self, rows: pa.Table, progress: Progress) -> None:
        if not rows.num_rows:
            self._journal.append([], progress)
        else:
            payload = _pack(rows.select(self._schema.names).cast(self._schema))
            if not self._bytes:
                self._since = self._clock()
            self._journal.append([payload], progress)
            self._bytes += len(payload)
        age = (self._clock() - self._since) * 1e6
        if self._bytes >= self._config.roll_bytes or (self._bytes and age >= self._config.roll_after):
            self._close_part()

    def read(self) -> Iterator[pa.Table]:
        return _read(self._folder, self._schema)

    def close(self) -> None:
        try:
            if self._bytes:
                self._close_part()
        except BaseException:
            self._journal.abandon()
            raise
        self._journal.close()

    def abandon(self) -> None:
        self._journal.abandon()

    def _close_part(self) -> None:
        payloads = _payloads(self._folder, self._open_from, self._journal.next_index)
        rows = pa.concat_tables([_unpack(payload) for payload in payloads])
        progress = self._journal.progress()
        closing = self._folder / _CLOSING
        with closing.open("wb") as file:
            if self._config.format == "jsonl":
                for start in range(0, rows.num_rows, 50_000):
                    file.write(json_lines(rows.slice(start, 50_000)))
            else:
                tag = json.dumps(progress.line()) if progress is not None else "{}"
                metadata = {**(rows.schema.metadata or {}), b"millstream": tag.encode()}
                pq.write_table(rows.replace_schema_metadata(metadata), file)
            file.flush()
            sync_file(file.fileno())
        closing.rename(self._folder / f"part-{self._closed + 1:08d}.{self._config.format}")
        sync_folder(self._folder)
        self._empty_journal()

    def _empty_journal(self) -> None:
        next_index = self._journal.next_index
        self._journal.roll(closed=self._closed + 1, open=next_index)
        self._journal.drop_before(next_index)
        self._closed, self._open_from, self._bytes = self._closed + 1, next_index, 0


def _pack(rows: pa.Table) -> bytes:
    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    return buffer.getvalue()


def _unpack(payload: bytes) -> pa.Table:
    with pa.ipc.open_stream(payload) as stream:
        return stream.read_all()


def _payloads(folder: Path, start: int, stop: int) -> list[bytes]:
    with JournalReader(folder / _OPEN) as reader:
        return [entry.payload for entry in reader.read(start, stop)]


def _parts(folder: Path) -> dict[int, Path]:
    """Part files by number, in order."""
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    found = ((_PART.fullmatch(name), name) for name in names)
    return {int(match[1]): folder / name for match, name in found if match}


def _open_state(folder: Path) -> tuple[int, list[bytes]]:
    """The number of closed part files, and the payloads of the rows after them: consistent also while a run appends."""
    for _ in range(_TRIES):
        try:
            with JournalReader(folder / _OPEN) as reader:
                state = state_of(reader)
                start = int(state.get("open", 0))
                return int(state.get("closed", 0)), [entry.payload for entry in reader.read(start)]
        except (Truncated, FileNotFoundError):  # the writer has just closed a part file
            continue
        except ConfigError:  # the journal does not exist yet
            break
    return 0, []


def _read(folder: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    closed, payloads = _open_state(folder)
    for number, path in _parts(folder).items():
        if number > closed:
            break
        if path.suffix == ".parquet":
            rows = pq.read_table(path, partitioning=None)
            yield rows.replace_schema_metadata(None).select(schema.names).cast(schema)
        else:
            yield table_of(path.read_bytes(), schema)
    for payload in payloads:
        yield _unpack(payload).select(schema.names).cast(schema)
