"""metrics.jsonl: accuracy and speed, window by window, over the life of a run directory.

The counts are a fold over the epoch log's notes, so what a crash kept from being written is written by the next start;
only its speed is then unknown. Records count once, as they were first processed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from millstream.log.baselines import Baselines, both
from millstream.log.epochs import Note
from millstream.runs.observer import Observer, Watched
from millstream.steps.processor import EpochResult

__all__ = ["Metrics", "Window", "read_windows"]

WINDOW = 1000
"""The least records of a window; it ends with an epoch."""


@dataclass(frozen=True)
class Window:
    """One line: counts since the run began, the window's own accuracy, and how fast it was.

    `baselines` are what the accuracies would be without reading the records; not known of what an older version has
    processed. `seconds` is how long the run had been running by then, all starts together, as far as is known.
    """

    records: int
    epoch: int
    correct: int
    labelled: int
    accuracy: float | None
    window_accuracy: float | None
    records_per_second: float | None
    seconds: float
    baselines_correct: Mapping[str, int] | None = None
    baselines: Mapping[str, float] | None = None
    window_baselines: Mapping[str, float] | None = None

    def right(self) -> Baselines | None:
        """How many records the baselines had right by then."""
        if self.baselines_correct is None:
            return None if self.labelled else Baselines()
        return Baselines(**self.baselines_correct)


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
        self._written = Window(0, -1, 0, 0, None, None, None, 0.0)
        self._records = self._correct = self._labelled = 0
        self._baselines: Baselines | None = Baselines()
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
        self._records, self._correct, self._labelled = last.records, last.correct, last.labelled
        self._baselines = last.right()
        totals = watched.epoch_log.totals
        if totals.records == last.records:
            return
        for note in watched.epoch_log.reader().notes(last.epoch + 1):
            if note.epoch > last.epoch:
                self._count(note)
        # the epoch log no longer goes back that far
        self._records, self._correct, self._labelled = totals.records, totals.correct, totals.labelled
        self._baselines = totals.baselines

    def started(self, first: int) -> None:
        self._timed = (self._clock(), self._records)

    def finished_epoch(self, result: EpochResult) -> None:
        self._count(result.note)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _count(self, note: Note) -> None:
        if note.attempt != 1:
            return
        self._records += note.records
        self._correct += note.correct
        self._labelled += note.labelled
        if note.labelled:
            self._baselines = both(self._baselines, note.baselines)
        if self._records - self._written.records >= WINDOW:
            self._write(note.epoch)

    def _write(self, epoch: int) -> None:
        before, passed, speed = self._written, 0.0, None
        if self._timed is not None:
            now = self._clock()
            passed = now - self._timed[0]
            speed = round((self._records - self._timed[1]) / passed, 1) if passed > 0 else None
            self._timed = (now, self._records)
        now_right, then_right = self._baselines, before.right()
        fresh = now_right - then_right if now_right is not None and then_right is not None else None
        window = Window(
            records=self._records,
            epoch=epoch,
            correct=self._correct,
            labelled=self._labelled,
            accuracy=_share(self._correct, self._labelled),
            window_accuracy=_share(self._correct - before.correct, self._labelled - before.labelled),
            records_per_second=speed,
            seconds=round(before.seconds + passed, 3),
            baselines_correct=None if now_right is None else now_right.counts(),
            baselines=_shares(now_right, self._labelled),
            window_baselines=_shares(fresh, self._labelled - before.labelled),
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


def _shares(right: Baselines | None, labelled: int) -> Mapping[str, float] | None:
    shares = right.shares(labelled) if right is not None else None
    return None if shares is None else {name: round(share, 6) for name, share in shares.items()}


def _share(correct: int, labelled: int) -> float | None:
    return round(correct / labelled, 6) if labelled else None
