"""kill -9 at the points of the epochs before, with and after a shadow enters and takes its champion's place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.conditions import HANG_SECONDS
from support.documents import write_documents
from support.histories import state_in
from support.pipelines import results
from support.shadow_run import ENTERS, SWAPS, config, run

from millstream.guarantees.delivery import Point
from millstream.runs.directory import RunDirectory
from millstream.runs.model_versions import newest_artefact
from millstream.runs.start import Options, start

AROUND = (ENTERS - 1, ENTERS, ENTERS + 1, SWAPS - 1, SWAPS, SWAPS + 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_documents(tmp_path / "documents")
    other = config(tmp_path, 1, "complement_nb")
    start(other, Options(tmp_path / "other", records=90))
    newest_artefact(RunDirectory(tmp_path / "other"), other).version.save(tmp_path / "version")
    return tmp_path


def killed(folder: Path, name: str, workers: int, crash: str) -> None:
    """Run in another process, which is killed at this point."""
    command = [sys.executable, "-m", "support.shadow_run", str(folder), name, str(workers), crash]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert ended.returncode == -signal.SIGKILL, (crash, ended.stderr)


def points(number: int) -> list[str]:
    """A point in each epoch around the events; over five numbers, each point of each of these epochs."""
    order = list(Point)
    return [f"{order[(number + index) % len(order)]}@{epoch}" for index, epoch in enumerate(AROUND)]


@pytest.mark.parametrize(
    ("kills", "workers"),
    [
        pytest.param([f"process@{ENTERS}", f"deliver@{SWAPS}", f"checkpoint@{SWAPS + 1}"], 1, id="three"),
        *(
            pytest.param(points(number), workers, id=f"all-{number}-{workers}", marks=pytest.mark.matrix)
            for number in range(len(Point))
            for workers in (1, 2)
        ),
    ],
)
def test_kills_around_a_swap_change_nothing(folder: Path, kills: list[str], workers: int) -> None:
    golden = run(folder, "golden")
    for crash in kills:
        killed(folder, "run", workers, crash)
    assert results(run(folder, "run")) == results(golden)
    assert state_in(folder / "run", "label") == state_in(folder / "golden", "label")
