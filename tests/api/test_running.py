"""`ms.start`: runs in threads, beside each other, in event loops, and ended by an interrupt."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.conditions import HANG_SECONDS, wait_until
from support.documents import document_lines

import millstream as ms
from millstream.runs.start import start


def test_a_run_follows_its_files_until_it_is_stopped(folder: Path) -> None:
    with ms.start("news.yaml", follow=True) as running:
        wait_until(lambda: running.status().records == 192, "all documents")
        assert running.status().state == "running" and running.status().process == os.getpid()
        assert ms.open_run("runs/news").output("predictions").num_rows > 0
        with (folder / "documents/part0.jsonl").open("a") as file:
            file.writelines(f"{line}\n" for line in document_lines(24, seed=9))
        wait_until(lambda: running.status().records == 216, "the appended documents")
        running.stop()
        run = running.wait()
    assert run.summary is not None and (run.summary.ended, run.summary.records) == ("stopped", 216)
    assert run.status().state == "ended" and running.wait() is run


def test_the_end_of_the_block_stops_the_run(folder: Path) -> None:
    with ms.start("news.yaml", follow=True) as running:
        running.status()
    assert ms.open_run("runs/news").status().state == "ended"
    with pytest.raises(ZeroDivisionError), ms.start("news.yaml", follow=True) as running:
        raise ZeroDivisionError
    assert ms.open_run("runs/news").status().state == "ended"


def test_a_wrong_config_is_refused_before_a_thread_starts(folder: Path) -> None:
    before = threading.active_count()
    with pytest.raises(ms.ConfigError):
        ms.start("news.yaml", set={"engine.type": "flink"})
    assert threading.active_count() == before and not (folder / "runs").exists()


def test_an_error_of_the_thread_is_raised_by_wait_and_by_status(folder: Path) -> None:
    running = ms.start("news.yaml", replay="nowhere")
    for call in (running.wait, running.status, running.wait):
        with pytest.raises(ms.MillstreamError, match="nowhere is not a run directory"):
            call()
    with pytest.raises(ms.MillstreamError, match="nowhere"), ms.start("news.yaml", replay="nowhere"):
        pass


def test_two_runs_at_the_same_time_do_not_disturb_each_other(folder: Path) -> None:
    alone = ms.run("news.yaml", run="runs/alone")
    others = [
        ms.start("news.yaml", run=f"runs/{index}", set={"pipeline.model": {"type": kind}}, follow=True)
        for index, kind in KINDS
    ]
    wait_until(lambda: all(running.status().records == 192 for running in others), "all documents in every run")
    assert [running.status().state for running in others] == ["running"] * 3
    for running in others:
        running.stop()
    for (index, kind), running in zip(KINDS, others, strict=True):
        run = running.wait()
        assert run.summary is not None and alone.summary is not None and run.path.name == str(index)
        assert (run.summary.model == alone.summary.model) == (kind == "naive_bayes")
        assert run.summary.records == 192


KINDS = [(0, "naive_bayes"), (1, "complement_nb"), (2, "naive_bayes")]


def test_a_second_run_in_the_same_directory_is_refused(folder: Path) -> None:
    with ms.start("news.yaml", follow=True) as running:
        (folder / "link").symlink_to(folder / "runs")
        for call, run in ((ms.run, "runs/news"), (ms.start, "runs/news"), (ms.start, folder / "link/news")):
            with pytest.raises(ms.InUse, match=r"is in use: this program already runs it; .* or give another `run`$"):
                call("news.yaml", run=run)
        running.stop()
        assert running.wait().status().state == "ended"
    assert ms.run("news.yaml").summary is not None


def test_of_two_starts_at_the_same_time_the_first_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()
    monkeypatch.setattr(
        "millstream.api.execution.start_run", lambda *given, **named: held.wait() and start(*given, **named)
    )
    first = ms.start("news.yaml")
    with pytest.raises(ms.InUse):
        ms.start("news.yaml")
    held.set()
    assert first.wait().status().records == 192


def test_a_second_run_with_the_sinks_of_another_is_refused_and_does_not_disturb_it(folder: Path) -> None:
    sinks = {"sinks": {name: {"type": "journal", "path": f"rows/{name}"} for name in ("predictions", "topics")}}
    with ms.start("news.yaml", run="runs/first", set=sinks, follow=True) as first:
        wait_until(lambda: first.status().records == 192, "all documents")
        with pytest.raises(ms.InUse, match=f"is appending to {folder}/rows/predictions"):
            ms.run("news.yaml", run="runs/second", set=sinks)
        with (folder / "documents/part0.jsonl").open("a") as file:
            file.writelines(f"{line}\n" for line in document_lines(24, seed=9))
        wait_until(lambda: first.status().records == 216, "the appended documents")
        first.stop()
        assert first.wait().output("predictions").num_rows > 0


def test_a_run_works_inside_an_event_loop_and_in_any_thread(folder: Path) -> None:
    found: dict[str, Any] = {}

    async def program() -> None:
        found["inside"] = ms.run("news.yaml", run="runs/inside")
        beside, in_thread = await asyncio.gather(
            asyncio.to_thread(ms.run, "news.yaml", run="runs/beside"), asyncio.to_thread(started_and_ended)
        )
        found["beside"], found["thread"] = beside, in_thread

    asyncio.run(program())
    assert len({run.summary.model for run in found.values()}) == 1


def started_and_ended() -> ms.Run:
    with ms.start("news.yaml", run="runs/thread") as running:
        return running.wait()


def test_the_current_folder_may_change_during_a_run(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    with ms.start("news.yaml", follow=True) as running:
        running.status()
        os.chdir(folder / "elsewhere")
    assert running.wait().output("predictions").num_rows == running.wait().status().records


def test_an_opened_run_stays_readable_when_the_current_folder_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ms.run("news.yaml")
    run = ms.open_run("runs/news")
    running = ms.start("news.yaml", run="runs/replayed", replay="runs/news")
    monkeypatch.chdir(folder / "documents")
    assert run.output("predictions").num_rows > 0 and run.status().records == 192
    assert running.wait().summary is not None


def test_an_error_of_the_block_has_that_of_the_run_as_a_note(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError) as raised, ms.start("news.yaml", replay="nowhere"):
        raise ZeroDivisionError
    [note] = raised.value.__notes__
    assert note.startswith(f"{folder}/runs/news ended with an error: ") and "nowhere is not a run directory" in note


def test_handlers_of_signals_stay_as_they_are(folder: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with ms.start("news.yaml", follow=True) as running:
        running.status()
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


INTERRUPTED = """
import signal
import millstream as ms
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started the tests without it
try:
    ms.run("news.yaml", follow=True)
