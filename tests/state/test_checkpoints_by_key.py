"""Checkpoints of state by key: the changed keys are written, and each shard is saved and loaded alone."""

from __future__ import annotations

import errno
import os
import pickle
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from support.checkpoint_chain import CheckpointChain

from millstream.errors import AlteredLog
from millstream.state.checkpoints import read_newest
from millstream.state.digests import states_digest
from millstream.state.keyed_state import Entries, KeyedSnapshot, KeyedStore, Memory, ShardedSnapshot, in_memory
from millstream.state.layers import Layer, Sections
from millstream.state.rocksdb_state import in_rocksdb
from millstream.state.shards import SHARDS, shard_of
from millstream.state.stored_states import States, StoredStates


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[CheckpointChain]:
    made = CheckpointChain(tmp_path)
    yield made
    made.close()


def newest_of(run: Path, step: str = "per_key") -> dict[str, bytes]:
    """The state of a step in the newest checkpoint."""
    found = read_newest(run, lambda _, states: states[step])
    assert isinstance(found, ShardedSnapshot)
    return found.to_dict()


def fill(keys: int, store: KeyedStore | None = None) -> KeyedStore:
    store = store or KeyedStore()
    for key in range(keys):
        store.put(f"key {key}", b"%d" % key)
    return store


def links(sections: Sections, step: str = "per_key") -> dict[int, int]:
    """The number of sections of each shard."""
    return {shard: len(chain) for shard, chain in sections[step].items()}


def test_changes_have_the_changed_keys_and_load_with_all_keys(chain: CheckpointChain) -> None:
    dice = random.Random(5)
    store, other = fill(5000), fill(3)
    history: list[dict[str, bytes]] = []
    for epoch in range(40):
        for _ in range(5):
            store.put(f"key {dice.randrange(5000)}", None if dice.random() < 0.2 else b"of epoch %d" % epoch)
        states: States = {"per_key": store.snapshot(), "other": other.snapshot(), "s": {"a": np.full(2, epoch)}}
        chain.write(epoch, states)
        history.append(store.snapshot().to_dict())
    assert chain.layer_sizes[0] > 75_000 and max(chain.layer_sizes[1:]) < 5_000
    for epoch in range(40):
        states = chain.store.states(chain.newest(epoch))
        assert states["per_key"] == history[epoch]
        assert states["other"] == {"key 0": b"0", "key 1": b"1", "key 2": b"2"}
        assert np.array_equal(np.asarray(states["s"]["a"]), [epoch, epoch])


def test_only_shards_with_changes_get_a_section(chain: CheckpointChain) -> None:
    store = fill(5000)
    assert links(chain.write(0, {"per_key": store.snapshot()}).sections) == dict.fromkeys(range(SHARDS), 1)
    store.put("ann", b"1")
    found = links(chain.write(1, {"per_key": store.snapshot()}).sections)
    assert [shard for shard, count in found.items() if count == 2] == [shard_of("ann", SHARDS)]


def test_a_shard_without_keys_has_no_section(chain: CheckpointChain) -> None:
    store = KeyedStore()
    store.put("ann", b"1")
    store.put("bob", b"1")
    store.put("bob", None)
    checkpoint = chain.write(0, {"per_key": store.snapshot()})
    assert list(checkpoint.sections["per_key"]) == [shard_of("ann", SHARDS)]
    assert chain.store.states(checkpoint)["per_key"] == {"ann": b"1"}


class CountedMemory(Memory):
    """A shard in memory, which counts how often it is read."""

    def __init__(self, shard: int, read: Counter[int]) -> None:
        super().__init__()
        self._shard, self._read = shard, read
        get = self.get

        def counted(key: str) -> bytes | None:
            read[shard] += 1
            return get(key)

        self.get = counted

    def put(self, key: str, value: bytes | None) -> None:
        self._read[self._shard] += 1
        super().put(key, value)

    def put_all(self, part: Mapping[str, bytes | None]) -> None:
        self._read[self._shard] += 1
        super().put_all(part)

    def entries(self) -> Iterator[tuple[str, bytes]]:
        self._read[self._shard] += 1
        return super().entries()


