"""Statistics of a running run: its speed, the latency of its epochs, its checkpoints and restarts."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from millstream.runs.watch.histogram import Histogram
from millstream.runs.watch.observer import Observer, Watched
from millstream.runs.watch.speed import Speed
from millstream.state.checkpoints import Checkpoint, CheckpointReader
from millstream.steps.processor import EpochResult

__all__ = ["RunStats", "StatsCollector"]

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_RECENT_EPOCHS = 1000


@dataclass(frozen=True)
class LastCheckpoint:
    """The last checkpoint: its time in seconds since 1970, and the bytes of the state in it."""

    at: float
    size: int


@dataclass(frozen=True)
class RunStats:
    """The statistics at one moment. Latencies are in seconds, over the last epochs; None means not known yet."""

    records_per_second: float | None
    latency_median: float | None
    latency_99: float | None
    epochs_in_flight: int
    restarts: int
    last_restart: str | None


class StatsCollector(Observer):
    """Collects the statistics of one start of a run; any thread may read them."""

    def __init__(self, watched: Watched, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._backpressure, self._clock = watched.backpressure, clock
        self._next = watched.epoch_log.totals.next_epoch
        """Earlier epochs were cut by another start, or are done in this one; their latency does not count."""
        self._lock = threading.RLock()  # a signal handler may read while this thread holds the lock
        self._speed = Speed()
        self._records = 0
        self._recent: deque[float] = deque(maxlen=_RECENT_EPOCHS)
        self._last = CheckpointReader(watched.directory.path, watched.epoch_log.totals.checkpoint).newest()
        self.latency, self.checkpoint_seconds = Histogram(_BOUNDS), Histogram(_BOUNDS)
        self.restarts = 0
        self.last_restart: str | None = None

    def started(self, first: int) -> None:
        with self._lock:
            self._speed.sample(self._clock(), self._records)

    def finished_epoch(self, result: EpochResult) -> None:
        number = result.epoch.number
        latency = self._backpressure.age(number) if number >= self._next else None
        self._next = max(self._next, number + 1)
        with self._lock:
            self._records += result.receipt.records
            self._speed.sample(self._clock(), self._records)
            if latency is not None:
                self._recent.append(latency)
        if latency is not None:
            self.latency.observe(latency)

    def checkpointed(self, checkpoint: Checkpoint, seconds: float) -> None:
        self.checkpoint_seconds.observe(seconds)
        self._last = checkpoint

    def restarted(self, reason: str) -> None:
        self.restarts, self.last_restart = self.restarts + 1, reason

    @property
    def last_checkpoint(self) -> LastCheckpoint | None:
        if (checkpoint := self._last) is None:
            return None
        return LastCheckpoint(checkpoint.at / 1e6, checkpoint.size)

    @property
    def records_per_second(self) -> float | None:
        """The present speed; None before the first epoch."""
        with self._lock:
            return self._speed.at(self._clock())

    def run_stats(self) -> RunStats:
        with self._lock:
            recent = sorted(self._recent)
        return RunStats(
            records_per_second=self.records_per_second,
            latency_median=recent[len(recent) // 2] if recent else None,
            latency_99=recent[len(recent) * 99 // 100] if recent else None,
            epochs_in_flight=self._backpressure.in_flight,
            restarts=self.restarts,
            last_restart=self.last_restart,
        )
