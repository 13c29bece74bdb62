"""Checkpoints are atomic, small if little has changed, and load as they were written."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.checkpoint_chain import CheckpointChain

from millstream.errors import AlteredLog, UnknownFormat
from millstream.log.epochs import Totals
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.background import ThreadedBackground, finish
from millstream.state.checkpoints import Checkpoint, CheckpointReader, CheckpointStore, read_newest
from millstream.state.savepoints import Savepoint
from millstream.state.stored_states import States


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[CheckpointChain]:
    made = CheckpointChain(tmp_path)
    yield made
    made.close()


def both(checkpoint: Checkpoint, states: States) -> tuple[Checkpoint, States]:
    return checkpoint, states


def links(checkpoint: Checkpoint, step: str = "s", shard: int = 0) -> int:
    """The number of sections of a step and shard."""
    return len(checkpoint.sections[step][shard])


def test_every_checkpoint_of_a_chain_loads_the_state_that_was_written(chain: CheckpointChain, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    weights = rng.random((8, 1000))
    history = []
    for epoch in range(40):
        weights = weights.copy()
        weights[rng.integers(8), rng.integers(1000)] += 1
        state: States = {"classify": {"weights": weights, "names": b"x" * epoch, "flag": np.array(epoch)}, "other": {}}
        chain.write(epoch, state)
        history.append(weights)
    again = CheckpointReader(tmp_path, 39)
    for number in again.numbers():
        checkpoint = chain.newest(number)
        loaded = again.states(checkpoint)["classify"]
        assert np.array_equal(loaded["weights"], history[checkpoint.epoch])
        assert loaded["names"] == b"x" * checkpoint.epoch
        assert loaded["flag"] == checkpoint.epoch
        assert isinstance(loaded["flag"], np.ndarray) and loaded["flag"].shape == ()
        assert not again.states(checkpoint)["other"]
    assert chain.layer_sizes[0] > 64_000
    assert chain.layer_sizes[1] < 2_000


def test_a_state_needs_few_sections_however_many_were_written(chain: CheckpointChain) -> None:
    weights = np.zeros(100_000)
    for epoch in range(300):
        weights = weights.copy()
        weights[epoch] += 1
        newest = chain.write(epoch, {"s": {"weights": weights, "blocks": np.array(epoch)}})
        chain.thin()
    assert links(newest) == 1 + 1 + 2 + 11  # the base, number 256, numbers 272 and 288, and those since
    assert np.array_equal(chain.store.states(newest)["s"]["weights"], weights)


def test_a_section_is_a_base_once_the_changes_are_larger_than_the_last_base(chain: CheckpointChain) -> None:
    weights, same = np.zeros(10_000), np.zeros(50_000)
    found = []
    for epoch in range(30):
        weights = weights.copy()
        weights[epoch * 500 % 10_000 :][:500] += 1  # 8,000 bytes, indices included, of 80,000
        newest = chain.write(epoch, {"s": {"weights": weights}, "other": {"same": same}})
        found.append(links(newest))
        assert links(newest, "other") == 1  # a section without changes is not written again
    assert [epoch for epoch, count in enumerate(found) if count == 1] == [0, 11, 22]


def test_without_changes_no_layer_is_written(chain: CheckpointChain) -> None:
    first = chain.write(0, {"s": {"a": np.arange(9)}})
    assert chain.write(1, {"s": {"a": np.arange(9)}}).sections == first.sections
    assert len(chain.layer_sizes) == 1


def test_changes_have_new_arrays_and_arrays_with_a_new_shape(chain: CheckpointChain) -> None:
    large, late = np.zeros(100_000), np.zeros(10)
    for epoch in range(20):
        states = {"large": large, "shape": np.full(10 + epoch // 7, epoch)}
        chain.write(epoch, {"s": states | ({"late": late + epoch} if epoch > 4 else {})})
    loaded = chain.store.states(chain.newest())["s"]
    assert links(chain.newest()) > 1
    assert np.array_equal(loaded["shape"], np.full(12, 19)) and np.array_equal(loaded["late"], late + 19)


@pytest.mark.parametrize("seed", range(6))
def test_an_array_that_grows_and_shrinks_between_sections_loads_as_it_was_written(
    chain: CheckpointChain, tmp_path: Path, seed: int
) -> None:
    """The state of open windows does so: its text gets longer and shorter, or keeps its length and changes in part."""
    dice = np.random.default_rng(seed)
    large = np.zeros(20_000)
    text = bytearray(100)
    history: dict[int, bytes] = {}
    for epoch in range(120):
        if dice.random() < 0.15:
            text = bytearray(int(dice.integers(50, 150)))
        text[int(dice.integers(len(text)))] = epoch
        history[chain.write(epoch, {"s": {"large": large, "text": bytes(text)}}).number] = bytes(text)
        if dice.random() < 0.1:
            chain.thin()
    again = CheckpointReader(tmp_path, 119)
    for number in again.numbers():
        checkpoint = chain.newest(number)
        assert again.states(checkpoint)["s"]["text"] == history[checkpoint.number]


def test_a_layer_of_another_format_is_refused(chain: CheckpointChain, tmp_path: Path) -> None:
    checkpoint = chain.write(0, {"s": {"a": np.arange(100)}})
    path = tmp_path / "layers" / next(iter(checkpoint.files))
    path.write_bytes(path.read_bytes().replace(b"layer 1\n", b"layer 2\n", 1))
    with pytest.raises(UnknownFormat, match=r"is a layer of format 2, .* reads format 1: .* with --fresh"):
        chain.store.states(checkpoint)["s"]


@pytest.mark.parametrize("applied", [AppliedEpochs(), AppliedEpochs([[0, 3]])])
def test_a_checkpoint_is_not_written_for_an_epoch_that_its_state_does_not_have(
    chain: CheckpointChain, applied: AppliedEpochs
) -> None:
    with pytest.raises(AssertionError, match=r"a checkpoint after epoch 3 needs .* this one has none after (-1|2)"):
        finish(chain.store.write(3, applied, {}))
    assert chain.store.newest() is None


def test_the_newest_checkpoint_is_the_one_written_last_not_the_highest_epoch(
    chain: CheckpointChain, tmp_path: Path
) -> None:
    chain.write(7, {})
    chain.write(5, {})
    again = CheckpointReader(tmp_path, 1)
    newest = again.newest()
    assert newest is not None and newest.epoch == 5
    assert again.newest(upto=4) is None


def test_a_manifest_without_a_line_in_the_epoch_log_is_no_checkpoint(chain: CheckpointChain, tmp_path: Path) -> None:
    chain.write(0, {"s": {"a": np.arange(3)}})
    sections = finish(chain.writer.write(chain.store.next_layer(), {"s": {"a": np.arange(4)}}))
    finish(chain.store.write(1, AppliedEpochs([[0, 2]]), sections))
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2
    assert chain.newest().epoch == 0
    found = read_newest(tmp_path, both)
    assert found is not None and found[0].epoch == 0
    chain.close()
    again = CheckpointChain(tmp_path)
    assert again.newest().epoch == 0
    again.write(2, {"s": {"a": np.arange(5)}})  # with the number of the one that does not count
    assert (again.newest().epoch, again.newest().number) == (2, 1)
    assert len(again.store.states(again.newest())["s"]["a"]) == 5
    again.close()


def test_layers_of_an_earlier_start_are_not_overwritten(chain: CheckpointChain, tmp_path: Path) -> None:
    late = chain.store.next_layer()  # a process of this start has not written it yet
    chain.close()
    again = CheckpointChain(tmp_path)
    assert again.store.next_layer() != late
    again.close()
    third = CheckpointChain(tmp_path)
    assert third.store.next_layer() not in (late, chain.store.next_layer())
    third.close()


def test_nan_and_changed_shapes_survive(chain: CheckpointChain) -> None:
    first = np.array([1.0, np.nan, 3.0, 4.0, 5.0])
    second = first.copy()
    second[0] = 2.0
    third = np.array([[1.0], [2.0]])
    for epoch, array in enumerate([first, second, third]):
        chain.write(epoch, {"s": {"a": array}})
    for epoch, expected in enumerate([first, second, third]):
        loaded = chain.store.states(chain.newest(epoch))["s"]["a"]
        assert np.array_equal(np.asarray(loaded), expected, equal_nan=True)


def test_thinning_keeps_the_layers_of_later_checkpoints_and_removes_the_others(chain: CheckpointChain) -> None:
    array = np.arange(100.0)
    for epoch in range(6):
        array = array.copy()
        array[epoch] = -1
        chain.write(epoch, {"s": {"a": array}})
    chain.thin()
    assert chain.store.numbers() == [0, 3, 4, 5]  # the first of the hour, and the newest three
    assert np.array_equal(np.asarray(chain.store.states(chain.newest())["s"]["a"]), array)
    for epoch in range(6, 12):
        chain.write(epoch, {"s": {"a": np.arange(epoch)}})
    chain.thin()
    assert chain.store.numbers() == [0, 9, 10, 11]
    assert len(chain.layer_sizes) == 4


def test_a_reader_that_was_slow_finds_a_newer_checkpoint_and_not_one_of_an_hour_ago(
    chain: CheckpointChain, tmp_path: Path
) -> None:
    for epoch in range(3):
        chain.write(epoch, {"s": {"a": np.arange(epoch)}})
    reader = CheckpointReader(tmp_path, 2)
    for epoch in range(3, 7):
        chain.write(epoch, {"s": {"a": np.arange(epoch)}})
    chain.thin()
    found = reader.newest()
    assert found is not None and found.number == 4
    early = reader.newest(upto=2)
    assert early is not None and early.number == 0


def test_a_pinned_checkpoint_and_one_that_a_sink_needs_are_kept(chain: CheckpointChain, tmp_path: Path) -> None:
    for epoch in range(8):
        chain.write(epoch, {"s": {"a": np.arange(epoch)}})
    Savepoint("kept", 2).write(tmp_path, Totals())
    finish(chain.store.thin(needed=[3]))
    assert chain.store.numbers() == [0, 2, 3, 5, 6, 7]
    assert len(chain.store.states(chain.newest(2))["s"]["a"]) == 2


@pytest.mark.parametrize("linked", [True, False])
def test_a_copy_is_durable_before_its_manifest_has_its_name(
    chain: CheckpointChain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    checkpoint, done = chain.write(0, {"s": {"a": np.arange(100)}}), list[tuple[str, str]]()
    rename, fsync, link = os.rename, os.fsync, os.link

    def link_or_refuse(source: Any, target: Any) -> None:
        if not linked:
            raise OSError(errno.EXDEV, "another file system")
        link(source, target)
        done.append(("link", Path(target).name))

    def renamed(source: Any, target: Any, **options: Any) -> None:
        rename(source, target, **options)
        done.append(("rename", Path(target).name))

    def synced(file: int) -> None:
        fsync(file)
        done.append(("sync", Path(os.readlink(f"/proc/self/fd/{file}")).name))

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", renamed)
        patched.setattr(os, "fsync", synced)
        patched.setattr(os, "link", link_or_refuse)
        chain.store.copy(checkpoint, tmp_path / "other")
    (layer,), manifest = checkpoint.files, checkpoint.name
    copied = [("sync", f"{layer}.tmp"), ("rename", layer)]
    written = [("sync", f"{manifest}.tmp"), ("rename", manifest), ("sync", "checkpoints")]
    wanted = [*([("link", layer)] if linked else copied), ("sync", "layers"), *written]
    assert [step for step in done if step in wanted] == wanted
    for path in (tmp_path / "layers").iterdir():
        path.unlink()
    other = CheckpointReader(tmp_path / "other", 0)
    assert len(other.states(other.numbered(0))["s"]["a"]) == 100


def test_thinning_follows_the_clock_that_it_is_given(tmp_path: Path) -> None:
    hour, now = 3_600_000_000, [0]
    store = CheckpointStore(tmp_path, {}, keep=48 * hour, clock=lambda: now[0])
    for number in range(24 * 6):  # one every half an hour, for three days
        now[0] = number * hour // 2
        checkpoint = finish(store.write(number, AppliedEpochs([[0, number + 1]]), {}))
        store.counts(checkpoint)
        finish(store.thin())
    day = [number for number in range(96, 144) if number % 2 == 0]
    assert store.numbers() == [48, *day[:-1], 141, 142, 143]


def test_an_altered_layer_is_refused(chain: CheckpointChain, tmp_path: Path) -> None:
    checkpoint = chain.write(0, {"s": {"a": np.arange(100)}})
    path = tmp_path / "layers" / next(iter(checkpoint.files))
    content = bytearray(path.read_bytes())
    content[300] ^= 1
    path.write_bytes(content)
    with pytest.raises(AlteredLog, match=r"a section does not match its digest; start over with --fresh"):
        chain.store.states(checkpoint)["s"]


def test_a_full_disk_leaves_the_previous_checkpoint_usable(
    chain: CheckpointChain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain.write(0, {"s": {"a": np.arange(100)}})

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        writing = ThreadedBackground().start(chain.writer.write("x", {"s": {"a": np.arange(200)}}))
        with pytest.raises(OSError, match="No space left on device; the checkpoint was not written"):
            writing.result()
    assert chain.newest().epoch == 0
    assert not list(tmp_path.glob("*/*.tmp"))


def test_the_newest_checkpoint_can_be_read_while_a_run_writes_and_drops_checkpoints(
    chain: CheckpointChain, tmp_path: Path
) -> None:
    chain.write(0, {"s": {"epoch": np.array(0)}})
    done = threading.Event()

    def write() -> None:
        for epoch in range(1, 200):
            chain.write(epoch, {"s": {"epoch": np.array(epoch), "same": np.zeros(1000)}})
            chain.thin()
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = [0]
    while not done.is_set():
        found = read_newest(tmp_path, lambda checkpoint, states: (checkpoint.epoch, int(states["s"]["epoch"])))  # type: ignore[arg-type]
        assert found is not None
        epoch, loaded = found
        assert epoch == loaded
        seen.append(epoch)
    thread.join()
    assert len(set(seen)) > 5


def test_reading_checkpoints_creates_and_deletes_no_file(tmp_path: Path) -> None:
    assert CheckpointReader(tmp_path / "none", -1).newest() is None and read_newest(tmp_path / "none", both) is None
    assert not (tmp_path / "none").exists()


def test_a_checkpoint_with_a_layer_that_is_gone_is_refused(chain: CheckpointChain, tmp_path: Path) -> None:
    chain.write(0, {"s": {"weights": np.zeros(10_000)}})
    for path in (tmp_path / "layers").glob("*.layer"):
        path.unlink()
    with pytest.raises(AlteredLog, match="a file that checkpoint 0 needs is gone"):
        read_newest(tmp_path, lambda checkpoint, states: states["s"])