def test_saving_the_changes_of_a_shard_touches_no_other_shard(chain: CheckpointChain) -> None:
    touched: Counter[int] = Counter()
    store = fill(5000, KeyedStore(lambda shards: [CountedMemory(shard, touched) for shard in range(shards)]))
    chain.write(0, {"per_key": store.snapshot()})
    touched.clear()
    store.put("ann", b"1")
    store.put("ann", b"2")
    chain.write(1, {"per_key": store.snapshot()})
    assert set(touched) == {shard_of("ann", SHARDS)}


def test_loading_a_shard_reads_no_byte_of_another_one(
    chain: CheckpointChain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = fill(5000)
    for epoch in range(20):
        store.put(f"key {epoch}", b"of epoch %d" % epoch)
        chain.write(epoch, {"per_key": store.snapshot(), "s": {"a": np.arange(epoch)}})
    newest = chain.newest()
    read: list[tuple[str, int, int]] = []
    pread = os.pread

    def watched(handle: int, size: int, offset: int) -> bytes:
        read.append((Path(os.readlink(f"/proc/self/fd/{handle}")).name, offset, offset + size))
        return pread(handle, size, offset)

    monkeypatch.setattr(os, "pread", watched)
    touched: Counter[int] = Counter()
    seventh = KeyedStore(lambda shards: [CountedMemory(shard, touched) for shard in range(shards)])
    seventh.restore(chain.store.states(newest).owned(lambda shard: shard == 7, {"per_key"})["per_key"])
    expected = {key: value for key, value in store.snapshot().items() if shard_of(key, SHARDS) == 7}
    assert set(touched) == {7} and len(expected) > 50 and seventh.snapshot().to_dict() == expected
    foreign = [
        section
        for step, shards in newest.sections.items()
        for shard, sections in shards.items()
        for section in sections
        if (step, shard) != ("per_key", 7)
    ]
    for file, start, stop in read:
        for section in foreign:
            assert file != section.file or stop <= section.offset or start >= section.offset + section.length
    assert read


@pytest.mark.parametrize("readers", [1, 3, 5])
def test_owners_share_all_sections_between_them(chain: CheckpointChain, readers: int) -> None:
    store = fill(500)
    states = chain.store.states(chain.write(0, {"per_key": store.snapshot(), "s": {"a": np.zeros(3)}}))
    merged: dict[str, bytes] = {}
    for index in range(readers):
        own = states.owned(lambda shard, index=index: shard % readers == index, {"per_key"})  # type: ignore[misc]
        again = KeyedStore()
        again.restore(own["per_key"])
        assert not merged.keys() & again.snapshot().keys()
        merged.update(again.snapshot().to_dict())
    assert merged == store.snapshot().to_dict()


def test_the_checkpoint_after_a_failed_one_and_after_other_snapshots_has_all_changes(
    chain: CheckpointChain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fill(1000)
    chain.write(0, {"per_key": store.snapshot()})
    store.put("key 1", b"unsaved")
    states_digest({"per_key": store.snapshot()})
    store.put("key 2", b"failed")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="the checkpoint was not written"):
            chain.write(1, {"per_key": store.snapshot()})
    store.put("key 3", None)
    found = links(chain.write(2, {"per_key": store.snapshot()}).sections)
    assert {shard for shard, count in found.items() if count == 2} == {
        shard_of(f"key {key}", SHARDS) for key in (1, 2, 3)
    }
    expected = {f"key {key}": b"%d" % key for key in range(1000)} | {"key 1": b"unsaved", "key 2": b"failed"}
    del expected["key 3"]
    assert newest_of(tmp_path) == expected


def test_the_sections_of_a_state_with_unknown_changes_are_bases(chain: CheckpointChain, tmp_path: Path) -> None:
    store = fill(100)
    chain.write(0, {"per_key": store.snapshot(), "s": {"a": np.zeros(9)}})
    store.restore({"ann": b"1"})
    found = links(chain.write(1, {"per_key": store.snapshot(), "s": {"a": np.zeros(9)}}).sections)
    assert set(found.values()) == {1}
    assert newest_of(tmp_path) == {"ann": b"1"}


def test_a_section_is_a_base_once_the_changed_keys_are_larger_than_the_last_base(
    chain: CheckpointChain, tmp_path: Path
) -> None:
    store, bases = fill(1000), 0
    for epoch in range(100):
        for key in range(100):
            store.put(f"key {(epoch * 100 + key) % 1000}", b"%d" % epoch)
        found = links(chain.write(epoch, {"per_key": store.snapshot()}).sections)
        bases += sum(count == 1 for count in found.values())
        chain.thin()
        assert max(found.values()) < 32
    assert 5 < bases / SHARDS < 20  # each epoch changes a tenth of the keys
    assert newest_of(tmp_path) == store.snapshot().to_dict()


def test_a_store_in_memory_or_in_rocksdb_is_restored_from_a_checkpoint(chain: CheckpointChain, tmp_path: Path) -> None:
    store = fill(10_000)
    for epoch in range(20):
        store.put(f"key {epoch}", None)
        chain.write(epoch, {"per_key": store.snapshot()})
    expected = store.snapshot()
    for again in (KeyedStore(in_memory), KeyedStore(in_rocksdb)):
        state = read_newest(tmp_path, lambda _, states: states["per_key"])
        assert isinstance(state, KeyedSnapshot)
        again.restore(state)
        assert again.snapshot().to_dict() == expected.to_dict()
        assert states_digest({"per_key": again.snapshot()}) == states_digest({"per_key": state})


def test_the_number_of_shards_is_that_of_the_checkpoint(tmp_path: Path) -> None:
    chain, store = CheckpointChain(tmp_path, shards=5), KeyedStore()
    store.restore(chain.store.newest_states(None)["per_key"])
    fill(100, store)
    chain.write(0, {"per_key": store.snapshot()})
    again = KeyedStore()
    state = read_newest(tmp_path, lambda _, states: states["per_key"])
    assert state is not None
    again.restore(state)
    assert len(again.snapshot().by_shard) == 5 and again.snapshot() == store.snapshot()
    chain.close()


def test_states_are_sent_to_another_process_as_names_of_sections(chain: CheckpointChain) -> None:
    states = chain.store.states(chain.write(0, {"per_key": fill(10_000).snapshot()}))
    sent = pickle.dumps(states)
    there: StoredStates = pickle.loads(sent)  # noqa: S301 - just written
    assert len(sent) < 10_000 and there["per_key"] == states["per_key"] and len(there["per_key"]) == 10_000


@pytest.mark.parametrize("make", [Entries, dict], ids=["entries", "dict"])
def test_the_state_of_a_step_that_holds_a_dict_is_divided_too(
    tmp_path: Path, make: Callable[[Mapping[str, bytes]], Mapping[str, bytes]]
) -> None:
    chain, counts = CheckpointChain(tmp_path, keyed={"counting"}), {f"key {key}": b"0" for key in range(1000)}
    for epoch in range(5):
        counts[f"key {epoch}"] = b"%d" % epoch
        del counts[f"key {500 + epoch}"]
        sections = chain.write(epoch, {"counting": make(counts)}).sections
    assert len(sections["counting"]) == SHARDS
    found = read_newest(tmp_path, lambda _, states: dict(states["counting"]))
    assert found == counts
    chain.close()


def test_an_altered_layer_is_refused_and_not_merged_into_another(chain: CheckpointChain, tmp_path: Path) -> None:
    store = fill(2000)
    for epoch in range(14):
        store.put("ann", b"%d" % epoch)
        checkpoint = chain.write(epoch, {"per_key": store.snapshot()})
    section = checkpoint.sections["per_key"][shard_of("ann", SHARDS)][5]
    path = tmp_path / "layers" / section.file
    content = bytearray(path.read_bytes())
    content[section.offset + 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(AlteredLog, match=rf"{section.file} was altered"):
        newest_of(tmp_path)
    for epoch in (14, 15):
        store.put("ann", b"%d" % epoch)
        chain.write(epoch, {"per_key": store.snapshot()})
    store.put("ann", b"16")
    with pytest.raises(AlteredLog, match=rf"{section.file} was altered"):
        chain.write(16, {"per_key": store.snapshot()})


def test_a_section_of_another_shard_is_refused(chain: CheckpointChain, tmp_path: Path) -> None:
    """For example by a manifest with a defect, whose digest is right."""
    checkpoint = chain.write(0, {"per_key": fill(1000).snapshot()})
    chains = checkpoint.sections["per_key"]
    with Layer(tmp_path / "layers" / chains[7][0].file) as layer, pytest.raises(AlteredLog, match="shard 7"):
        list(layer.keys("per_key", 7, chains[8][0]))
