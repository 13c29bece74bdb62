"""A stream that begins with a trained model while the log grows: every position is learned exactly once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from support.commands import Commands, processed
from support.conditions import wait_until
from support.counted_model import counts_of, text_of
from support.histories import state_in

from millstream.api.run import Run
from millstream.cli import main
from millstream.config.load import load_config
from millstream.errors import ConfigError
from millstream.log.epochs import Added, Epoch, EpochReader, NewModel, SinkAdded, Totals
from millstream.runs.base import RunBase
from millstream.runs.directory import RunDirectory
from millstream.runs.fixed_parts import fixed_parts
from millstream.runs.start import Options, start
from millstream.state.version_store import VersionStore

_PARTITIONS, _EPOCH_RECORDS, _BATCH = 4, 50, 16
_FULL = 31
"""The records of the mini-batches of 1, 2, 4, 8 and 16; all others have `_BATCH`."""
_WAITING = 9
_HISTORY = _FULL + 60 * _BATCH + _WAITING
"""The history ends within a mini-batch."""
_SLOW = 5
"""So many appends wait until their records are cut, so these cuts are smaller than an epoch may be."""


class _Feed:
    """Appends labelled records to four files at different rates, 500 a second in all, until it is stopped."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.files = [folder / f"part{number}.jsonl" for number in range(_PARTITIONS)]
        for file in self.files:
            file.touch()
        self.ends = [0] * _PARTITIONS
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._flow, daemon=True)

    @property
    def records(self) -> int:
        return sum(self.ends)

    def append(self) -> None:
        """Append one record to the first file, two to the second one, and so on."""
        for number, file in enumerate(self.files):
            lines = [self._line(number, self.ends[number] + index) for index in range(number + 1)]
            with file.open("a") as opened:
                opened.write("".join(lines))
            self.ends[number] += len(lines)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Append in the background, and at the end so much that the last mini-batch is full."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()
        while (self.records - _FULL) % _BATCH:
            with self.files[0].open("a") as opened:
                opened.write(self._line(0, self.ends[0]))
            self.ends[0] += 1

    def _flow(self) -> None:
        while not self._stop.wait(0.02):
            self.append()

    @staticmethod
    def _line(partition: int, offset: int) -> str:
        label = ("sport", "film", "politics")[offset % 3]
        return json.dumps({"text": text_of(partition, offset, f"{label} word{offset % 17}"), "label": label}) + "\n"


def write_pipeline(folder: Path) -> Commands:
    model = {"type": "support.counted_model:CountedSoftmax", "partitions": _PARTITIONS, "batch_size": _BATCH}
    config = {
        "name": "seam",
        "source": {"type": "files", "path": "news"},
        "pipeline": {"steps": [{"type": "classify", "model": model}]},
        "engine": {"type": "local", "epoch": {"max_records": _EPOCH_RECORDS}},
    }
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(config))
    return Commands(folder)


def train(folder: Path, history: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Train with the cuts of a run and register the model, by the command; the address of the version."""
    words = ["--out", str(folder / "trained"), "--replay", str(history), "--register", "seam", "--json"]
    with pytest.raises(SystemExit) as ended:
        main(["train", str(folder / "pipeline.yaml"), *words])
    found = capsys.readouterr()
    assert not ended.value.code, found.err
    result = json.loads(found.out)
    assert result["same_as_run"] and result["records"] == _HISTORY
    return str(result["registered"])


def cut(run: Path) -> int:
    """The sum of a run's positions; the run may still be active."""
    try:
        return sum(EpochReader(run / "epochs").totals().positions.values())
    except ConfigError:  # the run directory is not complete yet
        return 0


def whole_log(commands: Commands, history: Path, stream: Path) -> Path:
    """A run over the whole log, from nothing, whose epochs are those of the history and then those of the stream."""
    epochs: list[Epoch] = list(epochs_of(history))
    for epoch in epochs_of(stream):
        events = tuple(each for each in epoch.events if not isinstance(each, Added | NewModel | SinkAdded))
        epochs.append(replace(epoch, number=len(epochs), events=events))
    loaded, whole = load_config(str(commands.folder / "pipeline.yaml")), commands.folder / "whole"
    directory = RunDirectory(whole)
    directory.lock()
    directory.make(fixed_parts(loaded), loaded.folder)
    RunBase(Totals(), None, epochs, {}, VersionStore(stream / "models")).write(directory)
    directory.release()
    start(loaded, Options(whole))
    return whole


def epochs_of(run: Path) -> list[Epoch]:
    return list(EpochReader(run / "epochs").epochs())


def records_of(epoch: Epoch) -> int:
    return sum(stop - start for start, stop in epoch.cut.values())


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.xdist_group("spark")
def test_every_position_is_learned_once_from_the_beginning_of_the_history_to_the_end_of_the_stream(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    commands, feed = write_pipeline(tmp_path), _Feed(tmp_path / "news")
    history, stream = tmp_path / "history", tmp_path / "stream"
    process = commands.start("history", "--follow", "--records", str(_HISTORY))
    for _ in range(_SLOW):
        feed.append()
        wait_until(lambda: cut(history) == feed.records, "cuts", process)
    with feed.flowing():
        commands.end(process)
        uri = train(tmp_path, history, capsys)
        wait_until(lambda: feed.records > 2 * _HISTORY, "records after the training")
        follow = ("--follow", "--set", f"pipeline.steps.0.model={{from: '{uri}'}}")
        process = commands.start("stream", *follow)
        wait_until(lambda: processed(stream) >= 10, "epochs", process)
        process.kill()
        process.communicate()
        killed_at = cut(stream)
        process = commands.start("stream", *follow)
        wait_until(lambda: cut(stream) > killed_at + _EPOCH_RECORDS, "epochs after the kill", process)
    wait_until(lambda: cut(stream) == feed.records, "all records", process)
    commands.stop(process)

    counts = counts_of(Run(stream).model().classify.save())
    learned = {(partition, offset): counts[offset, partition] for offset, partition in np.argwhere(counts).tolist()}
    written = {(partition, offset) for partition, end in enumerate(feed.ends) for offset in range(end)}
    assert learned.keys() == written
    assert {position: times for position, times in learned.items() if times != 1} == {}
    assert state_in(stream, "classify") == state_in(whole_log(commands, history, stream), "classify")
    small = [epoch for epoch in epochs_of(history) if records_of(epoch) < _EPOCH_RECORDS]
    assert len(small) >= _SLOW
