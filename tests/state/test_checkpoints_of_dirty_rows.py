"""Checkpoints of arrays with dirty rows: the dirty rows are written, and the whole array is loaded."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.checkpoint_chain import CheckpointChain

from millstream.arrays import Array
from millstream.digests import Digest
from millstream.state.checkpoints import Checkpoint, read_newest
from millstream.state.digests import states_digest
from millstream.state.dirty_rows import DirtyRows, RowStore, Value
from millstream.state.keyed_state import KeyedStore
from millstream.state.stored_states import States

ROWS, WIDTH = 4096, 24


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[CheckpointChain]:
    made = CheckpointChain(tmp_path)
    yield made
    made.close()


def model(rows: int = ROWS, width: int = WIDTH) -> DirtyRows:
    return DirtyRows(np.zeros((rows, width), np.float32))


def learn(store: DirtyRows, rng: np.random.Generator, rows: int | np.int64) -> None:
    indices = rng.integers(0, len(store.array), rows)
    store.array[indices, 0] += rng.random(rows).astype(np.float32)
    store.dirty[indices] = 1


def load_newest(run: Path) -> Array:
    found = read_newest(run, lambda _, states: np.asarray(states["classify"]["model/counts"]))
    assert found is not None
    return found


def links(checkpoint: Checkpoint, step: str = "classify") -> int:
    return len(checkpoint.sections[step][0])


@pytest.mark.parametrize("seed", range(4))
def test_every_checkpoint_that_is_kept_loads_the_state_that_was_written(chain: CheckpointChain, seed: int) -> None:
    """Together with plain arrays and state by key, and with snapshots between checkpoints that are not written."""
    rng = np.random.default_rng(seed)
    store, other = model(), KeyedStore()
    plain, history = np.zeros(3000), dict[int, Digest]()
    for epoch in range(60):
        learn(store, rng, rng.integers(0, 60))
        plain = plain.copy()
        plain[rng.integers(3000)] += 1
        other.put(f"key {rng.integers(50)}", b"%d" % epoch)
        if rng.random() < 0.3:
            states_digest({"classify": {"model/counts": store.snapshot()}})
            learn(store, rng, 5)
        states: States = {
            "classify": {"model/counts": store.snapshot(), "plain": plain, "names": b"x" * 3000},
            "per_key": other.snapshot(),
        }
        chain.write(epoch, states)
        history[epoch] = states_digest(states)
        learn(store, rng, 5)
        if rng.random() < 0.2:
            chain.thin()
    for number in chain.store.numbers():
        checkpoint = chain.newest(number)
        assert checkpoint.epoch == number
        assert states_digest(chain.store.states(checkpoint)) == history[number]


def test_changes_have_only_the_dirty_rows(chain: CheckpointChain) -> None:
    rng, store = np.random.default_rng(1), model()
    for epoch, rows in enumerate([0, 1, 100]):
        learn(store, rng, rows)
        dirty = int(store.dirty.sum())
        section = chain.write(epoch, {"classify": {"model/counts": store.snapshot()}}).sections["classify"][0][-1]
        size = dirty * (8 + WIDTH * 4) if epoch else store.array.nbytes
        assert size <= section.length < size + 250  # the header


def test_writing_a_checkpoint_compacts_the_store_so_the_next_snapshot_need_not(chain: CheckpointChain) -> None:
    rng = np.random.default_rng(1)
    store = RowStore(np.zeros((ROWS, WIDTH)))
    for epoch in range(5):
        indices = np.unique(rng.integers(0, ROWS, 50))
        store.put(indices, rng.random((len(indices), WIDTH)))
        chain.write(epoch, {"classify": {"model/counts": store.snapshot()}})
        assert store.updates == ()


def test_a_section_is_a_base_once_the_rows_in_changes_are_larger_than_the_last_base(chain: CheckpointChain) -> None:
    store, found = model(), []
    for epoch in range(30):
        store.dirty[epoch * 400 % 4000 :][:400] = 1  # a tenth of the rows
        found.append(links(chain.write(epoch, {"classify": {"model/counts": store.snapshot()}})))
    assert [epoch for epoch, count in enumerate(found) if count == 1] == [0, 11, 22]


def test_an_array_with_mostly_dirty_rows_is_written_completely(chain: CheckpointChain, tmp_path: Path) -> None:
    store = model()
    chain.write(0, {"classify": {"model/counts": store.snapshot(), "plain": np.zeros(9000)}})
    store.array[:] = 1
    store.dirty[:4000] = 1
    checkpoint = chain.write(1, {"classify": {"model/counts": store.snapshot(), "plain": np.zeros(9000)}})
    assert links(checkpoint) == 2 and chain.layer_sizes[1] < store.array.nbytes + 1000
    assert load_newest(tmp_path)[:, 0].sum() == 4000


def test_the_section_after_a_model_grew_is_a_base(chain: CheckpointChain, tmp_path: Path) -> None:
    rng, store, found = np.random.default_rng(2), model(), []
    for epoch in range(20):
        learn(store, rng, 20)
        if epoch in (3, 14):
            store = DirtyRows(np.pad(store.array, ((0, 0), (0, 8))))
        found.append(links(chain.write(epoch, {"classify": {"model/counts": store.snapshot()}})))
        chain.thin()
        assert np.array_equal(load_newest(tmp_path), store.array)
    assert [epoch for epoch, count in enumerate(found) if count == 1] == [0, 3, 14]


def test_a_model_without_classes_has_checkpoints_too(chain: CheckpointChain, tmp_path: Path) -> None:
    store = model(width=0)
    for epoch in range(18):
        store.dirty[epoch] = 1
        chain.write(epoch, {"classify": {"model/counts": store.snapshot(), "plain": np.zeros(9000)}})
    assert chain.store.numbers()[-1] == 17 and load_newest(tmp_path).shape == (ROWS, 0)


def test_a_value_that_becomes_another_kind_of_array_is_written_completely(
    chain: CheckpointChain, tmp_path: Path
) -> None:
    store = model()
    kinds: list[Value] = [store.snapshot(), np.array(store.array), store.snapshot(), b"x" * 100, store.snapshot()]
    for epoch, value in enumerate(kinds):
        checkpoint = chain.write(epoch, {"s": {"a": value, "plain": np.zeros(100_000)}})
        assert links(checkpoint, "s") == epoch + 1
        found = read_newest(tmp_path, lambda _, states: states["s"])
        assert found is not None and states_digest({"s": {"a": found["a"]}}) == states_digest({"s": {"a": value}})


def test_the_checkpoint_after_a_failed_one_has_all_dirty_rows(
    chain: CheckpointChain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, store = np.random.default_rng(4), model()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for epoch in range(6):
        learn(store, rng, 20)
        with monkeypatch.context() as patched:
            if epoch in (2, 3):
                patched.setattr(os, "fsync", full)
                with pytest.raises(OSError, match="the checkpoint was not written"):
                    chain.write(epoch, {"classify": {"model/counts": store.snapshot()}})
            else:
                chain.write(epoch, {"classify": {"model/counts": store.snapshot()}})
    assert chain.store.numbers() == [0, 1, 2, 3] and not list(tmp_path.glob("*/*.tmp"))
    assert np.array_equal(load_newest(tmp_path), store.array)


def test_after_a_crash_during_a_checkpoint_the_previous_one_is_loaded(chain: CheckpointChain, tmp_path: Path) -> None:
    rng, store = np.random.default_rng(5), model()
    for epoch in range(5):
        learn(store, rng, 20)
        durable = store.array.copy()
        chain.write(epoch, {"classify": {"model/counts": store.snapshot()}})
    learn(store, rng, 20)
    for _ in range(2):  # the process dies when the layer is written and has no name yet
        crashed = chain.writer.write(chain.store.next_layer(), {"classify": {"model/counts": store.snapshot()}})
        next(crashed)
        next(crashed)
    chain.close()
    assert np.array_equal(load_newest(tmp_path), durable)
    again, store, found = CheckpointChain(tmp_path), DirtyRows(load_newest(tmp_path)), []
    for epoch in range(5, 8):
        learn(store, rng, 20)
        found.append(links(again.write(epoch, {"classify": {"model/counts": store.snapshot()}})))
        again.thin()
        assert np.array_equal(load_newest(tmp_path), store.array)
    assert found == [1, 2, 3] and not list(tmp_path.glob("layers/*.tmp"))
    again.close()


def test_a_restored_store_has_the_digest_of_the_state_that_was_written(chain: CheckpointChain, tmp_path: Path) -> None:
    rng, store = np.random.default_rng(6), model()
    for epoch in range(3):
        learn(store, rng, 20)
        chain.write(epoch, {"classify": {"model/counts": store.snapshot()}})
    restored = DirtyRows(load_newest(tmp_path))
    digests = {states_digest({"s": {"a": each.snapshot()}}) for each in (store, restored)}
    assert digests == {states_digest({"s": {"a": load_newest(tmp_path)}})}
