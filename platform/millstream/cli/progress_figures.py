"""The figures of a run in progress, from its finished epochs and their receipts."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.guarantees.delivery import Delivery
from millstream.log.epochs import EpochReceipt, Scores, Totals
from millstream.runs.watch.event_time import event_time_status
from millstream.runs.watch.metrics import WINDOW
from millstream.runs.watch.observer import Observer, Watched
from millstream.runs.watch.run_stats import StatsCollector
from millstream.runs.watch.speed import per_second
from millstream.steps.processor import EpochResult
from millstream.timestamps import wall_clock

__all__ = ["Figures", "RunFigures"]

_MEASURABLE_SECONDS = 0.25
_MOST_TOPICS = 5
_HELD_SECONDS = 10.0
"""The time for which a partition holds the watermark before the display names the partition."""


@dataclass(frozen=True)
class Figures:
    """The progress of a run at one moment; `finished` counts the epochs of this start only."""

    records: int
    epochs: int
    finished: int
    per_second: float | None
    accuracy: float | None
    recent: float | None
    """The accuracy over the last epochs that hold 1,000 records together, which is about the current accuracy."""
    baselines: Mapping[str, float] | None
    popular: tuple[tuple[str, float], ...]
    behind: int | None
    held: str | None = None
    """The partition that has held the windows over event time for a while, and since when."""


class RunFigures(Observer):
    """Counts the epochs of a run in progress; `figures` may be called from any thread.

    `say` gets the line about a continued run, and `warn` the reason of every restart of workers.
    """

    def __init__(
        self,
        watched: Watched,
        stats: StatsCollector,
        *,
        say: Callable[[str], None],
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], int] = wall_clock,
    ) -> None:
        self._epochs_before = watched.epoch_log.totals.next_epoch
        self._finished_epochs = 0
        self._watched, self._stats, self._say, self._warn, self._clock = watched, stats, say, warn, clock
        self._wall_clock = wall_clock
        self._lock = threading.RLock()  # reentrant: a signal handler calls `waits_for` at any moment
        self._is_started = False
        self._samples: list[tuple[float, int]] = []
        """The time and the number of finished records of this start, after its first and after its last epoch."""
        self._finished_records = 0
        self._last_epoch = -1
        self._recent: deque[EpochReceipt] = deque()
        self._recent_records, self._recently = 0, Scores()
        self._windows: dict[str, pa.Table] = {}
        outputs = watched.graph.outputs
        self._topics = [
            n for n, o in outputs.items() if {"_window", "topic", "share", "popular"} <= set(o.schema.names)
        ]

    def started(self, first: int) -> None:
        self._last_epoch = first - 1
        if self._epochs_before and not self._is_started:
            self._say(self._continuation(first))
        self._is_started = True

    def finished_epoch(self, result: EpochResult) -> None:
        now = self._clock()
        with self._lock:
            self._finished_epochs += 1
            self._last_epoch = result.epoch.number
            self._finished_records += result.receipt.records
            self._samples[1:] = [(now, self._finished_records)]
            if result.receipt.attempt == 1:
                self._remember(result.receipt)
            for name in self._topics:
                if result.rows[name].num_rows:
                    self._windows[name] = result.rows[name]

    def restarted(self, reason: str) -> None:
        self._warn(reason)

    def figures(self) -> Figures:
        totals = self._watched.epoch_log.totals
        with self._lock:
            recent = self._recently
            windows = list(self._windows.values())
        return Figures(
            records=totals.records,
            epochs=self._last_epoch + 1,
            finished=self._finished_epochs,
            per_second=self._stats.records_per_second,
            accuracy=totals.accuracy,
            baselines=totals.baseline_accuracies,
            recent=recent.accuracy,
            popular=_popular(windows),
            behind=self._watched.cutter.behind,
            held=self._held(totals),
        )

    def _held(self, totals: Totals) -> str | None:
        """The partition that has held the watermark for at least 10 s, and since when, if windows wait for it."""
        waits = self._watched.graph.waits_for_time
        if not waits or (self._wall_clock() - totals.held_since) / 1e6 < _HELD_SECONDS:
            return None
        status = event_time_status(totals)
        return f"{status.held_by} since {status.held_since}" if status.held_by is not None else None

    def speed(self) -> float | None:
        """Return the records per second between the first finished epoch and the last."""
        if not self._samples:
            return None
        (began, before), (ended, after) = self._samples[0], self._samples[-1]
        return per_second(after - before, ended - began) if ended - began >= _MEASURABLE_SECONDS else None

    def waits_for(self) -> str:
        """Return the end of the sentence "waiting ..." that is printed after the user has requested a stop."""
        if not self._is_started:
            return "for the engine to start"
        behind = self._watched.epoch_log.totals.next_epoch - 1 - self._last_epoch
        return f"for epoch {self._last_epoch + 1} and its checkpoint" if behind > 0 else "for the last checkpoint"

    def _remember(self, receipt: EpochReceipt) -> None:
        """Keep only the last epochs that hold at least `WINDOW` records together."""
        self._recent.append(receipt)
        self._recent_records += receipt.records
        self._recently += receipt.overall
        while self._recent_records - self._recent[0].records >= WINDOW:
            first = self._recent.popleft()
            self._recent_records -= first.records
            self._recently -= first.overall

    def _continuation(self, first: int) -> str:
        """Return the line that reports, before the first epoch, from which epoch this start continues."""
        log = self._watched.epoch_log
        if not log.totals.processed and (origin := self._watched.directory.origin).exists():
            return f"beginning {self._watched.directory.path} {_described(json.loads(origin.read_text()))}"
        repeated = [] if first >= self._epochs_before else [r for r in log.reader().receipts(first) if r.epoch >= first]
        records = log.totals.records - sum(receipt.records for receipt in repeated if receipt.attempt == 1)
        line = f"continuing {self._watched.directory.path} from epoch {first}, record {records:,}"
        if not repeated:
            return line
        delivery = Delivery(self._watched.loaded.config.guarantee.delivery)
        word = "replayed" if delivery is Delivery.EXACTLY_ONCE else "repeated"
        last = max(receipt.epoch for receipt in repeated)
        which = f"epoch {first} is" if last == first else f"epochs {first} to {last} are"
        count = sum(receipt.records for receipt in repeated if receipt.attempt == 1)
        return f"{line}; {which} {word} ({count:,} records)"


def _described(origin: Mapping[str, Any]) -> str:
    """Return the state with which a run began.

    >>> _described({"models": {"classify": "models:/news/3"}, "warm": {}})
    'with models:/news/3, at the offsets up to which it was trained'
    >>> _described({"models": {}, "warm": {"classify": "warm start: 700 records of old.jsonl"}})
    'with classify after a warm start: 700 records of old.jsonl'
    >>> _described({"run": "runs/old", "log": "...", "epoch": 3})
    'with the state of runs/old after epoch 3'
    """
    if "models" in origin:
        models, warm = origin["models"], origin["warm"]
        parts = [f"with {', '.join(models.values())}, at the offsets up to which it was trained"] if models else []
        parts += [f"with {step} after a {about}" for step, about in warm.items()]
        return ", and ".join(parts)
    if origin["epoch"] < 0:
        return f"with the cuts of {origin['run']}"
    return f"with the state of {origin['run']} after epoch {origin['epoch']}"


def _popular(windows: list[pa.Table]) -> tuple[tuple[str, float], ...]:
    """Return the popular topics of the last window, the greatest share first."""
    found: list[tuple[str, float]] = []
    for rows in windows:
        last = rows.filter(pc.equal(rows["_window"], rows["_window"][-1])).filter(pc.field("popular"))
        found += zip(last["topic"].to_pylist(), last["share"].to_pylist(), strict=True)
    return tuple(sorted(found, key=lambda topic: -topic[1])[:_MOST_TOPICS])
