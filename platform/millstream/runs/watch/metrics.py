"""metrics.jsonl: accuracy and speed by windows, over all starts in a run directory.

The counts are computed from the receipts in the epoch log. So the next start writes the windows that a crash prevented;
only their speed is unknown then. Each record counts once, with the result of its first processing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from millstream.log.epochs import Baselines, EpochReceipt, Scores
from millstream.runs.watch.observer import Observer, Watched
from millstream.runs.watch.speed import per_second
from millstream.steps.processor import EpochResult

__all__ = ["WINDOW", "Metrics", "Window", "read_windows"]

WINDOW = 1000
"""The minimum number of records in a window; a window ends with the epoch in which it reaches this number."""


@dataclass(frozen=True)
class Window:
    """One line: the counts since the first start, and the accuracy and speed of the window.

    `baselines` are the accuracies of predictions that do not read the records. `seconds` is the known running time of
    all starts until the end of the window. `steps` has the counts and the accuracy of each step that predicts; all
    other numbers are those of their predictions together.
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
    steps: Mapping[str, Mapping[str, Any]]

    @property
    def scores(self) -> dict[str, Scores]:
        """The scores of each step since the first start."""
        return {step: Scores.from_counts(counts) for step, counts in self.steps.items()}


_BEFORE_FIRST = Window(0, -1, 0, 0, None, None, None, 0.0, Baselines().counts(), None, None, {})


def read_windows(path: Path) -> Iterator[Window]:
    """The windows in a file, which a run may be writing; an incomplete last line is left out."""
    for _, window in _lines(path):
        yield window


def _lines(path: Path) -> Iterator[tuple[int, Window]]:
    """Each window with the position in the file at which its line ends."""
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
    """Writes metrics.jsonl. Calls `then` with every window; calls `warn` once if the file cannot be written."""

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
        self._records = 0
        self._scores: dict[str, Scores] = {}
        self._last_time: tuple[float, int] | None = None
        """The time at the end of the last window in this start, and the number of records then."""
        try:
            self._open(watched.epoch_log.totals.records)
        except OSError as error:
            self._give_up(error)
        self._catch_up(watched)

    def _open(self, records: int) -> None:
        """Cut the file after the last complete line whose records are in the epoch log, and append there."""
        length = 0
        for end, window in _lines(self._path):
            if window.records > records:
                break
            length, self._written = end, window
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.ftruncate(self._file, length)

    def _catch_up(self, watched: Watched) -> None:
        """Count the epochs that earlier starts processed and that are in no window of the file."""
        last = self._written
        self._records, self._scores = last.records, last.scores
        totals = watched.epoch_log.totals
        if totals.records == last.records:
            return
        for receipt in watched.epoch_log.reader().receipts(max(last.epoch, totals.base.epoch) + 1):
            if receipt.epoch > last.epoch:
                self._count(receipt)
        # older receipts may be gone from the epoch log: its totals have all epochs
        self._records, self._scores = totals.records, dict(totals.scores)

    def started(self, first: int) -> None:
        self._last_time = (self._clock(), self._records)

    def finished_epoch(self, result: EpochResult) -> None:
        self._count(result.receipt)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _count(self, receipt: EpochReceipt) -> None:
        if receipt.attempt != 1:
            return
        self._records += receipt.records
        for step, scores in receipt.scores.items():
            self._scores[step] = self._scores.get(step, Scores()) + scores
        if self._records - self._written.records >= WINDOW:
            self._write(receipt.epoch)

    def _write(self, epoch: int) -> None:
        before, elapsed, speed = self._written, 0.0, None
        if self._last_time is not None:
            now = self._clock()
            elapsed = now - self._last_time[0]
            speed = per_second(self._records - self._last_time[1], elapsed)
            self._last_time = (now, self._records)
        known = before.scores
        fresh_of = {step: each - known.get(step, Scores()) for step, each in self._scores.items()}
        scores, fresh = Scores.of_champions(self._scores), Scores.of_champions(fresh_of)
        window = Window(
            records=self._records,
            epoch=epoch,
            correct=scores.correct,
            labelled=scores.labelled,
            accuracy=_round(scores.accuracy),
            window_accuracy=_round(fresh.accuracy),
            records_per_second=None if speed is None else round(speed, 1),
            seconds=round(before.seconds + elapsed, 3),
            baselines_correct=scores.baselines.counts(),
            baselines=_round_all(scores.baseline_accuracies),
            window_baselines=_round_all(fresh.baseline_accuracies),
            steps={
                step: {
                    **each.counts(),
                    "accuracy": _round(each.accuracy),
                    "window_accuracy": _round(fresh_of[step].accuracy),
                }
                for step, each in self._scores.items()
            },
        )
        self._written = window
        if self._file >= 0:
            try:
                os.write(self._file, json.dumps(asdict(window)).encode() + b"\n")
            except OSError as error:
                self._give_up(error)
        self._then(window)

    def _give_up(self, error: OSError) -> None:
        self._warn(f"cannot write {self._path}: {error.strerror}; the run continues without this file")
        self.close()


def _round(share: float | None) -> float | None:
    return None if share is None else round(share, 6)


def _round_all(shares: Mapping[str, float] | None) -> Mapping[str, float] | None:
    return None if shares is None else {name: round(share, 6) for name, share in shares.items()}
