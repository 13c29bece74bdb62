"""The workers of a run: a start that fails halfway leaves nothing, and a lost worker is reported with its exit code."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from millstream.config.load import Loaded, read_config
from millstream.engines.job import Job
from millstream.engines.local.worker_pool import LocalWorkerPool
from millstream.errors import MillstreamError, WorkerLost
from millstream.runs.start import Options, start


def loaded(folder: Path) -> Loaded:
    (folder / "documents.jsonl").write_text('{"text": "rain", "label": "weather"}\n')
    config = {
        "name": "workers",
        "source": {"type": "files", "path": "documents.jsonl"},
        "pipeline": {"use": "text_topics"},
        "engine": {"type": "local", "workers": 3},
    }
    return read_config(config, folder, "workers.yaml")


class Using:
    """An engine that only starts the workers of a job, and calls a function with them."""

    def __init__(self, use: Callable[[LocalWorkerPool], None]) -> None:
        self._use = use

    def run(self, job: Job) -> None:
        with LocalWorkerPool(job) as pool:
            self._use(pool)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_start_that_fails_halfway_leaves_no_process_and_no_open_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: list[int] = []
    started: list[str] = []
    start_process = ForkServerProcess.start

    def start_two(process: ForkServerProcess) -> None:
        if len(started) == 2:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        started.append(process.name)
        start_process(process)

    class Counting(Using):
        def run(self, job: Job) -> None:
            with LocalWorkerPool(job):
                pass  # the fork server and its connection stay
            monkeypatch.setattr(ForkServerProcess, "start", start_two)
            files.append(open_files())
            try:
                super().run(job)
            finally:
                files.append(open_files())

    with pytest.raises(MillstreamError, match=r"3 workers cannot be started: Too many open files; use fewer workers"):
        start(loaded(tmp_path), Options(tmp_path / "run"), engine=Counting(lambda pool: None))
    assert [name.rpartition(": ")[2] for name in started] == ["reader 0", "reader 1"]
    assert files[0] == files[1]
    assert not multiprocessing.active_children()


def test_an_exit_code_that_comes_late_is_reported(tmp_path: Path) -> None:
    """The fork server, which has the exit code, is stopped for longer than a loaded machine delays it."""

    def kill(pool: LocalWorkerPool) -> None:
        server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
        worker = next(process for process in multiprocessing.active_children() if process.name.endswith(": reader 1"))
        os.kill(server, signal.SIGSTOP)
        late = threading.Timer(1.5, os.kill, (server, signal.SIGCONT))
        late.start()
        try:
            os.kill(worker.pid or 0, signal.SIGKILL)
            pool.receive(None)
        finally:
            late.join()

    with pytest.raises(WorkerLost, match=r"^reader 1 \(process \d+\) was killed by SIGKILL$"):
        start(loaded(tmp_path), Options(tmp_path / "run"), engine=Using(kill))


def test_workers_start_without_a_warning_after_python_lost_its_tracker_of_resources(tmp_path: Path) -> None:
    """The tracker is a process of the run too, and may be killed with the workers; here a warning is an error."""

    class Killing(Using):
        def run(self, job: Job) -> None:
            with LocalWorkerPool(job):
                tracker = resource_tracker._resource_tracker._pid  # type: ignore[attr-defined]
                os.kill(tracker, signal.SIGKILL)
                os.waitid(os.P_PID, tracker, os.WEXITED | os.WNOWAIT)
            super().run(job)

    def end(pool: LocalWorkerPool) -> None:
        message = "the workers have started again"
        raise WorkerLost(message)

    with pytest.raises(WorkerLost, match="the workers have started again"):
        start(loaded(tmp_path), Options(tmp_path / "run"), engine=Killing(end))
