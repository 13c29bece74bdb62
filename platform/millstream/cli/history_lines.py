"""The lines that `backfill` and `train` print while they work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from millstream.history.features import Progress

__all__ = ["HistoryLines", "feature_lines", "interruptible"]

_LINE_SECONDS = 5.0


class _Interrupted(click.ClickException):
    exit_code = 130


class HistoryLines:
    """Prints the progress to standard error: at most a line every few seconds, and the last one of each work."""

    def __init__(self, *, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet, self._clock = quiet, clock
        self._last = float("-inf")
        self._shown: Progress | None = None

    def show(self, progress: Progress) -> None:
        now, shown = self._clock(), self._shown
        soon = shown is not None and shown.doing == progress.doing and now - self._last < _LINE_SECONDS
        if self._quiet or progress == shown or (soon and progress.finished < progress.tasks):
            return
        self._last, self._shown = now, progress
        if not progress.tasks:
            click.echo(f"  {progress.doing}: starting Spark, which takes some seconds", err=True)
            return
        before = f", {progress.before:,} from earlier starts" if progress.before else ""
        done = f"{progress.finished:,} of {progress.tasks:,} {progress.unit}{before}, {progress.records:,} records"
        click.echo(f"  {progress.doing}: {done}", err=True)


@contextmanager
def interruptible() -> Iterator[None]:
    """End with the advice to run the same command again after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(err=True)  # the terminal has written ^C
        raise _Interrupted("interrupted; the same command continues with the tasks that are missing") from None


def feature_lines(result: Mapping[str, Any]) -> list[str]:
    """The lines about the cuts of computed features, and about offsets that were missing."""
    cuts = "a run that stops at the end of the log" if result["cuts"] == "bounded" else f"the run {result['cuts']}"
    epochs = f"{result['epochs']:,} epoch{'' if result['epochs'] == 1 else 's'}"
    lines = [f"  cuts: {epochs}, those of {cuts}"]
    if result.get("same_as_run"):
        lines.append("  the digests of all steps are those of the run")
    elif "same_as_run" in result:
        lines.append("  not compared with the run: it has other steps, or has not processed all of its epochs")
    for gap in result["gaps"]:
        span = f"offsets {gap['start']:,} to {gap['stop'] - 1:,}"
        reason = "the log no longer had them, or begins later by its config"
        lines.append(f"  missing: {gap['source']}/{gap['name']} {span}: {reason}")
    return lines
