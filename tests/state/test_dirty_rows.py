"""Arrays with dirty rows: a snapshot stays the same, and finds the rows that changed since an earlier one."""

from __future__ import annotations

import pickle
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from support.reader_threads import checked_in_a_thread

from millstream.arrays import Array
from millstream.state.digests import state_digest
from millstream.state.dirty_rows import ArraySnapshot, DirtyRows, RowStore

Rng = np.random.Generator


def write_random(store: DirtyRows, rng: Rng) -> Array:
    """Write random values to random rows, as a kernel does; the indices of the rows."""
    indices = rng.integers(0, len(store.array), rng.integers(0, 12))
    store.array[indices] = rng.random((len(indices), store.array.shape[1]))
    store.dirty[indices] = 1
    return indices


def put(store: RowStore, rng: Rng, rows: int, width: int) -> Array:
    indices = np.unique(rng.integers(0, rows, rng.integers(0, 12)))
    store.put(indices, rng.random((len(indices), width)))
    return indices


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["dirty", "put"])
def test_snapshots_stay_the_same_and_find_the_rows_that_changed_between_them(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    array = rng.random((40, 3))
    dirty, rows = DirtyRows(array.copy()), RowStore(array.copy())
    taken: list[tuple[ArraySnapshot, Array, set[int]]] = []
    """Live snapshots, the array at that moment, and the rows written to since the previous snapshot."""
    since: set[int] = set()
    for _ in range(30):
        if kind == "dirty":
            since |= set(write_random(dirty, rng).tolist())
            taken.append((dirty.snapshot(), dirty.array.copy(), since))
        else:
            indices = put(rows, rng, 40, 3)
            since |= set(indices.tolist())
            taken.append((rows.snapshot(), np.asarray(rows.snapshot()), since))
        since = set()
        if rng.random() < 0.4 and len(taken) > 1:  # drop a snapshot: its rows count for the next one
            index = int(rng.integers(len(taken) - 1))
            _, _, gone = taken.pop(index)
            taken[index] = (*taken[index][:2], taken[index][2] | gone)
    for snapshot, expected, _ in taken:
        assert np.array_equal(np.asarray(snapshot), expected)
        indices = rng.permutation(40)[:7]
        assert np.array_equal(snapshot.rows(indices), expected[indices])
    for index, (earlier, before, _) in enumerate(taken):
        between: set[int] = set()
        for later, after, more in taken[index + 1 :]:
            between |= more
            changed = later.since(earlier)
            assert changed is not None and changed.tolist() == sorted(between)
            before = before.copy()
            before[changed] = later.rows(changed)
            assert np.array_equal(before, after)
            if later is not earlier:
                assert earlier.since(later) is None


def test_a_snapshot_copies_only_the_dirty_rows() -> None:
    store = DirtyRows(np.zeros((9, 2)))
    first = store.snapshot()
    store.array[:] = 1
    store.dirty[4] = 1
    second = store.snapshot()
    assert np.asarray(second)[:, 0].tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert not store.dirty.any() and second.since(first) is not None


def test_the_changes_since_the_snapshot_of_another_store_are_unknown() -> None:
    first, other = DirtyRows(np.zeros((3, 1))).snapshot(), DirtyRows(np.zeros((3, 1))).snapshot()
    others: list[object] = [other, None, b"", np.zeros((3, 1)), {}]
    assert all(first.since(each) is None for each in others)
    since = first.since(first)
    assert since is not None and since.size == 0


def test_without_dirty_rows_the_snapshot_is_the_same_object() -> None:
    store = DirtyRows(np.zeros((3, 1)))
    first = store.snapshot()
    assert store.snapshot() is first


def test_dropped_snapshots_use_no_memory() -> None:
    store = DirtyRows(np.zeros((1000, 8)))
    kept = store.snapshot()
    for row in range(500):
        store.dirty[row] = 1
        store.snapshot()
    newest = store.snapshot()
    since = newest.since(kept)
    assert since is not None and since.tolist() == list(range(500))
    del kept
    tracemalloc.start()
    for _ in range(50):
        store.array[:] += 1
        store.dirty[:] = 1
        newest = store.snapshot()
        assert (np.asarray(newest) == store.array).all()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 3 * store.array.nbytes


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_an_array_may_be_empty(shape: tuple[int, int]) -> None:
    store = DirtyRows(np.zeros(shape, np.float32))
    first = store.snapshot()
    store.dirty[:] = 1
    second = store.snapshot()
    assert second.shape == shape and np.asarray(second).shape == shape
    assert (second.since(first) is not None) and np.array_equal(np.asarray(first), np.zeros(shape))


def test_a_snapshot_converts_to_an_array() -> None:
    store = DirtyRows(np.arange(6, dtype=np.float32).reshape(3, 2))
    snapshot = store.snapshot()
    assert (snapshot.shape, snapshot.dtype, snapshot.nbytes) == ((3, 2), np.dtype(np.float32), 24)
    mine = np.array(snapshot)
    mine[0] = 9
    assert np.asarray(snapshot)[0].tolist() == [0, 1] and np.array(snapshot, np.int64).dtype == np.int64
    with pytest.raises(ValueError, match="can be read only as a copy"):
        np.array(snapshot, copy=False)
    there = pickle.loads(pickle.dumps(snapshot))  # noqa: S301 - just written
    assert type(there) is np.ndarray and np.array_equal(there, snapshot)
    assert len(snapshot) == 3 and bytes(snapshot) == there.tobytes() and repr(snapshot) == repr(there)


def test_a_snapshot_has_the_digest_of_the_same_array() -> None:
    rng = np.random.default_rng(3)
    store = DirtyRows(rng.random((20, 4)))
    for _ in range(3):
        kept = store.snapshot()
        write_random(store, rng)
    digest, plain = state_digest({"a": kept}), np.array(kept)
    write_random(store, rng)
    newest = store.snapshot()
    assert digest == state_digest({"a": kept}) == state_digest({"a": plain}) != state_digest({"a": newest})


@pytest.mark.parametrize(
    "array", [np.zeros(3), np.zeros((3, 2)).T, np.zeros((2, 2, 2)), np.array([[None]])], ids=lambda array: array.shape
)
def test_an_array_that_has_not_two_dimensions_of_numbers_is_refused(array: Array) -> None:
    with pytest.raises(ValueError, match="rows need a C-contiguous array of numbers with two dimensions"):
        DirtyRows(array)


class ObservedArray(np.ndarray[Any, Any]):
    """An array that calls functions after it is read, and before and after it is written."""

    read: ClassVar[list[Callable[[], None]]] = []
    written: ClassVar[list[Callable[[], None]]] = []

    def copy(self, order: Any = "C") -> Any:
        made = np.array(self, order=order)
        self._call(self.read)
        return made

    def take(self, *args: Any, **kwargs: Any) -> Any:
        made = np.asarray(self).take(*args, **kwargs)
        self._call(self.read)
        return made

    def __setitem__(self, key: Any, value: Any) -> None:
        self._call(self.written)
        super().__setitem__(key, value)
        self._call(self.written)

    @staticmethod
    def _call(functions: list[Callable[[], None]]) -> None:
        if functions:
            functions.pop()()


@pytest.mark.parametrize("how", [np.asarray, lambda snapshot: snapshot.rows(np.arange(4))], ids=["all", "rows"])
def test_a_read_of_a_snapshot_is_right_if_an_update_is_moved_during_it(how: Callable[[ArraySnapshot], Array]) -> None:
    store = RowStore(np.zeros((4, 1)).view(ObservedArray))
    kept = [store.snapshot()]
    store.put(np.array([1]), np.array([[5.0]]))
    second = store.snapshot()
    later: list[ArraySnapshot] = []

    def continue_learning() -> None:
        kept.clear()
        store.put(np.array([1, 2]), np.array([[7.0], [9.0]]))
        later.append(store.snapshot())

    ObservedArray.read.append(continue_learning)
    assert how(second).ravel().tolist() == [0, 5, 0, 0]
    assert how(later[0]).ravel().tolist() == [0, 7, 9, 0]


def test_a_snapshot_can_be_read_during_a_move() -> None:
    store = RowStore(np.zeros((4, 1)).view(ObservedArray))
    first = store.snapshot()
    store.put(np.array([1]), np.array([[5.0]]))
    second = store.snapshot()
    del first
    store.put(np.array([2]), np.array([[9.0]]))
    read: list[list[float]] = []
    ObservedArray.written += [lambda: read.append(np.asarray(second).ravel().tolist())] * 2
    third = store.snapshot()
    assert read == [[0, 5, 0, 0]] * 2 and np.asarray(third).ravel().tolist() == [0, 5, 9, 0]


def test_rows_that_are_put_while_another_thread_compacts_are_not_lost() -> None:
    store = RowStore(np.zeros((4, 1)).view(ObservedArray))
    first = store.snapshot()
    store.put(np.array([1]), np.array([[5.0]]))
    second = store.snapshot()
    del first
    later: list[ArraySnapshot] = []

    def learn() -> None:
        store.put(np.array([2]), np.array([[9.0]]))
        later.append(store.snapshot())

    learner = threading.Thread(target=learn)

    def learn_during_the_move() -> None:
        learner.start()
        learner.join(0.05)  # it may wait for the move to end

    ObservedArray.written.append(learn_during_the_move)
    second.compact()
    learner.join()
    assert np.asarray(later[0]).ravel().tolist() == [0, 5, 9, 0]


def test_the_next_snapshot_does_not_move_updates_that_were_compacted_in_the_background() -> None:
    store = RowStore(np.zeros((4, 1)).view(ObservedArray))
    first = store.snapshot()
    store.put(np.array([1]), np.array([[5.0]]))
    second = store.snapshot()
    second.compact()
    left = [len(store.updates)]
    assert np.asarray(first).sum() == 0
    del first
    second.compact()
    assert [*left, len(store.updates)] == [1, 0]
    store.put(np.array([2]), np.array([[9.0]]))
    ObservedArray.written.append(lambda: pytest.fail("rows were moved"))
    third = store.snapshot()
    ObservedArray.written.clear()
    assert [np.asarray(each).ravel().tolist() for each in (second, third)] == [[0, 5, 0, 0], [0, 5, 9, 0]]


def test_another_thread_reads_a_snapshot_while_the_store_is_written() -> None:
    store, rng = DirtyRows(np.zeros((3000, 8))), np.random.default_rng(1)

    def wrong(earlier: ArraySnapshot, later: ArraySnapshot, before: Array, after: Array) -> str | None:
        changed = later.since(earlier)
        later.compact()
        if changed is None or not np.array_equal(np.asarray(later), after):
            return "a snapshot changed"
        before[changed] = later.rows(changed)
        return None if np.array_equal(before, after) else "a changed row is missing"

    with checked_in_a_thread(wrong) as check:
        earlier, before = store.snapshot(), store.array.copy()
        for _ in range(300):
            indices = rng.integers(0, 3000, 500)
            store.array[indices] += 1
            store.dirty[indices] = 1
            later, after = store.snapshot(), store.array.copy()
            check(earlier, later, before.copy(), after)
            earlier, before = later, after