except KeyboardInterrupt:
    print(ms.open_run("runs/news").status().state)
"""


@contextmanager
def program(code: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_an_interrupt_ends_a_run_after_its_epoch(folder: Path) -> None:
    with program(INTERRUPTED) as process:
        wait_until((folder / "runs/news/live.json").exists, "the run")
        wait_until(lambda: ms.open_run("runs/news").status().records == 192, "all documents")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=HANG_SECONDS)
    assert (process.returncode, out) == (0, "ended\n"), err


@pytest.mark.parametrize(
    "disappear",
    [lambda path: shutil.rmtree(path, ignore_errors=True), lambda path: path.rename(path.with_name("other"))],
)
def test_a_run_whose_directory_disappears_ends_with_one_error(
    folder: Path, caplog: pytest.LogCaptureFixture, disappear: Callable[[Path], object]
) -> None:
    running = ms.start("news.yaml", set={"engine.epoch.max_records": 1}, follow=True)
    wait_until(lambda: running.status().records == 192, "all documents")
    disappear(running.path)
    with (folder / "documents/part0.jsonl").open("a") as file:
        file.writelines(f"{line}\n" for line in document_lines(24, seed=9))
    with pytest.raises(ms.MillstreamError, match=r"run directory .*/runs/news is gone: it was deleted or moved while"):
        running.wait()
    assert [each for each in caplog.messages if "background" in each] == []
