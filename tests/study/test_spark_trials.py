"""A study on Spark: the same table on any number of tasks, and after kills of any of its processes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.conditions import HANG_SECONDS, wait_until
from support.processes import command_line
from support.studies import TIMES, WriteStudy, run_here, write_study

import millstream as ms
from millstream.engines.spark.shared_session import SHARED
from millstream.errors import InUse, MillstreamError
from millstream.runs.termination import descendants
from millstream.study.cells import cells_of
from millstream.study.comparison import Progress, run_study
from millstream.study.plots.index import write_plots
from millstream.study.study_file import load_study

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SLOW: dict[str, Any] = {"learners": {"river": {"type": "river_nb"}}, "seeds": 10}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A session that all studies of this module share."""
    session = SHARED.open(tmp_path_factory.mktemp("spark") / "spark.log")
    yield
    SHARED.leave(session, keep=False)


def pids(word: str, root: int) -> list[int]:
    return [pid for pid in descendants(root) if word in command_line(pid)]


def times_of_parts(out: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in out.glob("parts/*.parquet")}


@contextmanager
def no_file_is_longer_than(size: int, processes: list[int]) -> Iterator[None]:
    before = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in processes}
    assert before
    try:
        for pid, (_, hard) in before.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
        yield
    finally:
        for pid, limit in before.items():
            with suppress(ProcessLookupError):  # an idle worker may have ended
                resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)


def contents(files: Iterable[Path]) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in files}


@pytest.mark.usefixtures("spark")
def test_the_table_and_plots_are_the_same_on_any_number_of_tasks(write: WriteStudy, tmp_path: Path) -> None:
    changes = {"streams": {name: {"order": name} for name in ("iid", "natural")}, "seeds": 3}
    changes["learners"] = {"nb": {"type": "naive_bayes"}, "ftrl": {"type": "ftrl"}}
    loaded = load_study(write(**changes, fewer_seeds={"ftrl": 2}))
    expected = run_here(loaded, tmp_path / "here").drop_columns(TIMES)
    assert expected.num_rows == 2 * (3 + 2) * 3
    drawn = contents(write_plots(expected, cells_of(expected, {}), tmp_path / "here/plots"))
    assert drawn
    seen: list[Progress] = []
    for tasks in (1, 3, None):
        table, _ = run_study(loaded, tmp_path / f"tasks-{tasks}", tasks=tasks, watch=seen.append)
        assert table.drop_columns(TIMES).equals(expected)
        assert seen[-1] == Progress(finished=30, trials=30, before=0)
        assert contents((tmp_path / f"tasks-{tasks}/plots").iterdir()) == drawn


@pytest.mark.usefixtures("spark")
def test_a_study_without_failures_has_a_table_and_no_plots(write: WriteStudy, tmp_path: Path) -> None:
    table, _ = run_study(load_study(write(treatments=["exactly_once"])), tmp_path / "out")
    assert table.num_rows
    assert not [*tmp_path.glob("out/plots/*")]


@pytest.mark.usefixtures("spark")
def test_python_runs_a_study_as_the_command_does(write: WriteStudy, tmp_path: Path) -> None:
    path = write(quick={"records": 300})
    study = ms.compare(path, out=tmp_path / "out", quick=True, set={"seeds": [5]})
    assert (study.name, study.path, len(study.labels)) == ("small", tmp_path / "out", 4)
    assert set(study.table["records"].to_pylist()) == {300} and set(study.table["seed"].to_pylist()) == {5}
    loaded = load_study(path, quick=True, sets=[("seeds", [5])])
    assert study.table.drop_columns(TIMES).equals(run_here(loaded, tmp_path / "here").drop_columns(TIMES))


@pytest.mark.usefixtures("spark")
def test_killed_workers_are_replaced(write: WriteStudy, tmp_path: Path) -> None:
    loaded = load_study(write(**SLOW))
    killed: list[int] = []
    finished: dict[Path, int] = {}

    def kill(progress: Progress) -> None:
        if not killed and 0 < progress.finished < progress.trials:
            finished.update(times_of_parts(tmp_path / "killed"))
            killed.extend(pids("pyspark.daemon", os.getpid()))
            for pid in killed:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    table, _ = run_study(loaded, tmp_path / "killed", tasks=2, watch=kill)
    assert killed and finished
    assert finished.items() <= times_of_parts(tmp_path / "killed").items()  # no group was run again
    assert table.drop_columns(TIMES).equals(run_here(loaded, tmp_path / "here").drop_columns(TIMES))


@pytest.mark.usefixtures("spark")
def test_a_second_study_in_the_same_folder_is_refused(write: WriteStudy, tmp_path: Path) -> None:
    loaded, refused = load_study(write()), []

    def start_another(_: Progress) -> None:
        with pytest.raises(InUse, match="another writer, in this process or another, is appending to") as found:
            run_study(loaded, tmp_path / "out")
        refused.append(found.value)

    assert run_study(loaded, tmp_path / "out", watch=start_another)[0].num_rows == 6
    assert refused
    run_study(loaded, tmp_path / "out")


@pytest.mark.usefixtures("spark")
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits the files of a running process")
def test_a_disk_that_takes_no_more_ends_the_study_with_a_remedy_and_keeps_what_is_finished(
    write: WriteStudy, tmp_path: Path
) -> None:
    """A limit of the system stands for a full disk: both refuse what a worker writes."""
    expected, _ = run_study(load_study(write(seeds=1)), tmp_path / "out")  # the workers are there now
    more = load_study(write(seeds=2))
    with no_file_is_longer_than(1000, pids("pyspark.daemon", os.getpid())), pytest.raises(MillstreamError) as ended:
        run_study(more, tmp_path / "out")
    assert "allow larger files (ulimit -f), and run the same command again" in str(ended.value)
    seen: list[Progress] = []
    table, _ = run_study(more, tmp_path / "out", watch=seen.append)
    assert seen[-1] == Progress(finished=6, trials=6, before=3)
    assert table.slice(0, 3).equals(expected)


@pytest.mark.long
@pytest.mark.parametrize("victim", ["java", "command", pytest.param("all", marks=pytest.mark.matrix)])
def test_a_killed_study_keeps_its_finished_trials(tmp_path: Path, victim: str) -> None:
    path, out = write_study(tmp_path / "small.yaml", SLOW), tmp_path / "out"
    command = [sys.executable, "-m", "millstream", "compare", str(path), "--out", str(out), "--tasks", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: len([*out.glob("parts/*.parquet")]) >= 2, "two groups of trials", process)
    family = descendants(process.pid)
    victims = {"java": pids("java", process.pid), "command": [process.pid], "all": [process.pid, *family]}
    for pid in victims[victim]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _, printed = process.communicate(timeout=HANG_SECONDS)
    if victim == "java":
        assert process.returncode == 1
        assert "the same command continues with the trials that are missing" in printed
    else:
        assert process.returncode == -signal.SIGKILL
    finished = times_of_parts(out)
    assert 2 <= len(finished) < SLOW["seeds"]

    again = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG_SECONDS)
    assert f"small: {3 * SLOW['seeds']} trials in {out}" in again.stdout
    assert "from earlier starts" in again.stderr
    assert finished.items() <= times_of_parts(out).items()
    loaded = load_study(path)
    table = run_here(loaded, out)
    assert table.drop_columns(TIMES).equals(run_here(loaded, tmp_path / "here").drop_columns(TIMES))
