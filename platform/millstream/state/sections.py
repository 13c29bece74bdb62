"""Sections: the state of one step and shard in a layer, complete (a base), or as changes of an earlier section.

A section has arrays and bytes by name, or state by key. Of an array, changes have the indices and values that differ,
or the numbers and contents of the rows that differ; of state by key, the keys and values that differ. An array with
many changes is stored completely.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from millstream.arrays import Array
from millstream.state.dirty_rows import Value

__all__ = ["ARRAYS", "KEYS", "ArrayEntry", "array_chunks", "flatten", "key_chunks", "read_arrays", "read_keys"]

ARRAYS, KEYS = b"A", b"K"
"""The first byte of a section: the kind of its content."""
_ALIGNMENT = 16


@dataclass(frozen=True)
class ArrayEntry:
    """An array or bytes in a section: all values, or only those at `indices`. Bytes have no shape.

    An index counts groups of `width` values: single values (1), or rows of the array.
    """

    name: str
    length: int
    shape: Sequence[int] | None
    indices: Array | None
    values: Array
    width: int = 1

    def line(self) -> dict[str, Any]:
        line = {"name": self.name, "dtype": self.values.dtype.str, "length": self.length}
        line["shape"] = None if self.shape is None else list(self.shape)
        return line if self.indices is None else line | {"changed": len(self.indices), "width": self.width}

    def chunks(self) -> Iterator[bytes | memoryview]:
        for part in (
            (self.values,) if self.indices is None else (self.indices.astype(np.int64, copy=False), self.values)
        ):
            yield part.reshape(-1).view(np.uint8).data
            yield bytes(-part.nbytes % _ALIGNMENT)

    def apply_to(self, before: Array | bytes | None) -> Array | bytes:
        """All values, given the values in the base; an array `before` is changed in place."""
        flat = self.values
        if self.indices is not None:
            flat = flatten(before)  # type: ignore[arg-type]  # changes have a base
            flat = flat if flat.flags.writeable else flat.copy()
            rows = flat if self.width == 1 else flat.reshape(-1, self.width)
            rows[self.indices] = self.values
        return flat.tobytes() if self.shape is None else flat.reshape(self.shape)


def flatten(value: Value) -> Array:
    """A value as a one-dimensional array."""
    return np.frombuffer(value, dtype=np.uint8) if isinstance(value, bytes) else np.ascontiguousarray(value).reshape(-1)


def array_chunks(entries: Sequence[ArrayEntry]) -> Iterator[bytes | memoryview]:
    """The bytes of a section with arrays; each array begins at a multiple of 16 bytes."""
    header = json.dumps([entry.line() for entry in entries]).encode()
    header += b" " * (-(len(header) + 5) % _ALIGNMENT)
    yield ARRAYS + len(header).to_bytes(4, "little") + header
    for entry in entries:
        yield from entry.chunks()


def read_arrays(content: Array) -> Mapping[str, ArrayEntry]:
    """The arrays of a section, as views of its bytes, whose digest was verified before."""
    start = 5 + int.from_bytes(content[1:5].tobytes(), "little")
    entries: dict[str, ArrayEntry] = {}
    for line in json.loads(content[5:start].tobytes()):
        dtype, changed, indices = np.dtype(line["dtype"]), line.get("changed"), None
        width = line.get("width", 1)
        if changed is not None:
            indices, start = _view(content, start, np.dtype(np.int64), changed)
        values, start = _view(content, start, dtype, line["length"] if changed is None else changed * width)
        values = values if width == 1 else values.reshape(-1, width)
        entries[line["name"]] = ArrayEntry(line["name"], line["length"], line["shape"], indices, values, width)
    return entries


def _view(content: Array, start: int, dtype: np.dtype[Any], count: int) -> tuple[Array, int]:
    stop = start + count * dtype.itemsize
    return content[start:stop].view(dtype), stop + -(stop - start) % _ALIGNMENT


def key_chunks(parts: Iterable[Mapping[str, bytes | None]]) -> Iterator[bytes]:
    """The bytes of a section with state by key: frames of a count, a size, lengths, sizes, keys and values."""
    yield KEYS
    for part in parts:
        if part:
            keys, values = [key.encode() for key in part], list(part.values())
            lengths = np.array([len(key) for key in keys], "<u4")
            sizes = np.array([-1 if value is None else len(value) for value in values], "<i8")
            content = b"".join([lengths.tobytes(), sizes.tobytes(), *keys, *filter(None, values)])
            yield len(keys).to_bytes(8, "little") + len(content).to_bytes(8, "little")
            yield content


def read_keys(read: Callable[[int, int], bytes], length: int) -> Iterator[dict[str, bytes | None]]:
    """The frames of a section with state by key; `read` returns the bytes at an offset of the section."""
    at = 1
    while at < length:
        head = read(at, 16)
        count, size = int.from_bytes(head[:8], "little"), int.from_bytes(head[8:], "little")
        yield _decode_frame(read(at + 16, size), count)
        at += 16 + size


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
