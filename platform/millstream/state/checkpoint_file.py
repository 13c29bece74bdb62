"""The file of one checkpoint: a header, arrays, state by key, and a digest over all of it.

What changed little since the checkpoint that it leans on is written as what changed: of an array the places and their
values, or rows and theirs, of state by key the keys and theirs.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from millstream.arrays import Array
from millstream.errors import AlteredLog, Contradiction, UnknownFormat
from millstream.log.journal.durability import sync_folder
from millstream.state.dirty_rows import Value
from millstream.state.keyed_state import KeyedSnapshot, put_together

__all__ = ["ArrayEntry", "CheckpointFile", "KeyedEntry", "Stored", "flat_of", "read_header", "write_checkpoint"]

_FORMAT = 3
_MAGIC = b"millstream save %d\n" % _FORMAT
_ANY = re.compile(rb"millstream save (\d)\n")
_DIGEST_BYTES = 32
_READ_BYTES = 1 << 20
_MUCH_BYTES = 1 << 16


@dataclass(frozen=True)
class ArrayEntry:
    """An array or bytes in a checkpoint: its values, all of them or those at `places`. Bytes have no shape.

    At a place there are `width` values: 1, or as many as a row of the array has.
    """

    step: str
    name: str
    length: int
    shape: Sequence[int] | None
    indices: Array | None
    values: Array
    width: int = 1

    def line(self) -> dict[str, Any]:
        line = {"step": self.step, "name": self.name, "dtype": self.values.dtype.str, "length": self.length}
        line["shape"] = None if self.shape is None else list(self.shape)
        return line if self.indices is None else line | {"changed": len(self.indices), "width": self.width}

    def chunks(self) -> Iterator[memoryview]:
        for part in (
            (self.values,) if self.indices is None else (self.indices.astype(np.int64, copy=False), self.values)
        ):
            yield part.reshape(-1).view(np.uint8).data

    def over(self, before: Array | bytes | None) -> Array | bytes:
        """The whole of it, given what it was in the checkpoint that this one leans on; an array is written to."""
        flat = self.values
        if self.indices is not None:
            flat = flat_of(before)  # type: ignore[arg-type]  # what leans has something to lean on
            flat = flat if flat.flags.writeable else flat.copy()
            rows = flat if self.width == 1 else flat.reshape(-1, self.width)
            rows[self.indices] = self.values
        return flat.tobytes() if self.shape is None else flat.reshape(self.shape)


@dataclass(frozen=True)
class KeyedEntry:
    """State by key in a checkpoint: all of it, or what has changed."""

    step: str
    state: KeyedSnapshot
    changes: Mapping[str, bytes | None] | None

    def line(self) -> dict[str, Any]:
        return {"step": self.step, "whole": self.changes is None}

    def chunks(self) -> Iterator[bytes]:
        return _framed(self.state.parts() if self.changes is None else [self.changes])


def flat_of(value: Value) -> Array:
    """A value as a row of numbers."""
    return np.frombuffer(value, dtype=np.uint8) if isinstance(value, bytes) else np.ascontiguousarray(value).reshape(-1)


def write_checkpoint(path: Path, header: Mapping[str, Any], chunks: Iterable[bytes | memoryview]) -> int:
    """Write a checkpoint, whole or not at all, durable on return; its size."""
    partial = path.with_suffix(".tmp")
    digest = hashlib.sha256()
    start = json.dumps(header).encode()
    try:
        with partial.open("wb") as file:
            for group in ((_MAGIC, len(start).to_bytes(8, "little"), start), chunks):
                for chunk in group:
                    file.write(chunk)
                    _begin(file, len(chunk))
                    digest.update(chunk)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        partial.rename(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OSError(error.errno, f"{error.strerror}; the checkpoint was not written", str(path)) from error
    sync_folder(path.parent)
    return size


def _begin(file: BinaryIO, size: int) -> None:
    """Let the disk begin with what was written last, while its digest is computed; the sync waits for less then."""
    if size >= _MUCH_BYTES:
        file.flush()
        os.posix_fadvise(file.fileno(), file.tell() - size, size, os.POSIX_FADV_DONTNEED)


def read_header(path: Path) -> dict[str, Any]:
    """What a checkpoint says of itself."""
    with path.open("rb") as file:
        return _header(path, file)


class CheckpointFile:
    """A checkpoint that is read back; its digest is checked when it is opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            _check(path, file)
            self.header = _header(path, file)
            self._arrays = list(_arrays(file, self.header["arrays"]))

    @cached_property
    def entries(self) -> Mapping[tuple[str, str], ArrayEntry]:
        """The arrays and bytes, by step and name."""
        return {(entry.step, entry.name): entry for entry in self._arrays}

    def over(self, before: Mapping[str, Mapping[str, Array | bytes]]) -> dict[str, Mapping[str, Array | bytes]]:
        """The states in this checkpoint, given the states of its base; those are changed in place."""
        arrays: dict[str, dict[str, Array | bytes]] = {}
        for entry in self._arrays:
            known = before[entry.step][entry.name] if entry.indices is not None else None
            arrays.setdefault(entry.step, {})[entry.name] = entry.over(known)
        states: dict[str, Mapping[str, Array | bytes]] = {**arrays}
        for line in self.header["keyed"]:
            step = line["step"]
            below = [] if line["whole"] else cast(Stored, before[step]).layers
            states[step] = Stored(step, [*below, self._path])
        return states

    def keyed(self, step: str) -> Iterator[dict[str, bytes | None]]:
        """A step's state by key, or what has changed of it."""
        return _keyed(self._path, step)


