"""Exit code 4: nothing is wrong with the command, and it may succeed later."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.command_result import Millstream
from support.conditions import HANG_SECONDS

from millstream.log.journal import Journal
from millstream.runs.directory import RunDirectory


@pytest.mark.usefixtures("demo")
def test_a_run_directory_in_use_is_refused_until_it_is_released(millstream: Millstream) -> None:
    directory = RunDirectory(Path("runs/demo"))
    directory.lock()
    try:
        ran = millstream("run", "demo.yaml")
        assert (ran.code, ran.out) == (4, "")
        assert f"runs/demo is in use by process {os.getpid()}; wait for it, stop it, or give another" in ran.err
    finally:
        directory.release()
    assert millstream("run", "demo.yaml", "--records", 500, "--json").code == 0


@pytest.mark.usefixtures("demo")
def test_a_journal_with_another_writer_is_refused_until_that_writer_ends() -> None:
    with Journal(Path("news")):
        refused = append_a_line()
    assert refused.returncode == 4
    assert "is appending to news, which has one writer at a time" in refused.stderr
    assert append_a_line().returncode == 0


def append_a_line() -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "millstream", "log", "append", "journal://news"]
    return subprocess.run(command, input="{}\n", capture_output=True, text=True, check=False, timeout=HANG_SECONDS)


def test_a_full_disk_ends_a_run_which_can_be_continued(demo: Path, millstream: Millstream) -> None:
    assert millstream("run", "demo.yaml", "--records", 500, "--json").code == 0
    partial = demo / f"runs/demo/config.yaml.{os.getpid()}.tmp"
    partial.symlink_to("/dev/full")
    ran = millstream("run", "demo.yaml")
    assert (ran.code, ran.out) == (4, "")
    assert "No space left on device; make room, and run the same command again" in ran.err
    assert not partial.is_symlink()
    assert millstream("run", "demo.yaml", "--json").code == 0


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize("rows", [1, 5000])
def test_a_full_disk_below_standard_output_is_reported_once(millstream: Millstream, rows: int) -> None:
    assert millstream("run", "demo.yaml", "--records", rows, "--json").code == 0
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "millstream", "read", "runs/demo", "predictions"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=HANG_SECONDS,
        )
    assert ran.returncode == 4
    assert ran.stderr == "millstream: No space left on device; make room, and run the same command again\n"
