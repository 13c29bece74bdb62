"""The files source: JSON Lines (plain or gzipped) and Parquet; each file is a partition, offsets are row numbers."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.errors import AlteredLog, ConfigError
from millstream.log.contracts import OpenContext, Partition
from millstream.log.formats.json_lines import parse_block
from millstream.log.journal.durability import sync_file, write_whole
from millstream_connectors.fields import USUAL_FIELDS, Fields
from millstream_connectors.files.lines_file import LinesFile
from millstream_connectors.files.parquet_file import ParquetFile
from millstream_connectors.files.paths import find

__all__ = ["FilesLog", "FilesSource"]


class FilesSource(BaseModel):
    """Records from files: JSON Lines, gzipped JSON Lines, or Parquet.

    A file may grow while it is read. A last line without a newline is a record if the line is a whole JSON object, if
    the file is gzipped, or if `ends` says that the files are complete.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "news.jsonl").write_text('{"text": "rain", "label": "weather"}\\n{"text": "goal"}')
    >>> log = FilesSource(path="news.jsonl").open(OpenContext(folder=folder, cache=folder / "cache"))
    >>> log.end("news.jsonl")
    2
    >>> next(log.read("news.jsonl", 0, 2)).select(["_offset", "text", "label"]).to_pylist()
    [{'_offset': 0, 'text': 'rain', 'label': 'weather'}, {'_offset': 1, 'text': 'goal', 'label': None}]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["files"] = "files"
    path: str = Field(
        min_length=1, description="A file, a directory of `.jsonl`, `.jsonl.gz` and `.parquet` files, or a pattern."
    )
    fields: Fields = USUAL_FIELDS
    ends: bool = Field(default=False, description="Whether the files are complete: nothing will be appended.")

    def open(self, context: OpenContext) -> FilesLog:
        folder, _ = find(context.folder, self.path)
        return FilesLog(self, context, folder)

    @property
    def bounded(self) -> bool:
        return True

    def problems(self, context: OpenContext) -> Sequence[tuple[str, str]]:
        try:
            find(context.folder, self.path)
        except ConfigError as error:
            return [("path", str(error))]
        return []

    def reads(self, context: OpenContext, location: str) -> bool:
        return os.path.normpath(context.folder / self.path) == os.path.normpath(location)


class FilesLog:
    """The files that a path names, as a log."""

    def __init__(self, config: FilesSource, context: OpenContext, folder: Path) -> None:
        self._config = config
        self._config_folder = context.folder
        self._folder = folder
        self._files: dict[str, tuple[tuple[int, int], LinesFile | ParquetFile]] = {}
        self._cache = context.cache
        self._cache.mkdir(parents=True, exist_ok=True)

    @property
    def fields(self) -> Sequence[str]:
        return [name for name in self._config.fields if name != "time"]

    def partitions(self) -> Sequence[Partition]:
        """Return a partition for each file that exists now, in the order of the paths of the files."""
        _, names = find(self._config_folder, self._config.path)
        return [Partition(name) for name in names]

    def beginning(self, partition: str, *, joined: bool = False) -> int:
        return 0

    def resume(self, partition: str, wanted: int) -> int:
        return wanted

    def end(self, partition: str) -> int:
        return self._file(partition).count()

    def is_current(self, partition: str) -> bool:
        return True

    def ended(self, partition: str) -> bool:
        return self._config.ends

    def identity(self, partition: str, upto: int) -> str:
        """Return a digest of the rows before the offset `upto`, or, for a Parquet file, a digest of the whole file."""
        stat = self._stat(partition)
        known = self._load_json("identities.json")
        key = f"{partition} {upto} {stat.st_size} {stat.st_mtime_ns}"
        if key not in known:
            file = self._file(partition)
            digest = file.digest() if isinstance(file, ParquetFile) else file.digest(upto)
            known = {other: known[other] for other in known if not other.startswith(f"{partition} {upto} ")}
            self._write_json("identities.json", {**known, key: digest})
            return digest
        return str(known[key])

    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        file = self._file(partition)
        if isinstance(file, ParquetFile):
            yield from file.read(start, stop)
        else:
            for first, block in file.blocks(start, stop):
                yield parse_block(block, self._config.fields, first)

    def close(self) -> None:
        for _, file in self._files.values():
            if isinstance(file, LinesFile):
                file.save()
            else:
                file.close()
        self._files = {}

    # Files

    def _stat(self, partition: str) -> os.stat_result:
        try:
            return (self._folder / partition).stat()
        except FileNotFoundError:
            message = f"{self._folder / partition} is gone, and this run has read the file"
            raise AlteredLog(f"{message}; put the file back, or start over with --fresh") from None

    def _file(self, partition: str) -> LinesFile | ParquetFile:
        known = self._files.get(partition)
        if known is not None and isinstance(known[1], LinesFile) and not partition.endswith(".gz"):
            return known[1]
        stat = self._stat(partition)
        state = (stat.st_size, stat.st_mtime_ns)
        if known is not None and known[0] == state:
            return known[1]
        file = self._open_file(partition, state)
        self._files[partition] = (state, file)
        return file

    def _open_file(self, partition: str, state: tuple[int, int]) -> LinesFile | ParquetFile:
        path = self._folder / partition
        if partition.endswith(".parquet"):
            return ParquetFile(path, self._config.fields, strict="fields" in self._config.model_fields_set)
        key = hashlib.sha256(partition.encode()).hexdigest()[:16]
        if not partition.endswith(".gz"):
            return LinesFile(path, self._cache / f"{key}.npy", complete=self._config.ends)
        stem = f"{key}-{state[0]}-{state[1]}"
        unpacked = self._cache / f"{stem}.jsonl"
        if not unpacked.exists():
            _unpack(path, unpacked)
            for other in self._cache.glob(f"{key}-*"):
                if not other.name.startswith(stem):
                    other.unlink(missing_ok=True)
        return LinesFile(unpacked, self._cache / f"{stem}.npy", complete=True)

    # Files of the cache

    def _load_json(self, name: str) -> dict[str, Any]:
        try:
            return dict(json.loads((self._cache / name).read_text()))
        except FileNotFoundError:
            return {}

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        write_whole(self._cache / name, json.dumps(content, indent=1))


def _unpack(packed: Path, unpacked: Path) -> None:
    """Unpack a gzip file, so that its rows can be found by seeking; an interrupted call leaves no `unpacked` file."""
    partial = unpacked.with_name(f"{unpacked.name}.{os.getpid()}.tmp")
    try:
        with gzip.open(packed, "rb") as source, partial.open("wb") as target:
            shutil.copyfileobj(source, target, 4 << 20)
            target.flush()
            sync_file(target.fileno())  # before the rename: a file with the final name is complete
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        partial.unlink(missing_ok=True)
        message = f"{packed} is not a whole gzip file: {error}"
        raise AlteredLog(message) from None
    partial.rename(unpacked)
