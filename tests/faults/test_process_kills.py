"""kill -9, for real: of the whole run at every point, of the run alone, of one of Spark's workers."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from support.commands import LOCAL, Commands, processed, same
from support.conditions import wait_until
from support.feeds import FileFeed
from support.kills import write_killed
from support.processes import command_line, is_alive, parent

from millstream.guarantees.delivery import Point
from millstream.runs.termination import descendants


@pytest.mark.long
@pytest.mark.parametrize("point", [str(point) for point in Point])
def test_a_kill_at_every_point_on_one_machine(commands: Commands, golden: dict[str, Any], point: str) -> None:
    run = f"local-{point}"
    commands.crash(run, f"{point}@17", *LOCAL)
    same(commands.finish(run), golden)


@pytest.mark.matrix
@pytest.mark.spark
def test_a_kill_at_every_point_on_spark_one_after_the_other(commands: Commands, golden: dict[str, Any]) -> None:
    for number, point in enumerate(Point):
        commands.crash("spark-points", f"{point}@{4 + 7 * number}", "--set", "guarantee.checkpoint_every=4")
    same(commands.complete("spark-points", "--set", "guarantee.checkpoint_every=4"), golden)


@pytest.mark.soak
@pytest.mark.spark
def test_kills_at_random_moments_leave_no_process_and_no_trace(commands: Commands, golden: dict[str, Any]) -> None:
    rng = random.Random(5)
    run = commands.folder / "random"
    for _ in range(2):
        wanted = processed(run) + rng.randrange(1, 15)
        process = commands.start("random", "--follow")
        wait_until(lambda wanted=wanted: processed(run) >= wanted, "epochs on Spark", process)  # type: ignore[misc]
        family = descendants(process.pid)
        assert len(family) > 2, "Java and its workers"
        process.kill()
        process.communicate()
        wait_until(lambda family=family: not any(map(is_alive, family)), "the end of orphans")  # type: ignore[misc]
    same(commands.complete("random"), golden, cuts=False)


@pytest.mark.spark
def test_a_killed_python_worker_is_a_retry(tmp_path: Path) -> None:
    commands, feed = write_killed(tmp_path, 100), FileFeed(tmp_path / "documents", 3_000)
    process = commands.start("run", "--follow", "--set", "engine.placement.features=worker")
    feed.append(1_000)
    wait_until(lambda: processed(tmp_path / "run") >= 10, "epochs on Spark", process)
    feed.append(1_000)
    workers = python_workers(process.pid)
    assert workers
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    feed.append()
    wait_until(lambda: processed(tmp_path / "run") >= 30, "epochs after the kill", process)
    same(commands.stop(process), commands.finish("golden", "--replay", str(tmp_path / "run")))


def python_workers(pid: int) -> list[int]:
    """The Python workers of a run on Spark, without the daemon that starts them."""
    daemons = [other for other in descendants(pid) if "pyspark.daemon" in command_line(other)]
    return [other for other in daemons if "pyspark.daemon" in command_line(parent(other))]


@pytest.mark.spark
def test_a_signal_ends_the_run_after_its_epoch(commands: Commands, golden: dict[str, Any]) -> None:
    process = commands.start("signal", "--follow")
    wait_until(lambda: processed(commands.folder / "signal") >= 3, "epochs on Spark", process)
    family = descendants(process.pid)
    assert commands.stop(process)["ended"] == "stopped"
    wait_until(lambda: not any(map(is_alive, family)), "the end of Spark")
    same(commands.finish("signal"), golden, cuts=False)
