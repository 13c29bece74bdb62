"""While no records arrive, the last epochs get a checkpoint and a commit, so a reader gets the newest model."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from support.conditions import wait_until

from millstream.config.load import Loaded, read_config
from millstream.guarantees.delivery import Delivery
from millstream.log.epochs import EpochReader
from millstream.log.journal import Journal
from millstream.runs.start import Options, start
from millstream.state.checkpoints import read_newest


def loaded(folder: Path, workers: int, delivery: Delivery, checkpoint_every: int) -> Loaded:
    config = {
        "name": "quiet",
        "source": {"type": "journal", "path": "in"},
        "pipeline": {"use": "text_topics", "model": {"type": "naive_bayes"}, "popularity": None},
        "guarantee": {"delivery": str(delivery), "checkpoint_every": checkpoint_every},
        "engine": {"type": "local", "workers": workers},
    }
    return read_config(config, folder, "quiet.yaml")


class Following:
    """A run that follows a journal, to which documents are appended one by one."""

    def __init__(self, folder: Path, config: Loaded, journal: Journal) -> None:
        self._run, self._journal, self._stop = folder / "run", journal, threading.Event()
        options = Options(self._run, follow=True)
        self._thread = threading.Thread(target=start, args=(config, options), kwargs={"stop": self._stop})

    def __enter__(self) -> Following:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def learn(self, documents: int) -> None:
        """Append documents, each one after the epoch of the previous one is processed."""
        for number in range(documents):
            before = self.processed
            self._journal.append(json.dumps({"text": f"goal {number}", "label": "sport"}).encode())
            wait_until(lambda before=before: self.processed > before, "the next epoch")  # type: ignore[misc]

    @property
    def processed(self) -> int:
        has_journal = any((self._run / "epochs").glob("*.journal"))  # the folder exists a moment before its first file
        return EpochReader(self._run / "epochs").totals().processed if has_journal else 0

    @property
    def committed(self) -> int:
        return EpochReader(self._run / "epochs").totals().committed

    @property
    def checkpointed(self) -> int:
        epoch = read_newest(self._run, lambda checkpoint, _: checkpoint.epoch)
        return -1 if epoch is None else epoch


@pytest.mark.parametrize("workers", [1, 2])
def test_the_last_epochs_of_a_stream_that_falls_silent_get_a_checkpoint_and_a_commit(
    tmp_path: Path, workers: int
) -> None:
    with (
        Journal(tmp_path / "in") as journal,
        Following(tmp_path, loaded(tmp_path, workers, Delivery.EXACTLY_ONCE, 1), journal) as run,
    ):
        run.learn(8)
        last = EpochReader(tmp_path / "run/epochs").totals().next_epoch - 1
        wait_until(lambda: run.checkpointed == last, "a checkpoint of the last epoch")
        wait_until(lambda: run.committed == last, "a commit of the last epoch")


def test_with_another_delivery_only_checkpoints_that_are_due_are_written(tmp_path: Path) -> None:
    with (
        Journal(tmp_path / "in") as journal,
        Following(tmp_path, loaded(tmp_path, 1, Delivery.AT_LEAST_ONCE, 1000), journal) as run,
    ):
        run.learn(3)
        journal.append(b'{"text": "one more", "label": "sport"}')
        wait_until(lambda: run.processed == 4, "the last one")
        assert run.checkpointed == -1
