"""The file of one checkpoint: a header, arrays, state by key, and a digest over all of it.

A delta checkpoint stores only the changes since its base: of an array the indices and values that differ, or the
numbers and contents of the rows that differ; of state by key the keys and values that differ. An array with many
changes is stored completely.
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
from millstream.state.keyed_state import KeyedSnapshot, merge_parts

__all__ = ["ArrayEntry", "CheckpointFile", "KeyedEntry", "StoredSnapshot", "flatten", "read_header", "write_checkpoint"]

_FORMAT = 4
_MAGIC = b"millstream checkpoint %d\n" % _FORMAT
_ANY_MAGIC = re.compile(rb"millstream checkpoint (\d)\n")
_DIGEST_BYTES = 32
_READ_BYTES = 1 << 20
_LARGE_BYTES = 1 << 16


@dataclass(frozen=True)
class ArrayEntry:
    """An array or bytes in a checkpoint: all values, or only those at `indices`. Bytes have no shape.

    An index counts groups of `width` values: single values (1), or rows of the array.
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

    def apply_to(self, before: Array | bytes | None) -> Array | bytes:
        """All values, given the values in the base; an array `before` is changed in place."""
        flat = self.values
        if self.indices is not None:
            flat = flatten(before)  # type: ignore[arg-type]  # a delta has a base
            flat = flat if flat.flags.writeable else flat.copy()
            rows = flat if self.width == 1 else flat.reshape(-1, self.width)
            rows[self.indices] = self.values
        return flat.tobytes() if self.shape is None else flat.reshape(self.shape)


@dataclass(frozen=True)
class KeyedEntry:
    """State by key in a checkpoint: all of the state, or the changes since the base (None as a value: deleted)."""

    step: str
    state: KeyedSnapshot
    changes: Mapping[str, bytes | None] | None

    def line(self) -> dict[str, Any]:
        return {"step": self.step, "full": self.changes is None}

    def chunks(self) -> Iterator[bytes]:
        return _encode_frames(self.state.parts() if self.changes is None else [self.changes])


def flatten(value: Value) -> Array:
    """A value as a one-dimensional array."""
    return np.frombuffer(value, dtype=np.uint8) if isinstance(value, bytes) else np.ascontiguousarray(value).reshape(-1)


def write_checkpoint(path: Path, header: Mapping[str, Any], chunks: Iterable[bytes | memoryview]) -> int:
    """Write a checkpoint atomically and durably, and return its size in bytes."""
    partial = path.with_suffix(".tmp")
    digest = hashlib.sha256()
    start = json.dumps(header).encode()
    try:
        with partial.open("wb") as file:
            for group in ((_MAGIC, len(start).to_bytes(8, "little"), start), chunks):
                for chunk in group:
                    file.write(chunk)
                    _start_writeback(file, len(chunk))
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


def _start_writeback(file: BinaryIO, size: int) -> None:
    """Let the disk start to write the last `size` bytes while their digest is computed: the sync then waits less."""
    if size >= _LARGE_BYTES:
        file.flush()
        os.posix_fadvise(file.fileno(), file.tell() - size, size, os.POSIX_FADV_DONTNEED)


def read_header(path: Path) -> dict[str, Any]:
    """The manifest of a checkpoint; the digest is not checked."""
    with path.open("rb") as file:
        return _read_manifest(path, file)


