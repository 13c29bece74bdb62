"""State by key: a snapshot stays the same, and finds the keys that changed since an earlier one."""

from __future__ import annotations

import pickle
import random
from collections.abc import Mapping

import pytest
from support.reader_threads import checked_in_a_thread

from millstream.state.digests import state_digest
from millstream.state.keyed_state import Entries, KeyedSnapshot, KeyedStore, Storage, in_memory, merge_parts
from millstream.state.rocksdb_state import in_rocksdb
from millstream.state.shards import SHARDS, shard_of

storages = pytest.mark.parametrize("make", [in_memory, in_rocksdb])


def write_random(store: KeyedStore, dice: random.Random, model: dict[str, bytes], times: int) -> None:
    """Put and delete random keys, in the store and in a dict."""
    for _ in range(times):
        key = f"key-ü{dice.randrange(40)}"
        if dice.random() < 0.3:
            store.put(key, None)
            model.pop(key, None)
        else:
            model[key] = str(dice.randrange(1000)).encode()
            store.put(key, model[key])


def apply(before: Mapping[str, bytes], changed: Mapping[str, bytes | None]) -> dict[str, bytes]:
    """The state after the changes."""
    return {key: value for key, value in {**before, **changed}.items() if value is not None}


@storages
@pytest.mark.parametrize("seed", range(4))
def test_snapshots_stay_the_same_and_find_the_keys_that_changed_between_them(make: Storage, seed: int) -> None:
    dice = random.Random(seed)
    store, model = KeyedStore(make), dict[str, bytes]()
    taken: list[tuple[KeyedSnapshot, dict[str, bytes]]] = []
    for _ in range(12):
        write_random(store, dice, model, dice.randrange(30))
        taken.append((store.snapshot(), dict(model)))
        if dice.random() < 0.3:
            del taken[dice.randrange(len(taken))]
    for snapshot, expected in taken:
        assert snapshot.to_dict() == expected == dict(snapshot)
        assert list(snapshot.in_order()) == sorted(expected.items())
        assert {key: snapshot.get(key) for key in expected} == expected
        assert snapshot.get("key of nobody") is None
    for index, (earlier, before) in enumerate(taken):
        for later, after in taken[index:]:
            changed = later.since(earlier)
            assert changed is not None
            assert apply(before, changed) == after


@storages
def test_the_snapshot_of_a_shard_is_the_same_object_until_a_key_is_written(make: Storage) -> None:
    store = KeyedStore(make)
    store.put("a", b"1")
    first = store.snapshot()
    store.put("a", b"2")
    second = store.snapshot()
    changed = [one is not other for one, other in zip(first.by_shard, second.by_shard, strict=True)]
    assert changed.index(True) == shard_of("a", SHARDS) and sum(changed) == 1
    assert second.since(first) == {"a": b"2"}
    assert first.since(second) is None  # not an earlier one
    assert first.since({}) is None and first.since(None) is None


@storages
def test_a_key_that_is_deleted_and_put_again_has_its_new_value(make: Storage) -> None:
    store = KeyedStore(make)
    store.put("a", b"1")
    first = store.snapshot()
    store.put("a", None)
    gone = store.snapshot()
    store.put("a", b"1")
    assert gone.since(first) == {"a": None} and store.snapshot().since(gone) == {"a": b"1"}
    assert (first.to_dict(), gone.to_dict()) == ({"a": b"1"}, {})


@storages
def test_a_store_is_restored_from_any_state_and_its_snapshots_stay_the_same(make: Storage) -> None:
    store = KeyedStore(make)
    store.put("a", b"1")
    first = store.snapshot()
    store.put("a", b"2")
    store.put("b", b"2")
    store.restore(first)
    assert store.snapshot().to_dict() == {"a": b"1"}
    store.put("a", b"3")
    assert first.to_dict() == {"a": b"1"}
    assert store.snapshot().since(first) is None  # `first` is from before the restore
    store.restore({"c": b"9"})
    assert store.snapshot().to_dict() == {"c": b"9"}
    store.restore({})
    assert store.snapshot().to_dict() == {} and store.get("c") is None


@storages
def test_a_snapshot_has_the_digest_of_the_same_keys_in_a_dict(make: Storage) -> None:
    store, model = KeyedStore(make), dict[str, bytes]()
    write_random(store, random.Random(9), model, 200)
    store.snapshot()
    snapshot = store.snapshot()
    digest = state_digest(model)
    write_random(store, random.Random(10), {}, 50)
    assert state_digest(snapshot) == digest == state_digest(Entries(model))


@storages
def test_a_snapshot_is_sent_to_another_process_as_its_entries(make: Storage) -> None:
    store, model = KeyedStore(make), dict[str, bytes]()
    write_random(store, random.Random(3), model, 50)
    there = pickle.loads(pickle.dumps(store.snapshot()))  # noqa: S301 - just written
    assert isinstance(there, Entries) and there.to_dict() == model


@storages
def test_another_thread_reads_a_snapshot_while_the_store_is_written(make: Storage) -> None:
    store, model = KeyedStore(make), dict[str, bytes]()
    dice = random.Random(1)
    write_random(store, dice, model, 200)

    def wrong(
        earlier: KeyedSnapshot, later: KeyedSnapshot, before: dict[str, bytes], after: dict[str, bytes]
    ) -> str | None:
        changed = later.since(earlier)
        same = later.to_dict() == after and changed is not None and apply(before, changed) == after
        return None if same else "a snapshot changed"

    with checked_in_a_thread(wrong) as check:
        earlier, before = store.snapshot(), dict(model)
        for _ in range(300):
            write_random(store, dice, model, 20)
            later, after = store.snapshot(), dict(model)
            check(earlier, later, before, after)
            earlier, before = later, after


def test_entries_compare_all_keys() -> None:
    one, other = Entries({"a": b"1", "b": b"1"}), Entries({"a": b"2", "c": b"1"})
    assert other.since(one) == {"a": b"2", "c": b"1", "b": None}
    assert other.since({"a": b"1"}) is None
    assert merge_parts([one, other.since(one) or {}]) == other.to_dict()
