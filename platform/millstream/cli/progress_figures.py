"""The figures of a run while it goes, from what is through and from the epoch log's receipts."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from millstream.guarantees.delivery import Delivery
from millstream.log.epochs import Scores
from millstream.runs.watch.metrics import WINDOW
from millstream.runs.watch.observer import Observer, Watched
from millstream.runs.watch.run_stats import StatsCollector
from millstream.runs.watch.speed import per_second
from millstream.steps.processor import EpochResult

__all__ = ["Figures", "RunFigures"]

_TELLING_SECONDS = 0.25
_MOST_TOPICS = 5


@dataclass(frozen=True)
class Figures:
    """How far a run is, at one moment; `through` counts the epochs of this start alone."""

    records: int
    epochs: int
    through: int
    per_second: float | None
    accuracy: float | None
    recent: float | None
    """The accuracy over the last epochs that have 1,000 records, and so about what the model knows now."""
    baselines: Mapping[str, float] | None
    popular: tuple[tuple[str, float], ...]
    behind: int | None


class RunFigures(Observer):
    """Counts while a run goes; `figures` may be asked from any thread.

    `say` is told where a run goes on from, `warn` why workers were started anew.
    """

    def __init__(
        self,
        watched: Watched,
        stats: StatsCollector,
        *,
        say: Callable[[str], None],
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._begun_before = watched.epoch_log.totals.next_epoch
        self._through_epochs = 0
        self._watched, self._stats, self._say, self._warn, self._clock = watched, stats, say, warn, clock
        self._lock = threading.RLock()  # a signal handler asks too, in the midst of anything
        self._begun = False
        self._marks: list[tuple[float, int]] = []
        """When how many records were through in this start: with its first epoch, and with its last."""
        self._through_records = 0
        self._last_epoch = -1
        self._recent: deque[Scores] = deque()
        self._recently = Scores()
        self._windows: dict[str, pa.Table] = {}
        outputs = watched.graph.outputs
        self._topics = [
            n for n, o in outputs.items() if {"_window", "topic", "share", "popular"} <= set(o.schema.names)
        ]

    def started(self, first: int) -> None:
        self._last_epoch = first - 1
        if self._begun_before and not self._begun:
            self._say(self._going_on(first))
        self._begun = True

    def finished_epoch(self, result: EpochResult) -> None:
        now = self._clock()
        with self._lock:
            self._through_epochs += 1
            self._last_epoch = result.epoch.number
            self._through_records += result.receipt.records
            self._marks[1:] = [(now, self._through_records)]
            if result.receipt.attempt == 1:
                self._remember(result.receipt.scores)
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
            through=self._through_epochs,
            per_second=self._stats.records_per_second,
            accuracy=totals.accuracy,
            baselines=totals.baseline_accuracies,
            recent=recent.accuracy,
            popular=_popular(windows),
            behind=self._watched.cutter.behind,
        )

    def speed(self) -> float | None:
        """Records a second once records flow: from the first epoch that is through to the last."""
        if not self._marks:
            return None
        (began, before), (last, after) = self._marks[0], self._marks[-1]
        return per_second(after - before, last - began) if last - began >= _TELLING_SECONDS else None

    def waits_for(self) -> str:
        """What an end that has been asked for is waiting for."""
        if not self._begun:
            return "for the engine to be ready"
        behind = self._watched.epoch_log.totals.next_epoch - 1 - self._last_epoch
        return f"for epoch {self._last_epoch + 1} and its checkpoint" if behind > 0 else "for the last checkpoint"

    def _remember(self, scores: Scores) -> None:
        """Keep the last epochs that have at least `WINDOW` records together."""
        self._recent.append(scores)
        self._recently += scores
        while self._recently.records - self._recent[0].records >= WINDOW:
            self._recently -= self._recent.popleft()

    def _going_on(self, first: int) -> str:
        """Where this start goes on from, in one line; told before anything of it is processed."""
        log = self._watched.epoch_log
        before = [] if first >= self._begun_before else [n for n in log.reader().receipts(first) if n.epoch >= first]
        records = log.totals.records - sum(receipt.records for receipt in before if receipt.attempt == 1)
        line = f"going on with {self._watched.directory.path} from epoch {first}, record {records:,}"
        if not before:
            return line
        delivery = Delivery(self._watched.loaded.config.guarantee.delivery)
        again = "replayed" if delivery is Delivery.EXACTLY_ONCE else "repeated"
        last = max(receipt.epoch for receipt in before)
        which = f"epoch {first} is" if last == first else f"epochs {first} to {last} are"
        count = sum(receipt.records for receipt in before if receipt.attempt == 1)
        return f"{line}; {which} {again} ({count:,} records)"


def _popular(windows: list[pa.Table]) -> tuple[tuple[str, float], ...]:
    """The popular topics of the last window, the greatest share first."""
    found: list[tuple[str, float]] = []
    for rows in windows:
        last = rows.filter(pc.equal(rows["_window"], rows["_window"][-1])).filter(pc.field("popular"))
        found += zip(last["topic"].to_pylist(), last["share"].to_pylist(), strict=True)
    return tuple(sorted(found, key=lambda topic: -topic[1])[:_MOST_TOPICS])
