"""Losses of workers end a run only if they follow each other without successful work in between."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from millstream.config.load import Loaded, read_config
from millstream.engines.job import Job
from millstream.engines.local.single_process import SingleProcessFeed
from millstream.engines.recovery import run_with_recovery
from millstream.errors import WorkerLost
from millstream.log.epochs import Epoch
from millstream.runs.start import Options, start
from millstream.runs.watch.observer import Observer


def loaded(folder: Path) -> Loaded:
    (folder / "documents.jsonl").write_text('{"text": "rain", "label": "weather"}\n')
    config = {
        "name": "idle",
        "source": {"type": "files", "path": "documents.jsonl"},
        "pipeline": {"use": "text_topics"},
        "engine": {"type": "local"},
    }
    return read_config(config, folder, "idle.yaml")


class Lost(WorkerLost):
    counts_when_idle = True


class LosingFeed(SingleProcessFeed):
    """Loses its worker whenever there is no epoch to process, some seconds after its start."""

    def __init__(self, job: Job, clock: Clock, seconds: float) -> None:
        super().__init__(job)
        self._clock, self._seconds = clock, seconds

    def ready(self, seconds: float) -> Sequence[Epoch]:
        if self._offered:
            return super().ready(seconds)
        self._clock.now += self._seconds
        raise Lost("the worker was lost")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class LosingEngine:
    """One process that recovers as several do; each loss comes when the run is idle, some seconds after a start."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def run(self, job: Job) -> None:
        clock = Clock()

        @contextmanager
        def open_feed(ahead: bool) -> Iterator[SingleProcessFeed]:
            with LosingFeed(job, clock, self._seconds) as feed:
                yield feed

        run_with_recovery(job, open_feed, "look at the log", clock)


class Restarts(Observer):
    """Counts the restarts, and stops the run after the last one of interest."""

    def __init__(self, last: int, stop: threading.Event) -> None:
        self.count, self._last, self._stop = 0, last, stop

    def restarted(self, reason: str) -> None:
        self.count += 1
        if self.count == self._last:
            self._stop.set()


def restarts(folder: Path, seconds: float, last: int) -> Restarts:
    stop = threading.Event()
    watching = Restarts(last, stop)
    options = Options(folder / "run", follow=True)
    engine = LosingEngine(seconds)
    summary = start(loaded(folder), options, engine=engine, observers=lambda watched: [watching], stop=stop)
    assert summary.records == 1
    return watching


def test_an_idle_run_goes_on_after_losses_that_are_far_apart(tmp_path: Path) -> None:
    assert restarts(tmp_path, seconds=3600.0, last=10).count == 10


def test_losses_soon_after_each_start_end_an_idle_run(tmp_path: Path) -> None:
    with pytest.raises(Lost, match=r"that was the 3rd time in a row that no epoch was finished; look at the log"):
        restarts(tmp_path, seconds=5.0, last=10)
