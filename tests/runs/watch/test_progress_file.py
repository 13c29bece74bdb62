"""live.json exists while a run is running, and is ignored unless its process holds the directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.runs.directory import RunDirectory
from millstream.runs.watch.progress_file import ProgressFile, read_run_stats
from millstream.runs.watch.run_stats import RunStats

RUN_STATS = RunStats(500.0, 0.004, 0.02, 1, 1, "worker 1 was killed by SIGKILL")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[RunDirectory]:
    """A run directory that this process holds."""
    held = RunDirectory(tmp_path / "run")
    held.lock()
    yield held
    held.release()


def test_the_values_of_a_run_can_be_read_until_it_ends(directory: RunDirectory) -> None:
    assert read_run_stats(directory) is None
    live = ProgressFile(directory, lambda: RUN_STATS, warn=pytest.fail)
    assert read_run_stats(directory) == RUN_STATS
    live.close()
    assert sorted(os.listdir(directory.path)) == ["lock"]


def test_the_file_of_a_killed_run_is_ignored_by_readers_of_the_next(directory: RunDirectory) -> None:
    directory.live.write_text('{"process": 1, "stats": {}}')
    assert read_run_stats(directory) is None


def test_a_file_that_cannot_be_written_causes_one_warning(directory: RunDirectory) -> None:
    directory.live.mkdir()
    warnings: list[str] = []
    ProgressFile(directory, lambda: RUN_STATS, warn=warnings.append).close()
    lost = "`millstream status` cannot show the speed and latency of this run"
    assert warnings == [f"cannot write {directory.live}: Is a directory; {lost}"]
    assert sorted(os.listdir(directory.path)) == ["live.json", "lock"]
