"""Layers: the files with the sections that one process writes for one checkpoint.

A layer ends with a footer, which lists its sections with offsets and digests, and with the length and the digest of the
footer. Nothing in a layer is believed before its digest is verified, and nothing is read beyond the end of the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from millstream.arrays import Array
from millstream.errors import AlteredCheckpoint, UnknownFormat
from millstream.state.background import Background, ThreadedBackground
from millstream.state.files import DiskFiles, Files
from millstream.state.sections import ArrayEntry, read_arrays, read_keys
from millstream.state.shards import SHARDS

__all__ = ["Layer", "LayerContent", "Layers", "OpenLayers", "Section", "Sections"]

_MAGIC = b"millstream layer 1\n"
_ANY_MAGIC = re.compile(rb"millstream layer (\d)\n")
_TRAILER_BYTES = 40
_READ_BYTES = 1 << 20


class Section(NamedTuple):
    """A section in a layer: the name of the file, the place of its bytes, and their digest."""

    file: str
    offset: int
    length: int
    digest: str


Sections = Mapping[str, Mapping[int, Sequence[Section]]]
"""By step and shard the sections that make up the state: the base first, then the changes."""


@dataclass(frozen=True)
class Layers:
    """The layers of a run: their folder, the number of shards, and the way to write files in the background."""

    folder: Path
    shards: int = SHARDS
    files: Files = field(default_factory=DiskFiles)
    background: Background = field(default_factory=ThreadedBackground)


class LayerContent:
    """The bytes of a layer; after `chunks` is consumed, `written` has its sections in order."""

    def __init__(self, file: str, sections: Iterable[tuple[str, int, bool, Iterable[bytes | memoryview]]]) -> None:
        self._file, self._sections = file, sections
        self.written: list[Section] = []

    def chunks(self) -> Iterator[bytes | memoryview]:
        yield _MAGIC
        footer, offset = [], len(_MAGIC)
        for step, shard, base, content in self._sections:
            length, digest = 0, hashlib.sha256()
            for chunk in content:
                digest.update(chunk)
                length += len(chunk)
                yield chunk
            section = Section(self._file, offset, length, digest.hexdigest()[:32])
            self.written.append(section)
            footer.append([step, shard, "base" if base else "changes", offset, length, section.digest])
            offset += length
        data = json.dumps({"sections": footer}).encode()
        size = len(data).to_bytes(8, "little")
        yield data + size + hashlib.sha256(data + size).digest()


class Layer:
    """A layer that is read. The constructor verifies the footer, and reading verifies each section."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = os.open(path, os.O_RDONLY)
        try:
            self._size = os.fstat(self._handle).st_size
            self._sections = self._read_footer()
        except BaseException:
            os.close(self._handle)
            raise

    def arrays(self, step: str, shard: int, section: Section) -> Mapping[str, ArrayEntry]:
        """The arrays and bytes of a section."""
        self._check_place(step, shard, section)
        content = np.empty(section.length, np.uint8)
        self._verify(section, content)
        return read_arrays(content)

    def keys(self, step: str, shard: int, section: Section) -> Iterator[dict[str, bytes | None]]:
        """The state by key of a section, part by part."""
        self._check_place(step, shard, section)
        self._verify(section)
        yield from read_keys(lambda at, size: self._read(section.offset + at, size), section.length)

    def verify(self, step: str, shard: int, section: Section) -> None:
        """Read all bytes of a section, and compare them with its digest."""
        self._check_place(step, shard, section)
        self._verify(section)

    def kind(self, section: Section) -> bytes:
        """The first byte of a section, which is not verified yet."""
        return self._read(section.offset, 1)

    def _verify(self, section: Section, into: Array | None = None) -> None:
        """Verify the digest of a section, and keep its bytes in `into`."""
        digest = hashlib.sha256()
        for at in range(0, section.length, _READ_BYTES):
            chunk = self._read(section.offset + at, min(_READ_BYTES, section.length - at))
            digest.update(chunk)
            if into is not None:
                into[at : at + len(chunk)] = np.frombuffer(chunk, np.uint8)
        if digest.hexdigest()[:32] != section.digest:
            raise self._altered("a section does not match its digest")

    def _check_place(self, step: str, shard: int, section: Section) -> None:
        if self._sections.get((step, shard)) != tuple(section[1:]):
            raise self._altered(f"its footer has another section of step '{step}', shard {shard}, than the checkpoint")

    def _read_footer(self) -> dict[tuple[str, int], tuple[Any, ...]]:
        magic = self._read(0, min(len(_MAGIC), self._size))
        if magic != _MAGIC:
            raise self._format_error(magic)
        end = self._size - _TRAILER_BYTES
        trailer = self._read(max(0, end), min(_TRAILER_BYTES, self._size))
        length = int.from_bytes(trailer[:8], "little")
        if not len(_MAGIC) <= end - length <= end:
            raise self._altered("its footer does not fit into the file")
        data = self._read(end - length, length)
        if hashlib.sha256(data + trailer[:8]).digest() != trailer[8:]:
            raise self._altered("its footer does not match its digest")
        lines = json.loads(data)["sections"]
        return {(step, shard): (offset, size, digest) for step, shard, _, offset, size, digest in lines}

    def _read(self, offset: int, size: int) -> bytes:
        if offset + size > self._size:
            raise self._altered("it is shorter than it was")
        return os.pread(self._handle, size, offset)

    def _altered(self, how: str) -> AlteredCheckpoint:
        message = f"{self._path} was altered: {how}; start over with --fresh"
        return AlteredCheckpoint(message)

    def _format_error(self, magic: bytes) -> AlteredCheckpoint | UnknownFormat:
        """The error for a file that does not begin with the magic bytes of this format."""
        other = _ANY_MAGIC.fullmatch(magic)
        if other is None:
            return self._altered("it does not begin like a layer of a checkpoint")
        message = (
            f"{self._path} is a layer of format {int(other[1])}, and this version of Millstream reads format 1: "
            "use the version that wrote it, or start over with --fresh"
        )
        return UnknownFormat(message)

    def __enter__(self) -> Layer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._handle)


class OpenLayers:
    """Layers by name that stay open while several of their sections are read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: dict[str, Layer] = {}
        self._ending = ExitStack()

    def __getitem__(self, file: str) -> Layer:
        if file not in self._opened:
            self._opened[file] = self._ending.enter_context(Layer(self._folder / file))
        return self._opened[file]

    def __enter__(self) -> OpenLayers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.close()
