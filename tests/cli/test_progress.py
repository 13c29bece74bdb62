"""The display of a run in progress."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.conditions import HANG_SECONDS, wait_until

from millstream.cli.progress_figures import Figures, RunFigures
from millstream.cli.screen import Screen, Show
from millstream.config.load import load_config
from millstream.log.epochs import EpochReader, Scores
from millstream.runs.start import Options, start
from millstream.runs.summary import Summary
from millstream.runs.watch.observer import Observer, Watched
from millstream.runs.watch.run_stats import StatsCollector
from millstream.steps.processor import EpochResult

FIGURES = Figures(
    records=5000,
    epochs=10,
    finished=10,
    per_second=2500.0,
    accuracy=0.875,
    recent=0.9,
    baselines={"no_change": 0.186, "majority": 0.223},
    popular=(("space", 0.25), ("sport", 0.2)),
    behind=45_000,
)


class Clock:
    """A clock that advances by `step` at every call."""

    def __init__(self, step: float) -> None:
        self._now, self._step = 0.0, step

    def __call__(self) -> float:
        self._now += self._step
        return self._now


def shown(show: Show, figures: Callable[[], Figures], until: str) -> str:
    """Return the output of a screen up to its close, which waits for the text `until`."""
    file = io.StringIO()
    screen = Screen(file, show, Clock(3.0))
    screen.say("continuing")
    screen.warn("no disk")
    screen.watch(figures)  # after the messages, which are then printed before the figures
    wait_until(lambda: until in file.getvalue(), f"the text {until!r}")
    screen.close()
    return file.getvalue()


EXITING = """
import signal, sys, threading
from millstream.cli.screen import Screen, Show
from millstream.cli.stop_signals import StopSignals

lock, waiting = threading.Lock(), threading.Event()

def figures():
    waiting.set()
    with lock:
        raise AssertionError

screen = Screen(sys.stderr, Show.LINES)
signals = StopSignals(screen.insist, lambda: "for nothing", screen.close)
with signals.install(), lock:
    screen.watch(figures)
    waiting.wait()
    for _ in range(3):
        signal.raise_signal(signal.SIGINT)
"""


def test_a_third_interrupt_exits_although_the_display_waits_for_the_interrupted_thread() -> None:
    ended = subprocess.run([sys.executable, "-c", EXITING], timeout=HANG_SECONDS, capture_output=True, check=False)
    assert ended.returncode == 130, ended.stderr


def test_without_a_terminal_figures_are_plain_lines() -> None:
    text = shown(Show.LINES, lambda: FIGURES, "popular")
    line = (
        "5,000 records, 2,500/s, epoch 9, 45,000 behind; accuracy 0.875, recently 0.900 "
        "(previous label 0.186, most common label 0.223); popular: space 25%, sport 20%\n"
    )
    assert text == f"continuing\nwarning: no disk\n{line}"  # once, because nothing changed afterwards


def test_lines_are_printed_while_figures_change() -> None:
    counts = iter(range(1, 1000))
    text = shown(Show.LINES, lambda: replace(FIGURES, records=next(counts), popular=()), "\n4 records")
    lines = [line.partition(",")[0] for line in text.splitlines() if "records" in line]
    assert lines[:2] == ["2 records", "4 records"]  # at every second tick: lines are five seconds apart


def test_with_json_only_warnings_are_shown() -> None:
    assert shown(Show.WARNINGS, lambda: FIGURES, "no disk") == "warning: no disk\n"


def test_topics_are_shown_without_control_characters() -> None:
    hostile = replace(FIGURES, popular=(("\x1b]0;pwned\x07\x9b31m\nspace :smile:", 0.25),))
    text = shown(Show.LINES, lambda: hostile, "popular: ")
    assert "popular: \\x1b]0;pwned\\x07\\x9b31m\\nspace :smile: 25%" in text
    assert "\x1b]0" not in text and "\x9b" not in text


def test_a_live_display_leaves_messages_and_a_cursor() -> None:
    text = shown(Show.LIVE, lambda: FIGURES, "warning: no disk")
    assert "continuing\n" in text
    assert "\x1b[?25l" not in text or text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


class FiguresObserver(Observer):
    """Takes the figures of a run after every epoch."""

    def __init__(self, run_figures: RunFigures) -> None:
        self.run_figures, self.figures = run_figures, list[Figures]()

    def finished_epoch(self, result: EpochResult) -> None:
        self.figures.append(self.run_figures.figures())


def watched_run(records: int | None) -> tuple[list[Figures], list[str], Summary]:
    observed: list[FiguresObserver] = []
    said: list[str] = []

    def observers(watched: Watched) -> Sequence[Observer]:
        stats = StatsCollector(watched, clock=Clock(0.5))
        run_figures = RunFigures(watched, stats, say=said.append, warn=pytest.fail, clock=Clock(0.5))
        observed.append(FiguresObserver(run_figures))
        return [stats, run_figures, observed[0]]

    summary = start(load_config("demo.yaml"), Options(Path("runs/demo"), records=records), observers=observers)
    return observed[0].figures, said, summary


@pytest.mark.usefixtures("demo")
def test_the_display_names_the_partition_that_has_held_the_windows_for_ten_seconds() -> None:
    """The clock of the first display is that of the last cut, the clock of the second one is ten seconds later."""
    named: list[str | None] = []

    class Later(Observer):
        def __init__(self, watched: Watched) -> None:
            self._totals = watched.epoch_log.totals
            self._figures = [
                RunFigures(
                    watched,
                    StatsCollector(watched),
                    say=pytest.fail,
                    warn=pytest.fail,
                    wall_clock=lambda later=later: self._totals.held_since + later,  # type: ignore[misc]
                )
                for later in (0, 10_000_000)
            ]

        def finished_epoch(self, result: EpochResult) -> None:
            for figures in self._figures:
                named.append(figures.figures().held)

    start(load_config("demo.yaml", ["source.records=1000"]), Options(Path("runs/held")), observers=lambda w: [Later(w)])
    first, later, *_, ended = named
    assert first is None
    assert later is not None and re.fullmatch(r"source/0 since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", later)
    assert ended is None
    waits = f"windows wait for {later}"
    assert waits in shown(Show.LINES, lambda: replace(FIGURES, held=later), waits)


@pytest.mark.usefixtures("demo")
def test_figures_are_those_of_the_run_so_far() -> None:
    figures, said, summary = watched_run(3000)
    assert said == []
    assert [f.records for f in figures] == list(range(500, 3001, 500))
    assert [f.behind for f in figures] == [2000, 1500, 1000, 500, 0, 0]  # one full epoch is cut and read ahead
    assert [f.finished for f in figures] == [1, 2, 3, 4, 5, 6]
    assert figures[-1].accuracy == summary.accuracy
    assert figures[-1].recent is not None and figures[-1].accuracy is not None
    last = list(EpochReader(Path("runs/demo/epochs")).receipts())[-2:]  # 1,000 records
    assert figures[-1].recent == Scores.sum(receipt.overall for receipt in last).accuracy
    assert figures[-1].recent > figures[-1].accuracy  # it has learned
    assert figures[0].popular == () and 2 <= len(figures[-1].popular) <= 5  # the first window is still open
    assert all(share >= 0.1 for _, share in figures[-1].popular)

    figures, said, summary = watched_run(None)
    assert said == ["continuing runs/demo from epoch 6, record 3,000"]
    assert (figures[0].records, figures[0].finished, figures[0].epochs) == (3500, 1, 7)
    assert figures[-1].accuracy == summary.accuracy
