"""Checkpoints of state by key: the changed keys are written, and all keys are loaded."""

from __future__ import annotations

import errno
import os
import pickle
import random
from pathlib import Path

import numpy as np
import pytest

from millstream.errors import AlteredLog
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.checkpoint_file import StoredSnapshot
from millstream.state.checkpoints import CheckpointStore, States, read_newest
from millstream.state.digests import states_digest
from millstream.state.keyed_state import Entries, KeyedSnapshot, KeyedStore
from millstream.state.rocksdb_state import Rocks


def load_newest(folder: Path, step: str = "per_key") -> dict[str, bytes]:
    """The state of a step in the newest checkpoint."""
    found = read_newest(folder, lambda _, states: states[step])
    assert isinstance(found, StoredSnapshot)
    return found.to_dict()


def fill(keys: int, store: KeyedStore | None = None) -> KeyedStore:
    store = store or KeyedStore()
    for key in range(keys):
        store.put(f"key {key}", b"%d" % key)
    return store


def test_a_delta_has_the_changed_keys_and_loads_with_all_keys(tmp_path: Path) -> None:
    dice = random.Random(5)
    checkpoints, store = CheckpointStore(tmp_path, {}), fill(5000)
    other = fill(3)
    history: list[dict[str, bytes]] = []
    for epoch in range(40):
        for _ in range(5):
            store.put(f"key {dice.randrange(5000)}", None if dice.random() < 0.2 else b"of epoch %d" % epoch)
        states: States = {"per_key": store.snapshot(), "other": other.snapshot(), "s": {"a": np.full(2, epoch)}}
        checkpoints.write(epoch, AppliedEpochs([[0, epoch + 1]]), states)
        history.append(store.snapshot().to_dict())
    sizes = [path.stat().st_size for path in sorted(tmp_path.glob("*.checkpoint"))]
    assert sizes[0] > 75_000 and max(sizes[1:]) < 5_000
    again = CheckpointStore(tmp_path, {})
    for epoch in range(40):
        checkpoint = again.newest(epoch)
        assert checkpoint is not None
        states = again.load(checkpoint)
        assert dict(states["per_key"]) == history[epoch]
        assert dict(states["other"]) == {"key 0": b"0", "key 1": b"1", "key 2": b"2"}
        assert np.array_equal(states["s"]["a"], [epoch, epoch])


def test_the_checkpoint_after_a_failed_one_and_after_other_snapshots_has_all_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints, store = CheckpointStore(tmp_path, {}), fill(1000)
    checkpoints.write(0, AppliedEpochs([[0, 1]]), {"per_key": store.snapshot()})
    store.put("key 1", b"unsaved")
    states_digest({"per_key": store.snapshot()})
    store.put("key 2", b"failed")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="the checkpoint was not written"):
            checkpoints.write(1, AppliedEpochs([[0, 2]]), {"per_key": store.snapshot()})
    store.put("key 3", None)
    assert checkpoints.write(2, AppliedEpochs([[0, 3]]), {"per_key": store.snapshot()}).base == 0
    expected = {f"key {key}": b"%d" % key for key in range(1000)} | {"key 1": b"unsaved", "key 2": b"failed"}
    del expected["key 3"]
    assert load_newest(tmp_path) == expected


def test_the_checkpoint_of_a_state_with_unknown_changes_is_full(tmp_path: Path) -> None:
    checkpoints, store = CheckpointStore(tmp_path, {}), fill(100)
    checkpoints.write(0, AppliedEpochs([[0, 1]]), {"per_key": store.snapshot(), "s": {"a": np.zeros(9)}})
    store.restore({"ann": b"1"})
    assert (
        checkpoints.write(1, AppliedEpochs([[0, 2]]), {"per_key": store.snapshot(), "s": {"a": np.zeros(9)}}).base
        is None
    )
    assert load_newest(tmp_path) == {"ann": b"1"}
    assert (
        checkpoints.write(2, AppliedEpochs([[0, 3]]), {"per_key": store.snapshot(), "s": {"a": np.zeros(9)}}).base == 1
    )


