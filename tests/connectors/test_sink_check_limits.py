"""The checks of a sink end, also when the sink or its reader never returns."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from millstream.log.contracts import OpenContext
from millstream.plugin.checks import SINK_CHECKS, append_process, sinks
from millstream.plugin.checks.sinks import SinkTrial
from millstream_connectors.journal import JournalSink


@pytest.fixture
def trial(tmp_path: Path) -> SinkTrial:
    return SinkTrial(JournalSink(path="rows"), OpenContext(tmp_path, tmp_path / "run", "checks"), kills=1)


def test_a_process_that_never_appends_is_killed(trial: SinkTrial, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import os, time; os.fork(); time.sleep(600)"  # the child has the same pipes
    monkeypatch.setattr(append_process, "_PROGRAM", program)
    monkeypatch.setattr(append_process, "_SECONDS", 1)
    with pytest.raises(AssertionError, match="cannot append to it, or not within 1 seconds"):
        SINK_CHECKS["rows_and_progress_are_one_step"](trial)


def test_a_read_that_never_ends_is_reported(trial: SinkTrial, monkeypatch: pytest.MonkeyPatch) -> None:
    forever = threading.Event()

    def read(*arguments: Any) -> Iterator[pa.Table]:
        forever.wait()
        yield from ()

    monkeypatch.setattr(JournalSink, "read", read)
    monkeypatch.setattr(sinks, "_READ_SECONDS", 0.2)
    with pytest.raises(AssertionError, match=r"a read beside the writer takes more than 0\.2 seconds"):
        SINK_CHECKS["a_reader_sees_whole_epochs"](trial)
    forever.set()


def test_the_reader_ends_when_an_append_fails(trial: SinkTrial, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("millstream_connectors.journal.JournalRows.append", fail)
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        SINK_CHECKS["a_reader_sees_whole_epochs"](trial)
    assert threading.active_count() == before
