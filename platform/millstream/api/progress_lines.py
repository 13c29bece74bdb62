"""The progress of a run as lines on standard error, for programs and notebooks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from millstream.runs.watch.observer import Observer, Watched
from millstream.steps.processor import EpochResult

__all__ = ["ProgressLines"]

_LEAST_SECONDS = 1.0


class ProgressLines(Observer):
    """Prints a line after the first epoch of a start, then at most one line a second, and one at the end."""

    def __init__(self, watched: Watched, clock: Callable[[], float] = time.monotonic) -> None:
        self._watched, self._clock = watched, clock
        self._printed_at: float | None = None
        self._epoch, self._is_printed = -1, True

    def finished_epoch(self, result: EpochResult) -> None:
        self._epoch, self._is_printed = result.epoch.number, False
        if self._printed_at is None or self._clock() - self._printed_at >= _LEAST_SECONDS:
            self._print()

    def close(self) -> None:
        if not self._is_printed:
            self._print()

    def _print(self) -> None:
        self._printed_at, self._is_printed = self._clock(), True
        totals = self._watched.epoch_log.totals
        parts = [f"{totals.records:,} records", f"epoch {self._epoch:,}"]
        if (behind := self._watched.cutter.behind) is not None:
            parts.append(f"{behind:,} behind")
        if totals.accuracy is not None:
            parts.append(f"accuracy {totals.accuracy:.4f}")
        sys.stderr.write(f"{self._watched.loaded.config.name}: {', '.join(parts)}\n")
        sys.stderr.flush()
