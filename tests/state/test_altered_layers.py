"""A bit that flips anywhere in a manifest or a layer is a clear error, and never a large allocation."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from support.checkpoint_chain import CheckpointChain

from millstream.digests import Digest
from millstream.errors import AlteredLog, UnknownFormat
from millstream.state.checkpoints import read_newest
from millstream.state.digests import states_digest
from millstream.state.keyed_state import KeyedStore
from millstream.state.stored_states import States

_MOST_BYTES = 4 << 20


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The run directory of a small checkpoint, with changes of arrays and keys."""
    chain, store = CheckpointChain(tmp_path, shards=3), KeyedStore()
    store.restore(chain.store.newest_states(None)["keys"])
    array = np.arange(300.0)
    for epoch in range(2):
        array = array.copy()
        array[epoch] = -1
        store.put(f"key {epoch}", b"value")
        states: States = {"model": {"weights": array, "names": b"names"}, "keys": store.snapshot()}
        chain.write(epoch, states)
    chain.close()
    return tmp_path


def digest(run: Path) -> Digest | None:
    return read_newest(run, lambda _, states: states_digest(states))


@pytest.mark.parametrize("pattern", ["checkpoints/0000000001.json", "layers/*-0000000000.layer"])
def test_a_flipped_bit_is_found_wherever_it_is(run: Path, pattern: str) -> None:
    (path,) = run.glob(pattern)
    content, expected = path.read_bytes(), digest(run)
    tracemalloc.start()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :])
        tracemalloc.reset_peak()
        with pytest.raises((AlteredLog, UnknownFormat), match=path.name):
            digest(run)
        assert tracemalloc.get_traced_memory()[1] < _MOST_BYTES, at
    tracemalloc.stop()
    path.write_bytes(content)
    assert digest(run) == expected


@pytest.mark.parametrize("pattern", ["checkpoints/0000000001.json", "layers/*-0000000000.layer"])
def test_a_file_that_was_cut_short_or_has_grown_is_refused(run: Path, pattern: str) -> None:
    (path,) = run.glob(pattern)
    content = path.read_bytes()
    for altered in (*(content[:size] for size in range(0, len(content), 7)), content + b"\0"):
        path.write_bytes(altered)
        with pytest.raises(AlteredLog, match=path.name):
            digest(run)


@pytest.mark.parametrize("size", [2**31, 2**62])
def test_a_footer_that_claims_a_great_length_is_refused(run: Path, size: int) -> None:
    (path,) = run.glob("layers/*-0000000000.layer")
    content = path.read_bytes()
    path.write_bytes(content[:-40] + size.to_bytes(8, "little") + content[-32:])
    with pytest.raises(AlteredLog, match="its footer does not fit into the file"):
        digest(run)
