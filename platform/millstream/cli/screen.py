"""The display of a run in progress: live figures on a terminal, plain lines elsewhere.

One thread writes everything to standard error through its own file descriptor. Code that redirects standard error for a
while, as Spark's start does, therefore does not redirect the display.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from millstream.cli.log_lines import Level, display_line
from millstream.cli.progress_figures import Figures
from millstream.plain_text import one_line

__all__ = ["Screen", "Show", "standard_error"]

_TICK_SECONDS = 0.25
_LINE_SECONDS = 5.0
_BAR_WIDTH = 40


class Show(Enum):
    """The form of the display: live figures, plain lines, or warnings only."""

    LIVE = "live"
    LINES = "lines"
    WARNINGS = "warnings"


def standard_error() -> TextIO:
    """Return a duplicate of standard error that later redirections do not affect; the caller closes it."""
    try:
        return os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8", errors="replace")
    except (OSError, ValueError, AttributeError):  # replaced by an object that is no file
        return sys.stderr


class Screen:
    """Shows messages and figures until it is closed; any thread and any signal handler may send messages."""

    def __init__(
        self,
        file: TextIO,
        show: Show,
        clock: Callable[[], float] = time.monotonic,
        *,
        line: Callable[[Level, str], str] = display_line,
        verbose: bool = False,
    ) -> None:
        self._console = Console(file=file, highlight=False, emoji=False)
        self._show, self._clock, self._line, self._verbose = show, clock, line, verbose
        self._messages: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._figures: Callable[[], Figures] | None = None
        self._activity = ""
        self._live: Live | None = None
        self._began = clock()
        self._shown: tuple[float, Figures | None] = (self._began, None)
        if show is Show.LIVE:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
            )
            self._live.start()
            self._console.show_cursor(True)  # kill -9 would leave the terminal without a cursor
        self._thread = threading.Thread(target=self._run, name="millstream-screen", daemon=True)
        self._thread.start()

    def say(self, message: str) -> None:
        """Print a permanent line, unless only warnings are shown."""
        self.log(Level.INFO, message)

    def insist(self, message: str) -> None:
        """Print a permanent line in every form of the display."""
        self._messages.put(self._line(Level.INFO, message))

    def warn(self, message: str) -> None:
        self.log(Level.WARNING, message)

    def log(self, level: Level, message: str) -> None:
        """Print a permanent line if the display shows messages of this level; debug messages only if it is verbose."""
        hidden = (Level.DEBUG, Level.INFO) if self._show is Show.WARNINGS else () if self._verbose else (Level.DEBUG,)
        if level not in hidden:
            self._messages.put(self._line(level, message))

    def show_activity(self, activity: str) -> None:
        """Show this activity until the first epoch is finished."""
        self._activity = activity

    def watch(self, figures: Callable[[], Figures]) -> None:
        """Show the results of this function from now on."""
        self._figures = figures

    def close(self, timeout: float | None = None) -> None:
        """Print the messages that were sent, and restore the terminal.

        A signal handler passes a `timeout`, because the figures may wait for a lock of the thread that it interrupted.
        """
        self._closing.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        with suppress(OSError):  # standard error is closed
            while not self._closing.wait(_TICK_SECONDS):
                self._tick()
            self._drain()
            if self._live is not None:
                self._live.stop()

    def _tick(self) -> None:
        self._drain()
        if self._show is Show.WARNINGS or (self._figures is None and self._live is None):
            return
        figures = self._figures() if self._figures is not None else None
        if self._live is not None:
            self._live.update(_display(figures, f"{self._activity}: {self._clock() - self._began:.0f} s"), refresh=True)
        elif figures is not None and self._clock() - self._shown[0] >= _LINE_SECONDS:
            if figures != self._shown[1] and figures.finished:
                self._print(self._line(Level.INFO, _figures_line(figures)))
            self._shown = (self._clock(), figures)

    def _drain(self) -> None:
        while not self._messages.empty():
            self._print(self._messages.get())

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)


def _figures_line(figures: Figures) -> str:
    """Return the figures in one line.

    >>> _figures_line(Figures(5000, 1, 1, 2500.0, None, None, None, (("storms", 0.41),), 45000))
    '5,000 records, 2,500/s, epoch 0, 45,000 behind; popular: storms 41%'
    """
    return "; ".join(_parts(figures))


def _parts(figures: Figures) -> list[str]:
    """Return progress, accuracy and popular topics, each for one line of a terminal."""
    progress = [f"{figures.records:,} records"]
    if figures.per_second is not None:
        progress.append(f"{figures.per_second:,.0f}/s")
    progress.append(f"epoch {figures.epochs - 1:,}")
    if figures.behind is not None:
        progress.append(f"{figures.behind:,} behind")
    parts = [", ".join(progress)]
    if figures.accuracy is not None and (baselines := figures.baselines) is not None:
        recent = "" if figures.recent is None else f", recently {figures.recent:.3f}"
        shares = f" (previous label {baselines['no_change']:.3f}, most common label {baselines['majority']:.3f})"
        parts.append(f"accuracy {figures.accuracy:.3f}{recent}{shares}")
    if figures.popular:
        parts.append("popular: " + ", ".join(f"{topic} {share:.0%}" for topic, share in figures.popular))
    if figures.held is not None:
        parts.append(f"windows wait for {figures.held}")
    return [one_line(part) for part in parts]


def _display(figures: Figures | None, activity: str) -> RenderableType:
    if figures is None or not figures.finished:
        return Text(activity, style="dim")
    lines: list[RenderableType] = []
    if figures.behind is not None:
        total = max(1, figures.records + figures.behind)
        lines.append(ProgressBar(total=total, completed=figures.records, width=_BAR_WIDTH))
    lines += [Text(part, no_wrap=True, overflow="ellipsis") for part in _parts(figures)]
    return Group(*lines)