def test_a_checkpoint_is_full_once_the_changed_keys_are_larger_than_the_last_full_one(tmp_path: Path) -> None:
    checkpoints, store = CheckpointStore(tmp_path, {}), fill(1000)
    full = 0
    for epoch in range(200):
        for key in range(100):
            store.put(f"key {(epoch * 100 + key) % 1000}", b"%d" % epoch)
        full += checkpoints.write(epoch, AppliedEpochs([[0, epoch + 1]]), {"per_key": store.snapshot()}).base is None
        checkpoints.drop_before(checkpoints.numbers()[-1])
        assert len(checkpoints.numbers()) < 32
    assert 10 < full < 25  # each epoch changes a tenth of the keys
    assert load_newest(tmp_path) == store.snapshot().to_dict()


def test_a_store_in_memory_or_in_rocksdb_is_restored_from_a_checkpoint(tmp_path: Path) -> None:
    checkpoints, store = CheckpointStore(tmp_path, {}), fill(10_000)
    for epoch in range(20):
        store.put(f"key {epoch}", None)
        checkpoints.write(epoch, AppliedEpochs([[0, epoch + 1]]), {"per_key": store.snapshot()})
    expected = store.snapshot()
    for again in (KeyedStore(), KeyedStore(Rocks)):
        state = read_newest(tmp_path, lambda _, states: states["per_key"])
        assert isinstance(state, KeyedSnapshot)
        again.restore(state)
        assert again.snapshot().to_dict() == expected.to_dict()
        assert states_digest({"per_key": again.snapshot()}) == states_digest({"per_key": state})


def test_a_loaded_state_is_sent_to_another_process_as_file_names(tmp_path: Path) -> None:
    CheckpointStore(tmp_path, {}).write(0, AppliedEpochs([[0, 1]]), {"per_key": fill(10_000).snapshot()})
    state = read_newest(tmp_path, lambda _, states: states["per_key"])
    assert state is not None and len(state) == 10_000
    sent = pickle.dumps(state)
    assert len(sent) < 1_000 and dict(pickle.loads(sent)) == dict(state)  # noqa: S301 - just written


def test_the_delta_of_a_step_with_a_dict_has_the_changed_keys(tmp_path: Path) -> None:
    checkpoints, counts = CheckpointStore(tmp_path, {}), {f"key {key}": b"0" for key in range(1000)}
    for epoch in range(5):
        counts[f"key {epoch}"] = b"%d" % epoch
        checkpoints.write(epoch, AppliedEpochs([[0, epoch + 1]]), {"counting": Entries(counts)})
    sizes = [path.stat().st_size for path in sorted(tmp_path.glob("*.checkpoint"))]
    assert sizes[0] > 10_000 and max(sizes[1:]) < 500
    assert load_newest(tmp_path, "counting") == counts


def alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-60] ^= 1
    path.write_bytes(content)


def test_an_altered_checkpoint_is_refused_and_not_merged_into_another(tmp_path: Path) -> None:
    checkpoints, store = CheckpointStore(tmp_path, {}), fill(2000)
    for epoch in range(14):
        store.put("ann", b"%d" % epoch)
        checkpoints.write(epoch, AppliedEpochs([[0, epoch + 1]]), {"per_key": store.snapshot()})
    alter(tmp_path / "0000000005.checkpoint")
    with pytest.raises(AlteredLog, match=r"0000000005.checkpoint was altered"):
        load_newest(tmp_path)
    checkpoints.write(14, AppliedEpochs([[0, 15]]), {"per_key": store.snapshot()})
    checkpoints.write(15, AppliedEpochs([[0, 16]]), {"per_key": store.snapshot()})
    with pytest.raises(AlteredLog, match=r"0000000005.checkpoint was altered"):
        checkpoints.write(16, AppliedEpochs([[0, 17]]), {"per_key": store.snapshot()})
