"""Checkpoints are atomic, small if little has changed, and load as they were written."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from millstream.errors import AlteredLog, UnknownFormat
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.checkpoint_writer import CheckpointWriter
from millstream.state.checkpoints import Checkpoint, CheckpointReader, CheckpointStore, States, read_newest


def store(folder: Path) -> CheckpointStore:
    return CheckpointStore(folder, {"numpy": np.__version__})


def both(checkpoint: Checkpoint, states: States) -> tuple[Checkpoint, States]:
    return checkpoint, states


def test_every_checkpoint_of_a_chain_loads_the_state_that_was_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    weights = rng.random((8, 1000))
    history = []
    checkpoints = store(tmp_path)
    for epoch in range(40):
        weights = weights.copy()
        weights[rng.integers(8), rng.integers(1000)] += 1
        state: States = {"classify": {"weights": weights, "names": b"x" * epoch, "flag": np.array(epoch)}, "other": {}}
        checkpoints.write(epoch, AppliedEpochs([[0, epoch + 1]]), state)
        history.append(weights)
    again = store(tmp_path)
    for number in again.numbers():
        checkpoint = next(s for s in [again.newest(number)] if s is not None)
        loaded = again.load(checkpoint)["classify"]
        assert np.array_equal(loaded["weights"], history[checkpoint.epoch])
        assert loaded["names"] == b"x" * checkpoint.epoch
        assert (
            loaded["flag"] == checkpoint.epoch and isinstance(loaded["flag"], np.ndarray) and loaded["flag"].shape == ()
        )
    sizes = [path.stat().st_size for path in sorted(tmp_path.glob("*.checkpoint"))]
    assert sizes[0] > 64_000
    assert sizes[1] < 2_000


def test_a_checkpoint_needs_few_others_however_many_were_written(tmp_path: Path) -> None:
    checkpoints = store(tmp_path)
    weights = np.zeros(100_000)
    for epoch in range(300):
        weights = weights.copy()
        weights[epoch] += 1
        checkpoints.write(
            epoch, AppliedEpochs([[0, epoch + 1]]), {"s": {"weights": weights, "blocks": np.array(epoch)}}
        )
        checkpoints.drop_before(checkpoints.numbers()[-1])
    assert checkpoints.numbers() == [0, 256, 272, 288, *range(289, 300)]
    newest = checkpoints.newest()
    assert newest is not None and np.array_equal(store(tmp_path).load(newest)["s"]["weights"], weights)


def test_a_checkpoint_is_full_once_the_deltas_are_larger_than_the_last_full_one(tmp_path: Path) -> None:
    checkpoints = store(tmp_path)
    weights = np.zeros(10_000)
    bases = []
    for epoch in range(30):
        weights = weights.copy()
        weights[epoch * 500 % 10_000 :][:500] += 1  # 8,000 bytes, indices included, of 80,000
        bases.append(checkpoints.write(epoch, AppliedEpochs([[0, epoch + 1]]), {"s": {"weights": weights}}).base)
    assert [epoch for epoch, base in enumerate(bases) if base is None] == [0, 11, 22]


def test_a_delta_has_new_arrays_and_arrays_with_a_new_shape(tmp_path: Path) -> None:
    checkpoints = store(tmp_path)
    large, late = np.zeros(100_000), np.zeros(10)
    for epoch in range(20):
        states = {"large": large, "shape": np.full(10 + epoch // 7, epoch)}
        checkpoints.write(
            epoch, AppliedEpochs([[0, epoch + 1]]), {"s": states | ({"late": late + epoch} if epoch > 4 else {})}
        )
    newest = checkpoints.newest()
    assert newest is not None and newest.base == 18
    loaded = store(tmp_path).load(newest)["s"]
    assert np.array_equal(loaded["shape"], np.full(12, 19)) and np.array_equal(loaded["late"], late + 19)


@pytest.mark.parametrize("seed", range(20))
def test_an_array_that_grows_and_shrinks_between_deltas_loads_as_it_was_written(tmp_path: Path, seed: int) -> None:
    """The state of open windows does so: its text gets longer and shorter, or keeps its length and changes in part."""
    dice = np.random.default_rng(seed)
    checkpoints, large = store(tmp_path), np.zeros(20_000)
    text = bytearray(100)
    history: dict[int, bytes] = {}
    for epoch in range(120):
        if dice.random() < 0.15:
            text = bytearray(int(dice.integers(50, 150)))
        text[int(dice.integers(len(text)))] = epoch
        history[
            checkpoints.write(
                epoch, AppliedEpochs([[0, epoch + 1]]), {"s": {"large": large, "text": bytes(text)}}
            ).number
        ] = bytes(text)
        if dice.random() < 0.1:
            checkpoints.drop_before(checkpoints.numbers()[-3:][0])
    again = CheckpointReader(tmp_path)
    for number in again.numbers():
        checkpoint = next(checkpoint for checkpoint in [again.newest(number)] if checkpoint is not None)
        assert again.load(checkpoint)["s"]["text"] == history[checkpoint.number]


@pytest.mark.parametrize("number", [1, 2, 9])
def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path, number: int) -> None:
    (tmp_path / "0000000000.checkpoint").write_bytes(b"millstream checkpoint %d\n" % number)
    with pytest.raises(UnknownFormat, match=f"is a checkpoint of format {number}, .* reads format 4: .* with --fresh"):
        store(tmp_path)


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "0000000000.checkpoint").write_bytes(b"somebody's receipts")
    with pytest.raises(AlteredLog, match=r"does not begin like a checkpoint: .*; start over with --fresh"):
        store(tmp_path)


@pytest.mark.parametrize("applied", [AppliedEpochs(), AppliedEpochs([[0, 3]])])
def test_a_checkpoint_is_not_written_for_an_epoch_that_its_state_does_not_have(
    tmp_path: Path, applied: AppliedEpochs
) -> None:
    with pytest.raises(AssertionError, match=r"a checkpoint after epoch 3 needs .* this one has none after (-1|2)"):
        store(tmp_path).write(3, applied, {})
    assert store(tmp_path).newest() is None


def test_the_newest_checkpoint_is_the_one_written_last_not_the_highest_epoch(tmp_path: Path) -> None:
    checkpoints = store(tmp_path)
    checkpoints.write(7, AppliedEpochs([[0, 8]]), {})
    checkpoints.write(5, AppliedEpochs([[0, 6]]), {})
    newest = store(tmp_path).newest()
    assert newest is not None and newest.epoch == 5
    upto = store(tmp_path).newest(upto=4)
    assert upto is None


def test_nan_and_changed_shapes_survive(tmp_path: Path) -> None:
    checkpoints = store(tmp_path)
    first = np.array([1.0, np.nan, 3.0, 4.0, 5.0])
    second = first.copy()
    second[0] = 2.0
    checkpoints.write(0, AppliedEpochs([[0, 1]]), {"s": {"a": first}})
    checkpoints.write(1, AppliedEpochs([[0, 2]]), {"s": {"a": second}})
    checkpoints.write(2, AppliedEpochs([[0, 3]]), {"s": {"a": np.array([[1.0], [2.0]])}})
    again = store(tmp_path)
    for epoch, expected in enumerate([first, second, np.array([[1.0], [2.0]])]):
        checkpoint = again.newest(epoch)
        assert checkpoint is not None
        assert np.array_equal(again.load(checkpoint)["s"]["a"], expected, equal_nan=True)


def test_dropping_keeps_the_bases_of_later_checkpoints(tmp_path: Path) -> None:
    checkpoints = store(tmp_path)
    array = np.arange(100.0)
    for epoch in range(6):
        array = array.copy()
        array[epoch] = -1
        checkpoints.write(epoch, AppliedEpochs([[0, epoch + 1]]), {"s": {"a": array}})
    checkpoints.drop_before(5)
    again = store(tmp_path)
    newest = again.newest()
    assert newest is not None
    assert np.array_equal(again.load(newest)["s"]["a"], array)
    checkpoints.write(6, AppliedEpochs([[0, 7]]), {"s": {"a": np.arange(7.0)}})
    checkpoints.drop_before(6)
    assert checkpoints.numbers() == [6]


def test_an_altered_checkpoint_is_refused(tmp_path: Path) -> None:
    checkpoints = store(tmp_path)
    checkpoint = checkpoints.write(0, AppliedEpochs([[0, 1]]), {"s": {"a": np.arange(100)}})
    path = tmp_path / "0000000000.checkpoint"
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    with pytest.raises(AlteredLog, match=r"its content does not match its digest; start over with --fresh"):
        checkpoints.load(checkpoint)


def test_a_full_disk_leaves_the_previous_checkpoint_usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = store(tmp_path)
    checkpoints.write(0, AppliedEpochs([[0, 1]]), {"s": {"a": np.arange(100)}})

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    writer = CheckpointWriter(checkpoints, lambda checkpoint: None)
    writer.start(1, AppliedEpochs([[0, 2]]), {"s": {"a": np.arange(200)}})
    with pytest.raises(OSError, match="No space left on device; the checkpoint was not written"):
        writer.wait()
    monkeypatch.undo()
    again = store(tmp_path)
    newest = again.newest()
    assert newest is not None and newest.epoch == 0
    assert not list(tmp_path.glob("*.tmp"))


def test_the_newest_checkpoint_can_be_read_while_a_run_writes_and_drops_checkpoints(tmp_path: Path) -> None:
    writer = store(tmp_path)
    writer.write(0, AppliedEpochs([[0, 1]]), {"s": {"epoch": np.array(0)}})
    done = threading.Event()

    def write() -> None:
        for epoch in range(1, 200):
            writer.write(
                epoch, AppliedEpochs([[0, epoch + 1]]), {"s": {"epoch": np.array(epoch), "same": np.zeros(1000)}}
            )
            writer.drop_before(writer.numbers()[-1])
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = [0]
    while not done.is_set():
        found = read_newest(tmp_path, both)
        assert found is not None
        checkpoint, states = found
        assert (
            states["s"]["epoch"] == checkpoint.epoch
        )  # a folder that changes while it is listed may hide the very last
        seen.append(checkpoint.epoch)
    thread.join()
    assert len(set(seen)) > 5


def test_reading_checkpoints_creates_and_deletes_no_file(tmp_path: Path) -> None:
    assert CheckpointReader(tmp_path / "none").newest() is None and read_newest(tmp_path / "none", both) is None
    assert not (tmp_path / "none").exists()
    torn = tmp_path / "0000000007.tmp"
    torn.write_bytes(b"half")
    assert CheckpointReader(tmp_path).newest() is None
    assert torn.exists()


def test_a_checkpoint_whose_base_is_gone_is_refused(tmp_path: Path) -> None:
    writer = store(tmp_path)
    weights = np.zeros(10_000)
    writer.write(0, AppliedEpochs([[0, 1]]), {"s": {"weights": weights}})
    delta = writer.write(1, AppliedEpochs([[0, 2]]), {"s": {"weights": weights.copy()}})
    assert delta.base == 0
    (tmp_path / "0000000000.checkpoint").unlink()
    with pytest.raises(AlteredLog, match="a file that checkpoint 1 needs is gone"):
        read_newest(tmp_path, both)
