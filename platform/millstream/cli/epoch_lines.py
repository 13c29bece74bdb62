"""Messages about every epoch and every checkpoint, for `run --verbose`, and the epoch in log lines."""

from __future__ import annotations

from collections.abc import Callable

from millstream.cli.log_lines import Level, LogLines
from millstream.runs.watch.observer import Observer
from millstream.state.checkpoints import Checkpoint
from millstream.steps.processor import EpochResult

__all__ = ["EpochLines"]


class EpochLines(Observer):
    """Logs finished epochs and checkpoints as debug messages; log lines get the number of the last finished epoch."""

    def __init__(self, log: Callable[[Level, str], None], lines: LogLines | None) -> None:
        self._log, self._lines = log, lines

    def finished_epoch(self, result: EpochResult) -> None:
        if self._lines is not None:
            self._lines.epoch = result.epoch.number
        again = f", attempt {result.receipt.attempt}" if result.receipt.attempt > 1 else ""
        self._log(Level.DEBUG, f"epoch {result.epoch.number} is finished: {result.receipt.records:,} records{again}")

    def checkpointed(self, checkpoint: Checkpoint, seconds: float) -> None:
        self._log(Level.DEBUG, f"checkpoint {checkpoint.number} is written, in {seconds * 1000:,.0f} ms")
