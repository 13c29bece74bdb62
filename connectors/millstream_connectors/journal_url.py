"""`journal://FOLDER`, for `millstream log` and for notebooks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from millstream.errors import ConfigError
from millstream.log.journal import Journal, JournalReader
from millstream_connectors.fields import USUAL_FIELDS
from millstream_connectors.journal import JournalLog

__all__ = ["JournalUrl"]

_POLL = 0.05


class JournalUrl:
    """A journal, named by its folder.

    >>> import tempfile
    >>> journal = JournalUrl(tempfile.mkdtemp())
    >>> with journal.appender() as append:
    ...     append([b'{"text": "rain"}'])
    >>> [batch["text"].to_pylist() for batch in journal.log().read("0", 0, 1)]
    [['rain']]
    """

    def __init__(self, path: str) -> None:
        self._folder = Path(path).expanduser()

    def describe(self) -> Iterator[str]:
        """The journal, or all journals below the folder."""
        folders = sorted({segment.parent for segment in self._folder.glob("**/*.journal")}) or [self._folder]
        for folder in folders:
            with _reader(folder) as reader:
                end, first = reader.end(), reader.first_index
                size = sum(segment.stat().st_size for segment in folder.glob("*.journal"))
                tag = f", last tag {reader.last_tag}" if reader.last_tag >= 0 else ""
                yield f"{folder}  entries {first}-{end} ({end - first}), {size} bytes, id {reader.id}{tag}"

    def entries(self, start: int | None = None, *, follow: bool = False) -> Iterator[bytes]:
        with _reader(self._folder) as reader:
            at = reader.first_index if start is None else start
            while True:
                for entry in reader.read(at):
                    yield entry.payload
                    at = entry.index + 1
                if not follow:
                    return
                time.sleep(_POLL)

    @contextmanager
    def appender(self, partitions: int | None = None) -> Iterator[Callable[[list[bytes]], None]]:
        if partitions not in (None, 1):
            message = f"{self._folder}: a journal has one partition, not {partitions}"
            raise ConfigError(message)
        self._refuse_journal_of_pipeline()
        with Journal(self._folder) as journal:

            def append(entries: list[bytes]) -> None:
                journal.append_many(entries)
                journal.sync()

            yield append

    def log(self, fields: Mapping[str, str] | None = None) -> JournalLog:
        return JournalLog(self._folder, fields or USUAL_FIELDS)

    def _refuse_journal_of_pipeline(self) -> None:
        """Refuse a journal with a header: pipelines write one. Only reads it: opening to append would change it."""
        try:
            reader = JournalReader(self._folder)
        except ConfigError:  # it does not exist yet
            return
        with reader:
            _, header = reader.segment_start(reader.end())
        if header:
            message = f"{self._folder} is the epoch log or a sink of a pipeline, which alone appends to it"
            raise ConfigError(message)


def _reader(folder: Path) -> JournalReader:
    """The reader of a journal. A folder that is missing, or is a run directory, is named as such."""
    if not folder.is_dir():
        message = f"there is no folder {folder}: neither a journal nor a run directory"
        raise ConfigError(message)
    if (folder / "run.json").exists():
        message = f"{folder} is a run directory; its epoch log is the journal {folder / 'epochs'}"
        raise ConfigError(message)
    return JournalReader(folder)