class Stored(KeyedSnapshot):
    """State by key in checkpoints: the first file has all keys, the others the changes, the newest last."""

    def __init__(self, step: str, layers: Sequence[Path]) -> None:
        self._step = step
        self.layers = layers

    def since(self, earlier: object) -> None:
        return None

    def parts(self) -> Iterator[Mapping[str, bytes | None]]:
        for path in self.layers:
            yield from _keyed(path, self._step)

    def copied(self) -> dict[str, bytes]:
        return self._copied

    def __getitem__(self, key: str) -> bytes:
        return self._copied[key]

    def __reduce__(self) -> tuple[type[Stored], tuple[str, Sequence[Path]]]:
        return Stored, (self._step, self.layers)  # whoever gets it reads the files

    @cached_property
    def _copied(self) -> dict[str, bytes]:
        return put_together(self.parts())


def _framed(parts: Iterable[Mapping[str, bytes | None]]) -> Iterator[bytes]:
    """Parts of state by key as they are written: frames of a count, a size, lengths, keys and values; one without any
    ends them."""
    for part in parts:
        if part:
            keys, values = [key.encode() for key in part], list(part.values())
            lengths = np.array([len(key) for key in keys], "<u4")
            sizes = np.array([-1 if value is None else len(value) for value in values], "<i8")
            content = b"".join([lengths.tobytes(), sizes.tobytes(), *keys, *filter(None, values)])
            yield len(keys).to_bytes(8, "little") + len(content).to_bytes(8, "little")
            yield content
    yield bytes(16)


def _unframed(content: bytes, count: int) -> dict[str, bytes | None]:
    lengths = np.frombuffer(content, "<u4", count)
    sizes = np.frombuffer(content, "<i8", count, lengths.nbytes)
    widths = np.concatenate([lengths.astype(np.int64), np.maximum(sizes, 0)])
    edges = (lengths.nbytes + sizes.nbytes + np.concatenate([[0], np.cumsum(widths)])).tolist()
    pieces = list(map(content.__getitem__, map(slice, edges, edges[1:])))
    values: list[bytes | None] = [*pieces[count:]]
    for index in np.flatnonzero(sizes < 0).tolist():
        values[index] = None
    return dict(zip(map(bytes.decode, pieces[:count]), values, strict=True))


def _check(path: Path, file: BinaryIO) -> None:
    left = file.seek(0, os.SEEK_END) - _DIGEST_BYTES
    file.seek(0)
    digest = hashlib.sha256()
    while left > 0 and (some := file.read(min(left, _READ_BYTES))):
        digest.update(some)
        left -= len(some)
    if file.read() != digest.digest():
        message = f"{path} was altered: its digest does not fit its content; the run cannot go on from it"
        raise AlteredLog(message)


def _header(path: Path, file: BinaryIO) -> dict[str, Any]:
    file.seek(0)
    magic = file.read(len(_MAGIC))
    if magic != _MAGIC:
        raise _refusal(path, magic)
    header: dict[str, Any] = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return header


def _refusal(path: Path, magic: bytes) -> Contradiction:
    """The error for a file that does not begin with this format's magic bytes."""
    other = _ANY.fullmatch(magic)
    if other is not None:
        message = (
            f"{path} is a checkpoint of format {int(other[1])}, and this version of Millstream reads format {_FORMAT}: "
            "use the version that wrote it, or start over with --fresh"
        )
        return UnknownFormat(message)
    message = f"{path} does not begin like a checkpoint: it was altered, or is another file; start over with --fresh"
    return AlteredLog(message)


def _arrays(file: BinaryIO, lines: Iterable[Mapping[str, Any]]) -> Iterator[ArrayEntry]:
    for line in lines:
        dtype, changed, indices = np.dtype(line["dtype"]), line.get("changed"), None
        width = line.get("width", 1)
        if changed is not None:
            indices = np.frombuffer(file.read(8 * changed), np.int64)
        values = np.empty(line["length"] if changed is None else changed * width, dtype)
        file.readinto(values.view(np.uint8).data)  # type: ignore[attr-defined]  # a buffered file
        values = values if width == 1 else values.reshape(-1, width)
        yield ArrayEntry(line["step"], line["name"], line["length"], line["shape"], indices, values, width)


def _keyed(path: Path, step: str) -> Iterator[dict[str, bytes | None]]:
    with path.open("rb") as file:
        header = _header(path, file)
        for line in header["arrays"]:
            changed, size = line.get("changed"), np.dtype(line["dtype"]).itemsize
            at_a_place = 8 + line.get("width", 1) * size
            file.seek(line["length"] * size if changed is None else changed * at_a_place, os.SEEK_CUR)
        for line in header["keyed"]:
            while count := int.from_bytes(file.read(8), "little"):
                size = int.from_bytes(file.read(8), "little")
                if line["step"] == step:
                    yield _unframed(file.read(size), count)
                else:
                    file.seek(size, os.SEEK_CUR)
            file.read(8)
