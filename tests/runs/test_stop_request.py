"""A request to stop reaches the process that holds a run directory, also where the system cannot verify it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.runs.directory import RunDirectory
from millstream.runs.stop_request import has_ended, request_stop

HOLDER = """\
import signal, sys, threading
from pathlib import Path
from millstream.runs.directory import RunDirectory
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
held = RunDirectory(Path(sys.argv[1]))
held.lock(ends_on_signal=True)
print("locked", flush=True)
stop.wait()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the run directory `run` until it gets SIGTERM."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_the_process_that_holds_the_run_is_stopped(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    directory = RunDirectory(tmp_path / "run")
    assert not has_ended(directory, holder.pid)
    assert request_stop(directory) == holder.pid
    assert holder.wait() == 0
    assert has_ended(directory, holder.pid)
    assert request_stop(directory) is None


def test_without_proc_the_id_in_the_lock_file_counts(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    assert request_stop(RunDirectory(tmp_path / "run"), processes=tmp_path / "nowhere") == holder.pid
    assert holder.wait() == 0


def test_a_kernel_without_descriptors_of_processes_is_enough(
    tmp_path: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(process: int) -> int:
        raise OSError(errno.ENOSYS, "not implemented")

    monkeypatch.setattr(os, "pidfd_open", missing)
    assert request_stop(RunDirectory(tmp_path / "run")) == holder.pid
    assert holder.wait() == 0
