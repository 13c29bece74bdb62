"""Paths of records as text, for the rows of sinks: numbers and rounds with dots between them, after a window's key."""

from __future__ import annotations

import json
import struct

import pyarrow as pa

from millstream.steps.child_paths import partner_text
from millstream.steps.round_paths import round_text

__all__ = ["path_text"]


def path_text(paths: pa.ChunkedArray) -> pa.Array:
    """The paths as text; an empty path is an empty text, and `r2` is the second round of a cycle.

    `p0` ends the identity of a partner in a join, of which one stream goes to all owners of keys.

    >>> path_text(pa.chunked_array([[b"", bytes([0, 0, 0, 3, 128, 0, 0, 2]), b'["sport"]' + bytes(4)]])).to_pylist()
    ['', '3.r2', '["sport"].0']
    """
    coded = paths.combine_chunks().dictionary_encode()
    coded = pa.concat_arrays(coded.chunks) if isinstance(coded, pa.ChunkedArray) else coded
    texts = pa.array([_text(path) for path in coded.dictionary.to_pylist()], pa.string())
    return texts.take(coded.indices)


def _text(path: bytes) -> str:
    key, numbers = _key(path)
    items = struct.unpack(f">{len(numbers) // 4}I", numbers)
    return ".".join([*key, *(round_text(item) or partner_text(item) or str(item) for item in items)])


def _key(path: bytes) -> tuple[list[str], bytes]:
    """The key of a window at the beginning of a path, and the rest of the path."""
    if not path.startswith(b"["):
        return [], path
    text = path.decode("utf-8", "surrogateescape")
    _, end = json.JSONDecoder().raw_decode(text)
    return [text[:end]], path[len(text[:end].encode("utf-8", "surrogateescape")) :]
