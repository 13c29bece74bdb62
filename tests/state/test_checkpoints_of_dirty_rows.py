"""Checkpoints of arrays with dirty rows: the dirty rows are written, and the whole array is loaded."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from millstream.arrays import Array
from millstream.digests import Digest
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.checkpoint_writer import CheckpointWriter
from millstream.state.checkpoints import CheckpointStore, States, read_newest
from millstream.state.digests import states_digest
from millstream.state.dirty_rows import DirtyRows, RowStore, Value
from millstream.state.keyed_state import KeyedStore

ROWS, WIDTH = 4096, 24


def store_of(folder: Path) -> CheckpointStore:
    return CheckpointStore(folder, {"numpy": np.__version__})


def model(rows: int = ROWS, width: int = WIDTH) -> DirtyRows:
    return DirtyRows(np.zeros((rows, width), np.float32))


def learn(store: DirtyRows, rng: np.random.Generator, rows: int | np.int64) -> None:
    indices = rng.integers(0, len(store.array), rows)
    store.array[indices, 0] += rng.random(rows).astype(np.float32)
    store.dirty[indices] = 1


def load_newest(folder: Path) -> Array:
    states = read_newest(folder, lambda _, states: states)
    assert states is not None
    return np.asarray(states["classify"]["model/counts"])


@pytest.mark.parametrize("seed", range(4))
def test_every_checkpoint_that_is_not_dropped_loads_the_state_that_was_written(tmp_path: Path, seed: int) -> None:
    """Together with plain arrays and state by key, and with snapshots between checkpoints that are not written."""
    rng = np.random.default_rng(seed)
    checkpoints, store, other = store_of(tmp_path), model(), KeyedStore()
    plain, history, bases = np.zeros(3000), dict[int, Digest](), list[int | None]()
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
        bases.append(checkpoints.write(epoch, AppliedEpochs([[0, epoch + 1]]), states).base)
        history[epoch] = states_digest(states)
        learn(store, rng, 5)
        if rng.random() < 0.2:
            checkpoints.drop_before(checkpoints.numbers()[-1])
    assert bases[16] == 0 and bases[17] == 16 and bases[48] == 32
    again = store_of(tmp_path)
    for number in again.numbers():
        checkpoint = again.newest(number)
        assert checkpoint is not None and checkpoint.epoch == number
        assert states_digest(again.load(checkpoint)) == history[number]


def test_a_delta_has_only_the_dirty_rows(tmp_path: Path) -> None:
    rng, checkpoints, store = np.random.default_rng(1), store_of(tmp_path), model()
    sizes = []
    for epoch, rows in enumerate([0, 0, 1, 100]):
        learn(store, rng, rows)
        dirty = int(store.dirty.sum())
        checkpoint = checkpoints.write(
            epoch, AppliedEpochs([[0, epoch + 1]]), {"classify": {"model/counts": store.snapshot()}}
        )
        sizes.append((checkpoints.size(checkpoint) or 0) - (dirty * (8 + WIDTH * 4) if epoch else store.array.nbytes))
    assert max(sizes) < 500  # manifest and digest


def test_writing_a_checkpoint_compacts_the_store_so_the_next_snapshot_need_not(tmp_path: Path) -> None:
    rng, checkpoints = np.random.default_rng(1), store_of(tmp_path)
    store = RowStore(np.zeros((ROWS, WIDTH)))
    for epoch in range(5):
        indices = np.unique(rng.integers(0, ROWS, 50))
        store.put(indices, rng.random((len(indices), WIDTH)))
        snapshot = store.snapshot()
        checkpoints.write(epoch, AppliedEpochs([[0, epoch + 1]]), {"classify": {"model/counts": snapshot}})
        assert store.updates == ()


def test_a_checkpoint_is_full_once_the_rows_in_deltas_are_larger_than_the_last_full_one(tmp_path: Path) -> None:
    checkpoints, store = store_of(tmp_path), model()
    bases = []
    for epoch in range(30):
        store.dirty[epoch * 400 % 4000 :][:400] = 1  # a tenth of the rows
        bases.append(
            checkpoints.write(
                epoch, AppliedEpochs([[0, epoch + 1]]), {"classify": {"model/counts": store.snapshot()}}
            ).base
        )
    assert [epoch for epoch, base in enumerate(bases) if base is None] == [0, 11, 22]


def test_an_array_with_mostly_dirty_rows_is_written_completely(tmp_path: Path) -> None:
    checkpoints, store = store_of(tmp_path), model()
    checkpoints.write(
        0, AppliedEpochs([[0, 1]]), {"classify": {"model/counts": store.snapshot(), "plain": np.zeros(9000)}}
    )
    store.array[:] = 1
    store.dirty[:4000] = 1
    checkpoint = checkpoints.write(
        1, AppliedEpochs([[0, 2]]), {"classify": {"model/counts": store.snapshot(), "plain": np.zeros(9000)}}
    )
    assert checkpoint.base == 0 and (checkpoints.size(checkpoint) or 0) < store.array.nbytes + 1000
    assert load_newest(tmp_path)[:, 0].sum() == 4000


def test_the_checkpoint_after_a_model_grew_is_full(tmp_path: Path) -> None:
    rng, checkpoints, store = np.random.default_rng(2), store_of(tmp_path), model()
    bases = []
    for epoch in range(20):
        learn(store, rng, 20)
        if epoch in (3, 14):
            store = DirtyRows(np.pad(store.array, ((0, 0), (0, 8))))
        bases.append(
            checkpoints.write(
                epoch, AppliedEpochs([[0, epoch + 1]]), {"classify": {"model/counts": store.snapshot()}}
            ).base
        )
        checkpoints.drop_before(checkpoints.numbers()[-1])
        assert np.array_equal(load_newest(tmp_path), store.array)
    assert [epoch for epoch, base in enumerate(bases) if base is None] == [0, 3, 14]


def test_a_model_without_classes_has_checkpoints_too(tmp_path: Path) -> None:
    checkpoints, store = store_of(tmp_path), model(width=0)
    for epoch in range(18):
        store.dirty[epoch] = 1
        checkpoints.write(
            epoch,
            AppliedEpochs([[0, epoch + 1]]),
            {"classify": {"model/counts": store.snapshot(), "plain": np.zeros(9000)}},
        )
    assert checkpoints.numbers()[-1] == 17 and load_newest(tmp_path).shape == (ROWS, 0)


def test_a_value_that_becomes_another_kind_of_array_is_written_completely(tmp_path: Path) -> None:
    checkpoints, store = store_of(tmp_path), model()
    kinds: list[Value] = [store.snapshot(), np.array(store.array), store.snapshot(), b"x" * 100, store.snapshot()]
    for epoch, value in enumerate(kinds):
        checkpoint = checkpoints.write(
            epoch, AppliedEpochs([[0, epoch + 1]]), {"s": {"a": value, "plain": np.zeros(100_000)}}
        )
        assert checkpoint.base == (epoch - 1 if epoch else None)
        found = read_newest(tmp_path, lambda _, states: states["s"])
        assert found is not None and states_digest({"s": {"a": found["a"]}}) == states_digest({"s": {"a": value}})


def test_the_checkpoint_after_a_failed_one_has_all_dirty_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, checkpoints, store = np.random.default_rng(4), store_of(tmp_path), model()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    writer = CheckpointWriter(checkpoints, lambda checkpoint: None)
    for epoch in range(6):
        learn(store, rng, 20)
        with monkeypatch.context() as patched:
            if epoch in (2, 3):
                patched.setattr(os, "fsync", full)
            writer.start(epoch, AppliedEpochs([[0, epoch + 1]]), {"classify": {"model/counts": store.snapshot()}})
            learn(store, rng, 20)
            if epoch in (2, 3):
                with pytest.raises(OSError, match="the checkpoint was not written"):
                    writer.wait()
            else:
                writer.wait()
    assert checkpoints.numbers() == [0, 1, 2, 3] and not list(tmp_path.glob("*.tmp"))
    writer.start(6, AppliedEpochs([[0, 7]]), {"classify": {"model/counts": store.snapshot()}})
    writer.wait()
    assert np.array_equal(load_newest(tmp_path), store.array)


def test_after_a_crash_during_a_checkpoint_the_previous_one_is_loaded(tmp_path: Path) -> None:
    rng, checkpoints, store = np.random.default_rng(5), store_of(tmp_path), model()
    for epoch in range(5):
        learn(store, rng, 20)
        checkpoints.write(epoch, AppliedEpochs([[0, epoch + 1]]), {"classify": {"model/counts": store.snapshot()}})
        if epoch == 3:
            durable = store.array.copy()
    torn = tmp_path / "0000000004.checkpoint"
    torn.write_bytes(torn.read_bytes()[:1000])
    torn.rename(torn.with_suffix(".tmp"))
    again = store_of(tmp_path)
    assert np.array_equal(load_newest(tmp_path), durable)
    store = DirtyRows(load_newest(tmp_path))
    bases = []
    for epoch in range(4, 8):
        learn(store, rng, 20)
        bases.append(
            again.write(epoch, AppliedEpochs([[0, epoch + 1]]), {"classify": {"model/counts": store.snapshot()}}).base
        )
        again.drop_before(again.numbers()[-1])
        assert np.array_equal(load_newest(tmp_path), store.array)
    assert bases == [None, 4, 5, 6] and again.numbers() == [4, 5, 6, 7]


def test_a_restored_store_has_the_digest_of_the_state_that_was_written(tmp_path: Path) -> None:
    rng, checkpoints, store = np.random.default_rng(6), store_of(tmp_path), model()
    for epoch in range(3):
        learn(store, rng, 20)
        checkpoints.write(epoch, AppliedEpochs([[0, epoch + 1]]), {"classify": {"model/counts": store.snapshot()}})
    restored = DirtyRows(load_newest(tmp_path))
    digests = {states_digest({"s": {"a": each.snapshot()}}) for each in (store, restored)}
    assert digests == {states_digest({"s": {"a": load_newest(tmp_path)}})}
