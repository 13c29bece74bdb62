"""With one worker, reading ahead changes no result, and a stop leaves no epoch unfinished."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millstream.config.load import Loaded, read_config
from millstream.engines.driver import run_epochs
from millstream.engines.job import Job
from millstream.engines.local.engine import LocalEngine
from millstream.engines.local.single_process import SingleProcessFeed
from millstream.errors import Unavailable
from millstream.log.contracts import OpenContext
from millstream.log.epochs import EpochReader
from millstream.runs.start import Options, start
from millstream.runs.summary import Summary
from millstream_connectors.files.source import FilesLog, FilesSource


def loaded(folder: Path) -> Loaded:
    lines = [json.dumps({"text": f"word{n % 7} word{n % 3}", "label": "ab"[n % 2], "time": n}) for n in range(1050)]
    (folder / "documents.jsonl").write_text("".join(line + "\n" for line in lines))
    config: dict[str, Any] = {
        "name": "alone",
        "source": {"type": "files", "path": "documents.jsonl"},
        "pipeline": {"use": "text_topics", "features": {"type": "hashed_text", "dimensions": 64}},
        "engine": {"type": "local", "epoch": {"max_records": 100}},
    }
    return read_config(config, folder, "alone.yaml")


class Watching:
    """The local engine; it calls `look` with the job before every epoch is processed."""

    def __init__(self, look: Callable[[Job], None]) -> None:
        self._look = look

    def run(self, job: Job) -> None:
        process = job.processor.process

        def processed(*given: Any, **named: Any) -> Any:
            self._look(job)
            return process(*given, **named)

        job.processor.process = processed  # type: ignore[method-assign]
        LocalEngine().run(job)


class NothingAhead:
    def run(self, job: Job) -> None:
        with SingleProcessFeed(job) as feed:
            run_epochs(job, feed)


def results(summary: Summary) -> tuple[Any, ...]:
    return summary.records, summary.epochs, summary.model, summary.state, summary.outputs


def test_full_epochs_are_read_ahead_and_results_are_the_same(tmp_path: Path) -> None:
    in_flight: list[int] = []
    threads: set[str] = set()

    def look(job: Job) -> None:
        in_flight.append(job.backpressure.in_flight)
        threads.update(thread.name for thread in threading.enumerate())

    config = loaded(tmp_path)
    ahead = start(config, Options(tmp_path / "ahead"), engine=Watching(look))
    assert in_flight == [2] * 9 + [1, 1]  # the last epoch has 50 records
    assert any(name.startswith("millstream-read") for name in threads)
    assert not any(thread.name.startswith("millstream-read") for thread in threading.enumerate())
    assert results(start(config, Options(tmp_path / "not"), engine=NothingAhead())) == results(ahead)


def test_a_stop_leaves_no_epoch_that_is_cut_and_not_finished(tmp_path: Path) -> None:
    config, stop = loaded(tmp_path), threading.Event()
    stopped = start(config, Options(tmp_path / "run"), engine=Watching(lambda job: stop.set()), stop=stop)
    assert (stopped.ended, stopped.records) == ("stopped", 200)
    totals = EpochReader(tmp_path / "run/epochs").totals()
    assert totals.next_epoch == totals.committed + 1 == 2
    whole = start(config, Options(tmp_path / "whole"))
    assert results(start(config, Options(tmp_path / "run"))) == results(whole)


def test_an_error_while_reading_ahead_ends_the_run_after_the_previous_epoch(tmp_path: Path) -> None:
    config = loaded(tmp_path)

    def cut_short(job: Job) -> None:
        if job.backpressure.in_flight == 2 and job.epoch_log.totals.processed == 300:
            (tmp_path / "documents.jsonl").unlink()

    with pytest.raises(Exception, match=r"documents\.jsonl"):
        start(config, Options(tmp_path / "run"), engine=Watching(cut_short))
    assert EpochReader(tmp_path / "run/epochs").totals().processed >= 400


def test_a_source_that_cannot_be_opened_to_read_ahead_leaves_no_other_source_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, opened, closed = tmp_path, list[str](), list[str]()
    lines = "".join(f'{{"text": "word{n}", "label": "a"}}\n' for n in range(150))
    for name in ("first", "second"):
        (folder / f"{name}.jsonl").write_text(lines)
    config = read_config(
        {
            "name": "two",
            "sources": {name: {"type": "files", "path": f"{name}.jsonl"} for name in ("first", "second")},
            "pipeline": {"use": "text_topics"},
            "engine": {"type": "local", "epoch": {"max_records": 100}},
        },
        folder,
        "two.yaml",
    )
    open_log, close_log = FilesSource.open, FilesLog.close

    def open_three(source: FilesSource, context: OpenContext) -> FilesLog:
        if len(opened) == 3:  # both for the run, and one to read ahead
            raise Unavailable("the second source is away")
        opened.append(source.path)
        return open_log(source, context)

    def close(log: FilesLog) -> None:
        closed.append(log._config.path)
        close_log(log)

    monkeypatch.setattr(FilesSource, "open", open_three)
    monkeypatch.setattr(FilesLog, "close", close)
    with pytest.raises(Unavailable, match="the second source is away"):
        start(config, Options(folder / "run"))
    assert sorted(closed) == sorted(opened) == ["first.jsonl", "first.jsonl", "second.jsonl"]
