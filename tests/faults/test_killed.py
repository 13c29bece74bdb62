"""kill -9, for real: of the whole run at every point, of the run alone, of one of Spark's workers."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from faults.conftest import EPOCH, RECORDS, Commands, wait_until

from millstream.guarantees.delivery import Point
from millstream.log.epochs import EpochReader
from millstream.runs.termination import descendants

LOCAL = ("--set", "engine.type=local")


def same(summary: dict[str, Any], golden: dict[str, Any]) -> None:
    for key in ("records", "epochs", "accuracy", "baselines", "model", "state", "outputs"):
        assert summary[key] == golden[key], key


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def noted(run: Path) -> int:
    """How many notes a run that goes on has written."""
    try:
        return sum(1 for _ in EpochReader(run / "epochs").notes())
    except Exception:  # it is only being made
        return 0


@pytest.mark.parametrize("point", [str(point) for point in Point])
def test_a_kill_at_every_point_on_one_machine(commands: Commands, golden: dict[str, Any], point: str) -> None:
    run = f"local-{point}"
    commands.crash(run, f"{point}@37", *LOCAL)
    same(commands.finish(run, *LOCAL), golden)


@pytest.mark.spark
def test_a_kill_at_every_point_on_spark_one_after_the_other(commands: Commands, golden: dict[str, Any]) -> None:
    for place, point in enumerate(Point):
        commands.crash("spark-points", f"{point}@{10 + 20 * place}", "--set", "guarantee.save_every=4")
    same(commands.finish("spark-points", "--set", "guarantee.save_every=4"), golden)


@pytest.mark.soak
@pytest.mark.spark
def test_kills_at_random_moments_leave_no_process_and_no_trace(commands: Commands, golden: dict[str, Any]) -> None:
    rng = random.Random(5)
    run = commands.folder / "random"
    for _ in range(2):
        before = noted(run)
        process = commands.start("random")
        wanted = before + rng.randrange(1, RECORDS // EPOCH // 4)
        wait_until(lambda wanted=wanted: noted(run) >= wanted, "epochs on Spark")  # type: ignore[misc]
        family = descendants(process.pid)
        assert len(family) > 2, "Java and its workers"
        process.kill()
        process.communicate()
        wait_until(lambda family=family: not any(map(is_alive, family)), "the end of orphans")  # type: ignore[misc]
    same(commands.finish("random"), golden)


@pytest.mark.spark
def test_a_killed_python_worker_is_a_retry(commands: Commands, golden: dict[str, Any]) -> None:
    process = commands.start("worker", "--set", "engine.run.features=worker")
    wait_until(lambda: noted(commands.folder / "worker") >= 3, "epochs on Spark")
    workers = [pid for pid in descendants(process.pid) if "pyspark.daemon" in cmdline(pid)]
    assert workers
    for pid in workers:
        if "pyspark.daemon" in cmdline(parent(pid)):  # a worker, not the daemon that made it
            os.kill(pid, signal.SIGKILL)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    import json

    same(json.loads(out.splitlines()[-1]), golden)


@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGTERM])
def test_a_signal_ends_the_run_after_its_epoch(commands: Commands, golden: dict[str, Any], number: int) -> None:
    run = f"signal-{number}"
    process = commands.start(run)
    wait_until(lambda: noted(commands.folder / run) >= 3, "epochs on Spark")
    family = descendants(process.pid)
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert not any(map(is_alive, family))
    same(commands.finish(run, *LOCAL), golden)


def cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
