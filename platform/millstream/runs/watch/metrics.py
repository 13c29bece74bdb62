"""metrics.jsonl: accuracy and speed, window by window, over the life of a run directory.

The counts are a fold over the epoch log's receipts, so what a crash kept from being written is written by the next
start; only its speed is then unknown. Records count once, as they were first processed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from millstream.log.epochs import Baselines, EpochReceipt, Scores
from millstream.runs.watch.observer import Observer, Watched
from millstream.runs.watch.speed import per_second
from millstream.steps.processor import EpochResult

__all__ = ["WINDOW", "Metrics", "Window", "read_windows"]

WINDOW = 1000
"""The least records of a window, over which an accuracy is computed that is not of the whole run; it ends with an
epoch."""


@dataclass(frozen=True)
class Window:
    """One line: counts since the run began, the window's own accuracy, and how fast it was.

    `baselines` are what the accuracies would be without reading the records. `seconds` is how long the run had been
    running by then, all starts together, as far as is known.
    """

    records: int
    epoch: int
    correct: int
    labelled: int
    accuracy: float | None
    window_accuracy: float | None
    records_per_second: float | None
    seconds: float
    baselines_correct: Mapping[str, int]
    baselines: Mapping[str, float] | None
    window_baselines: Mapping[str, float] | None

    @property
    def scores(self) -> Scores:
        """The scores since the run began."""
        return Scores(self.records, self.correct, self.labelled, Baselines(**self.baselines_correct))


_BEFORE_FIRST = Window(0, -1, 0, 0, None, None, None, 0.0, Baselines().counts(), None, None)


def read_windows(path: Path) -> Iterator[Window]:
    """The windows in a file, beside the run that writes it; a last line that is torn is left out."""
    for _, window in _lines(path):
        yield window


def _lines(path: Path) -> Iterator[tuple[int, Window]]:
    """Each window with the place in the file where its line ends."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    end = 0
    with file:
        for line in file:
            end += len(line)
            try:
                window = Window(**json.loads(line))
            except (ValueError, TypeError):
                return
            if not line.endswith(b"\n"):
                return
            yield end, window


class Metrics(Observer):
    """Writes metrics.jsonl. `then` is given every window that it writes; `warn` is told, once, if it cannot write."""

    def __init__(
        self,
        watched: Watched,
        *,
        warn: Callable[[str], None],
        then: Callable[[Window], None] = lambda window: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = watched.directory.metrics
        self._warn, self._then, self._clock = warn, then, clock
        self._file = -1
        self._written = _BEFORE_FIRST
        self._scores = Scores()
        self._timed: tuple[float, int] | None = None
        """When the last window ended in this start, and how many records there were then."""
        try:
            self._open(watched.epoch_log.totals.records)
        except OSError as error:
            self._failed(error)
        self._catch_up(watched)

    def _open(self, records: int) -> None:
        """Go on behind the last whole line that the epoch log bears out."""
        kept = 0
        for end, window in _lines(self._path):
            if window.records > records:
                break
            kept, self._written = end, window
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.ftruncate(self._file, kept)

    def _catch_up(self, watched: Watched) -> None:
        """Count what earlier starts have processed and not written."""
        last = self._written
        self._scores = last.scores
        totals = watched.epoch_log.totals
        if totals.records == last.records:
            return
        for receipt in watched.epoch_log.reader().receipts(last.epoch + 1):
            if receipt.epoch > last.epoch:
                self._count(receipt)
        # the epoch log no longer goes back that far
        self._scores = totals.scores

    def started(self, first: int) -> None:
        self._timed = (self._clock(), self._scores.records)

    def finished_epoch(self, result: EpochResult) -> None:
        self._count(result.receipt)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _count(self, receipt: EpochReceipt) -> None:
        if receipt.attempt != 1:
            return
        self._scores += receipt.scores
        if self._scores.records - self._written.records >= WINDOW:
            self._write(receipt.epoch)

    def _write(self, epoch: int) -> None:
        before, scores, passed, speed = self._written, self._scores, 0.0, None
        if self._timed is not None:
            now = self._clock()
            passed = now - self._timed[0]
            speed = per_second(scores.records - self._timed[1], passed)
            self._timed = (now, scores.records)
        fresh = scores - before.scores
        window = Window(
            records=scores.records,
            epoch=epoch,
            correct=scores.correct,
            labelled=scores.labelled,
            accuracy=_rounded(scores.accuracy),
            window_accuracy=_rounded(fresh.accuracy),
            records_per_second=None if speed is None else round(speed, 1),
            seconds=round(before.seconds + passed, 3),
            baselines_correct=scores.baselines.counts(),
            baselines=_all_rounded(scores.baseline_accuracies),
            window_baselines=_all_rounded(fresh.baseline_accuracies),
        )
        self._written = window
        if self._file >= 0:
            try:
                os.write(self._file, json.dumps(asdict(window)).encode() + b"\n")
            except OSError as error:
                self._failed(error)
        self._then(window)

    def _failed(self, error: OSError) -> None:
        self._warn(f"cannot write {self._path}: {error.strerror}; the run goes on without it")
        self.close()


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 6)


def _all_rounded(shares: Mapping[str, float] | None) -> Mapping[str, float] | None:
    return None if shares is None else {name: round(share, 6) for name, share in shares.items()}
