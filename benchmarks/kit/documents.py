"""Generated documents as JSON Lines: written once, read by all contenders."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from millstream.log.contracts import OpenContext
from millstream.log.formats.rows import json_lines
from millstream_connectors.generator import GeneratorSource

__all__ = ["Documents", "document_lines", "generated"]

_TIMES = pa.timestamp("us", "UTC")


def document_lines(records: int) -> Iterator[bytes]:
    """Labelled documents as JSON objects, one line each, without line ends."""
    for lines in _line_blocks(records):
        yield from lines.splitlines()


def generated(records: int) -> Iterable[pa.RecordBatch]:
    """The records of `document_lines` in Arrow."""
    return GeneratorSource(seed=1, records=records).open(OpenContext(Path(), Path())).read("0", 0, records)


def _line_blocks(records: int) -> Iterator[bytes]:
    for batch in generated(records):
        columns = {"text": batch["text"], "label": batch["label"], "time": batch["_time"].cast(_TIMES)}
        yield json_lines(pa.table(columns))


class Documents:
    """One JSON Lines file of documents, and folders of equal files with the same lines."""

    def __init__(self, folder: Path, records: int) -> None:
        self._folder = folder
        self.records = records

    @property
    def file(self) -> Path:
        """All documents in one file."""
        path = self._folder / "documents.jsonl"
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.writelines(_line_blocks(self.records))
        return path

    def parts(self, rows: int, files: int) -> Path:
        """A folder with so many files of the first documents, their modification times in order."""
        folder = self._folder / f"{files}-files-of-{rows}"
        if not folder.exists():
            with self.file.open("rb") as lines:
                folder.mkdir()
                for number in range(files):
                    path = folder / f"{number:06d}.jsonl"
                    path.write_bytes(b"".join(itertools.islice(lines, rows)))
                    os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
        return folder
