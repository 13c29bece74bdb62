"""Histories on Spark: the executors read the records, and the results are those of this process and of runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from support.conditions import HANG_SECONDS, wait_until
from support.golden import Golden, GoldenRuns
from support.histories import HereSession, state_in
from support.processes import command_line

from millstream.config.load import load_config
from millstream.engines.spark.engine import SparkEngine
from millstream.engines.spark.shared_session import SHARED
from millstream.history.backfill import backfill
from millstream.history.features import Progress
from millstream.history.folder import HistoryFolder, Note
from millstream.history.train import train
from millstream.runs.termination import descendants

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module", autouse=True)
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The session of all tests of this module, which other modules of this process may go on using."""
    session = SHARED.open(tmp_path_factory.mktemp("spark") / "spark.log")
    yield
    SHARED.leave(session, keep=True)


def run_of(golden: Golden) -> Path:
    return golden.pipeline.folder / "runs" / golden.run


def test_executors_read_all_records_and_the_driver_none(golden_runs: GoldenRuns, tmp_path: Path) -> None:
    golden = golden_runs["counted_before"]
    loaded, seen = golden.pipeline.loaded("golden"), list[Progress]()
    found = backfill(loaded, tmp_path / "out", block_records=30, watch=seen.append)
    here = backfill(loaded, tmp_path / "here", block_records=30, sessions=HereSession)
    executors = found.result["executors"]
    assert sum(executors.values()) == golden.summary.records
    assert executors.keys().isdisjoint({str(os.getpid())})
    assert here.result["executors"] == {str(os.getpid()): golden.summary.records}
    assert found.result["digests"] == here.result["digests"]
    names = [file.relative_to(tmp_path / "here") for file in (tmp_path / "here").glob("features/*/*.parquet")]
    assert len(names) == 6
    for name in names:
        assert pq.read_table(tmp_path / "out" / name).equals(pq.read_table(tmp_path / "here" / name))
    assert (seen[-1].finished, seen[-1].tasks, seen[-1].records) == (6, 6, golden.summary.records)


@pytest.mark.parametrize("name", ["join", pytest.param("sgd", marks=pytest.mark.matrix)])
def test_the_model_is_that_of_runs_on_spark_and_in_one_process(
    golden_runs: GoldenRuns, tmp_path: Path, name: str
) -> None:
    golden = golden_runs[name]
    pipeline = golden.pipeline
    found = train(pipeline.loaded("golden"), tmp_path / "out", replay=run_of(golden), block_records=50)
    assert found.version.digest == state_in(run_of(golden), "classify")
    on_spark = Golden(pipeline, "golden", golden.summary).on({"spark": SparkEngine(keep_session=True)}, "spark")  # type: ignore[arg-type]
    on_spark.run("on-spark", replay=run_of(golden))
    assert found.version.digest == state_in(pipeline.folder / "runs/on-spark", "classify")


def test_an_averaged_model_does_not_depend_on_the_tasks(golden_runs: GoldenRuns, tmp_path: Path) -> None:
    golden = golden_runs["counted_before"]
    model = {"type": "ftrl", "features": {"dimensions": 256}}
    steps: list[dict[str, Any]] = [{"type": "classify", "model": model}]
    loaded = replace(golden.pipeline, steps=steps, sinks={}).loaded("golden")
    options: dict[str, Any] = {"how": "averaged", "round_records": 100, "block_records": 50}
    found = [train(loaded, tmp_path / f"{tasks}", tasks=tasks, **options) for tasks in (1, 3)]
    here = train(loaded, tmp_path / "here", sessions=HereSession, **options)
    assert {each.version.digest for each in found} == {here.version.digest}
    assert (here.result["parts"], here.result["rounds"]) == (4, 2)


def test_killed_executors_are_replaced_and_run_no_task_again(golden_runs: GoldenRuns, tmp_path: Path) -> None:
    golden, killed, notes = golden_runs["counted_before"], list[int](), dict[str, Note]()
    loaded = golden.pipeline.loaded("golden")

    def kill(progress: Progress) -> None:
        if not killed and progress.doing == "features" and 0 < progress.finished < progress.tasks:
            notes.update(HistoryFolder(tmp_path / "out").done({}))
            killed.extend(pid for pid in descendants(os.getpid()) if "pyspark.daemon" in command_line(pid))
            for pid in killed:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    slow = replace(golden.pipeline, epoch_records=2).loaded("golden")
    found = backfill(slow, tmp_path / "out", block_records=1, tasks=2, watch=kill)
    assert killed and notes
    assert notes.items() <= HistoryFolder(tmp_path / "out").done({}).items()
    assert found.result["digests"] == backfill(loaded, tmp_path / "here", sessions=HereSession).result["digests"]


def test_an_error_of_an_executor_is_reported_as_it_is(golden_runs: GoldenRuns, tmp_path: Path) -> None:
    golden = golden_runs["counted_before"]
    gone = golden.pipeline.folder / "runs/gone"
    golden.pipeline.run("gone")
    moved = gone / "epochs-moved"

    def move(progress: Progress) -> None:
        if progress.doing == "cuts":
            (gone / "epochs").rename(moved)

    with pytest.raises(Exception, match="the folder with the epoch log of this run, is gone") as found:
        backfill(golden.pipeline.loaded("golden"), tmp_path / "out", replay=gone, watch=move)
    assert type(found.value).__name__ == "AlteredLog"


@pytest.mark.long
def test_a_killed_backfill_is_completed(tmp_path: Path) -> None:
    config = {
        "name": "killed",
        "source": {"type": "generator", "records": 240_000, "partitions": 4, "topics": 4},
        "pipeline": {"steps": [{"type": "hashed_text"}, {"type": "classify", "model": {"type": "naive_bayes"}}]},
    }
    path, out = tmp_path / "pipeline.yaml", tmp_path / "out"
    path.write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "millstream", "backfill", str(path), "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: len([*out.glob("done/*.json")]) >= 2, "two tasks", process)
    family = descendants(process.pid)
    for pid in [process.pid, *family]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=HANG_SECONDS)
    done = dict(HistoryFolder(out).done({}))
    assert 2 <= len(done) < 8
    again = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG_SECONDS)
    assert f"{len(done)} from earlier starts" in again.stderr
    assert "240,000 records" in again.stdout
    golden = backfill(load_config(path), tmp_path / "golden", sessions=HereSession).result
    result = json.loads((out / "backfill.json").read_text())["result"]
    assert {key: result[key] for key in ("digests", "rows")} == {key: golden[key] for key in ("digests", "rows")}
