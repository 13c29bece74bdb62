"""The digests that are sums are equal exactly where the digests before them, which followed the order, were equal.

Every table and state that is digested in runs of the conformance suite's pipelines is digested in both ways.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.golden import GoldenRuns
from support.pipelines import InjectedCrash
from support.suite import PIPELINES

from millstream import digests
from millstream.arrays import Array
from millstream.digests import Digest
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point
from millstream.state import digests as state_digests
from millstream.state.dirty_rows import Value
from millstream.state.keyed_state import KeyedSnapshot

Pairs = set[tuple[str, str]]


def _plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    array = column
    if isinstance(column, pa.ChunkedArray):
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # combine_chunks keeps columns over 2 GiB chunked
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def _update(digest: Any, array: pa.Array) -> None:
    kind, rows, missing = array.type, len(array), array.null_count
    if missing:
        digest.update(array.is_valid().to_numpy(zero_copy_only=False).tobytes())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        if missing == rows:
            digest.update(bytes(8 * rows))
            return
        filled = pc.fill_null(array, b"" if pa.types.is_binary(kind) else "") if missing else array
        _, offsets, data = filled.buffers()
        width = np.int64 if pa.types.is_large_string(kind) else np.int32
        bounds: Array = np.frombuffer(offsets, dtype=width)[filled.offset : filled.offset + rows + 1]
        digest.update(np.subtract(bounds[1:], bounds[:-1], dtype=np.int64).tobytes())
        if data is not None:
            digest.update(memoryview(data)[int(bounds[0]) : int(bounds[-1])])
    elif pa.types.is_list(kind):
        lengths = pc.list_value_length(array)
        digest.update((lengths.fill_null(-1) if missing else lengths).to_numpy().astype(np.int64).tobytes())
        _update(digest, array.flatten())
    elif pa.types.is_struct(kind):
        for child in array.flatten():
            _update(digest, child)
    elif pa.types.is_boolean(kind):
        filled = pc.fill_null(array, False) if missing else array
        digest.update(filled.to_numpy(zero_copy_only=False).tobytes())
    elif pa.types.is_null(kind):
        digest.update(rows.to_bytes(8, "little"))
    else:
        if pa.types.is_timestamp(kind):
            array = array.view(pa.int64())
        filled = pc.fill_null(array, 0) if missing else array
        digest.update(filled.to_numpy(zero_copy_only=False).tobytes())


def old_digest_of(tables: Iterable[pa.Table]) -> str:
    digest = hashlib.sha256()
    for table in tables:
        for name in table.column_names:
            digest.update(name.encode() + b"\0")
            _update(digest, _plain(table[name]))
    return digest.hexdigest()[:32]


def old_state_digest(states: Iterable[tuple[str, Mapping[str, Value]]]) -> str:
    digest = hashlib.sha256()
    for step, state in states:
        for name, value in state.in_order() if isinstance(state, KeyedSnapshot) else sorted(state.items()):
            if not isinstance(value, bytes):
                if value.dtype.hasobject:
                    message = f"state {name!r} is an array of Python objects; save arrays of numbers, or bytes of JSON"
                    raise TypeError(message)
                digest.update(f"{step}{name}\0{value.dtype.str}{value.shape}\0".encode())
                digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
            else:
                digest.update(f"{step}{name}\0bytes({len(value)})\0".encode())
                digest.update(value)
    return digest.hexdigest()[:32]


def observed(patch: pytest.MonkeyPatch) -> Pairs:
    """All digests of later runs in this process, old and new."""
    found: Pairs = set()

    def digest_of(table: pa.Table) -> Digest:
        new = digests.digest_of(table)
        found.add((f"{table.num_rows} {old_digest_of([table])}", str(new)))
        return new

    def digests_by(table: pa.Table, column: str) -> dict[int, Digest]:
        for value in pc.unique(table[column]).to_pylist():
            digest_of(table.filter(pc.equal(table[column], value)))
        return digests.digests_by(table, column)

    def states_digest(states: Mapping[str, Mapping[str, Value]]) -> Digest:
        new = state_digests.states_digest(states)
        old = old_state_digest(sorted((f"{step}/", state) for step, state in states.items()))
        found.add((f"state {old}", str(new)))
        return new

    for module in ("steps.chain", "steps.processor", "runs.summary"):
        patch.setattr(f"millstream.{module}.digest_of", digest_of)
    patch.setattr("millstream.steps.chain.digests_by", digests_by)
    patch.setattr("millstream.steps.processor.states_digest", states_digest)
    return found


def test_new_digests_are_equal_exactly_where_the_old_ones_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = observed(monkeypatch)
    runs = GoldenRuns(tmp_path, mock.Mock())
    for name in sorted(PIPELINES.keys() - {"topics"}):
        pipeline = runs[name].pipeline
        assert pipeline.run("again").state == runs[name].summary.state
        with pytest.raises(InjectedCrash):
            pipeline.run("crashed", crash=CrashPoint(Point.DELIVER, 5))
        pipeline.run("crashed")
    assert len(pairs) > 300
    assert len({old for old, _ in pairs}) == len({new for _, new in pairs}) == len(pairs)