class CheckpointFile:
    """A checkpoint read from its file; the constructor checks the digest."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            _check_digest(path, file)
            self.header = _read_manifest(path, file)
            self._arrays = list(_read_arrays(file, self.header["arrays"]))

    @cached_property
    def entries(self) -> Mapping[tuple[str, str], ArrayEntry]:
        """The arrays and bytes, by step and name."""
        return {(entry.step, entry.name): entry for entry in self._arrays}

    def apply_to(self, before: Mapping[str, Mapping[str, Array | bytes]]) -> dict[str, Mapping[str, Array | bytes]]:
        """The states in this checkpoint, given the states in its base; the arrays of the base are changed in place."""
        arrays: dict[str, dict[str, Array | bytes]] = {}
        for entry in self._arrays:
            known = before[entry.step][entry.name] if entry.indices is not None else None
            arrays.setdefault(entry.step, {})[entry.name] = entry.apply_to(known)
        states: dict[str, Mapping[str, Array | bytes]] = {**arrays}
        for line in self.header["keyed"]:
            step = line["step"]
            below = [] if line["full"] else cast(StoredSnapshot, before[step]).layers
            states[step] = StoredSnapshot(step, [*below, self._path])
        return states

    def keyed(self, step: str) -> Iterator[dict[str, bytes | None]]:
        """The state by key of a step in this file: all of the state, or the changes since the base."""
        return _read_keyed(self._path, step)


class StoredSnapshot(KeyedSnapshot):
    """State by key in checkpoint files: the first layer has all keys, a later one the changes."""

    def __init__(self, step: str, layers: Sequence[Path]) -> None:
        self._step = step
        self.layers = layers

    def since(self, earlier: object) -> None:
        return None

    def parts(self) -> Iterator[Mapping[str, bytes | None]]:
        for path in self.layers:
            yield from _read_keyed(path, self._step)

    def to_dict(self) -> dict[str, bytes]:
        return self._entries

    def __getitem__(self, key: str) -> bytes:
        return self._entries[key]

    def __reduce__(self) -> tuple[type[StoredSnapshot], tuple[str, Sequence[Path]]]:
        return StoredSnapshot, (self._step, self.layers)  # the receiving process reads the files

    @cached_property
    def _entries(self) -> dict[str, bytes]:
        return merge_parts(self.parts())


def _encode_frames(parts: Iterable[Mapping[str, bytes | None]]) -> Iterator[bytes]:
    """Encode state by key as frames of a count, a size, the lengths of keys and values, the keys and the values.

    A frame with a count of 0 ends the state of a step.
    """
    for part in parts:
        if part:
            keys, values = [key.encode() for key in part], list(part.values())
            lengths = np.array([len(key) for key in keys], "<u4")
            sizes = np.array([-1 if value is None else len(value) for value in values], "<i8")
            content = b"".join([lengths.tobytes(), sizes.tobytes(), *keys, *filter(None, values)])
            yield len(keys).to_bytes(8, "little") + len(content).to_bytes(8, "little")
            yield content
    yield bytes(16)


def _decode_frame(content: bytes, count: int) -> dict[str, bytes | None]:
    lengths = np.frombuffer(content, "<u4", count)
    sizes = np.frombuffer(content, "<i8", count, lengths.nbytes)
    item_sizes = np.concatenate([lengths.astype(np.int64), np.maximum(sizes, 0)])
    bounds = (lengths.nbytes + sizes.nbytes + np.concatenate([[0], np.cumsum(item_sizes)])).tolist()
    pieces = list(map(content.__getitem__, map(slice, bounds, bounds[1:])))
    values: list[bytes | None] = [*pieces[count:]]
    for index in np.flatnonzero(sizes < 0).tolist():
        values[index] = None
    return dict(zip(map(bytes.decode, pieces[:count]), values, strict=True))


def _check_digest(path: Path, file: BinaryIO) -> None:
    left = file.seek(0, os.SEEK_END) - _DIGEST_BYTES
    file.seek(0)
    digest = hashlib.sha256()
    while left > 0 and (chunk := file.read(min(left, _READ_BYTES))):
        digest.update(chunk)
        left -= len(chunk)
    if file.read() != digest.digest():
        message = f"{path} was altered: its content does not match its digest; start over with --fresh"
        raise AlteredLog(message)


def _read_manifest(path: Path, file: BinaryIO) -> dict[str, Any]:
    file.seek(0)
    magic = file.read(len(_MAGIC))
    if magic != _MAGIC:
        raise _format_error(path, magic)
    header: dict[str, Any] = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return header


def _format_error(path: Path, magic: bytes) -> Contradiction:
    """The error for a file that does not begin with the magic bytes of this format."""
    other = _ANY_MAGIC.fullmatch(magic)
    if other is not None:
        message = (
            f"{path} is a checkpoint of format {int(other[1])}, and this version of Millstream reads format {_FORMAT}: "
            "use the version that wrote it, or start over with --fresh"
        )
        return UnknownFormat(message)
    message = (
        f"{path} does not begin like a checkpoint: the file was altered, or is of another kind; start over with --fresh"
    )
    return AlteredLog(message)


def _read_arrays(file: BinaryIO, lines: Iterable[Mapping[str, Any]]) -> Iterator[ArrayEntry]:
    for line in lines:
        dtype, changed, indices = np.dtype(line["dtype"]), line.get("changed"), None
        width = line.get("width", 1)
        if changed is not None:
            indices = np.frombuffer(file.read(8 * changed), np.int64)
        values = np.empty(line["length"] if changed is None else changed * width, dtype)
        file.readinto(values.view(np.uint8).data)  # type: ignore[attr-defined]  # a buffered file
        values = values if width == 1 else values.reshape(-1, width)
        yield ArrayEntry(line["step"], line["name"], line["length"], line["shape"], indices, values, width)


def _read_keyed(path: Path, step: str) -> Iterator[dict[str, bytes | None]]:
    with path.open("rb") as file:
        header = _read_manifest(path, file)
        for line in header["arrays"]:
            changed, size = line.get("changed"), np.dtype(line["dtype"]).itemsize
            index_and_values = 8 + line.get("width", 1) * size
            file.seek(line["length"] * size if changed is None else changed * index_and_values, os.SEEK_CUR)
        for line in header["keyed"]:
            while count := int.from_bytes(file.read(8), "little"):
                size = int.from_bytes(file.read(8), "little")
                if line["step"] == step:
                    yield _decode_frame(file.read(size), count)
                else:
                    file.seek(size, os.SEEK_CUR)
            file.read(8)
