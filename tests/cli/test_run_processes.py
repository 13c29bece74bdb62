"""Runs in separate processes: signals, kills, and commands that read the directory of a running run."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from support.command_result import Millstream
from support.conditions import HANG_SECONDS, wait_until

from millstream.runs.termination import descendants
from millstream_connectors.kafka.broker import free_port

Begin = Callable[..., "subprocess.Popen[str]"]

FOLLOWING = ("--set", "source.rate=2000", "--set", "source.records=null")


@pytest.fixture
def begin(demo: Path) -> Iterator[Begin]:
    """Return a function that starts a command line in its own process group, which is killed at the end of the test."""
    processes: list[subprocess.Popen[str]] = []

    def begin_process(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", "from millstream.cli import main; main()", *arguments]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, cwd=demo, text=True, start_new_session=True, stdout=pipe, stderr=pipe)
        processes.append(process)
        return process

    yield begin_process
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def windows(run: Path) -> int:
    path = run / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=HANG_SECONDS)
    return process.returncode, out, err


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_after_its_epoch_and_the_next_start_continues(
    begin: Begin, demo: Path, millstream: Millstream, number: signal.Signals
) -> None:
    process = begin("run", "demo.yaml", *FOLLOWING, "--json")
    wait_until(lambda: windows(demo / "runs/demo") >= 2, "windows", process)
    process.send_signal(number)
    code, out, err = ended(process)
    assert (code, err) == (0, "stopping after the epoch in progress\n")
    first = json.loads(out)
    assert first["ended"] == "stopped" and first["processed"] == first["records"] >= 2000
    assert json.loads(millstream("status", "runs/demo", "--json").out)["state"] == "ended"

    rest = millstream("run", "demo.yaml", *FOLLOWING, "--records", 1000, "--json")
    summary = json.loads(rest.out)
    assert summary["processed"] == summary["records"] >= first["records"] + 1000
    offsets = [row["_offset"] for row in lines(millstream("read", "runs/demo", "predictions").out)]
    assert sorted(offsets) == list(range(summary["records"]))


def test_a_run_directory_has_one_run_and_can_be_read_meanwhile(
    begin: Begin, demo: Path, millstream: Millstream
) -> None:
    process = begin("run", "demo.yaml", *FOLLOWING)
    wait_until(lambda: windows(demo / "runs/demo") >= 2, "windows", process)

    second = millstream("run", "demo.yaml", *FOLLOWING)
    assert second.code == 4
    assert f"runs/demo is in use by process {process.pid}; wait for it, stop it, or give another --run" in second.err

    status = json.loads(millstream("status", "runs/demo", "--json").out)
    assert (status["state"], status["process"]) == ("running", process.pid)
    assert status["records"] >= 2000 and status["epochs"]["cut"] >= status["epochs"]["committed"] > 0
    assert status["partitions"][0]["end"] > 0 and status["unknown"] == {}

    offsets = [row["_offset"] for row in lines(millstream("read", "runs/demo", "predictions").out)]
    assert sorted(offsets) == list(range(len(offsets))) and len(offsets) >= 2000
    assert lines(millstream("predict", "runs/demo", "anything", "--json").out)[0]["predicted"]

    process.terminate()
    code, out, _ = ended(process)
    assert code == 0 and out.startswith("stopped after epoch ")


def test_status_prints_speed_and_latency_of_a_running_run(begin: Begin, demo: Path, millstream: Millstream) -> None:
    process = begin("run", "demo.yaml", *FOLLOWING)

    def status_now() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(millstream("status", "runs/demo", "--json").out)
        return found

    status: dict[str, Any] = {}

    def measured() -> bool:
        if windows(demo / "runs/demo") >= 1:
            status.update(status_now())
        run_stats = status.get("stats") or {}
        return bool(run_stats.get("records_per_second") and run_stats.get("latency_99"))

    wait_until(measured, "speed and latency", process)
    run_stats = status["stats"]
    assert 0 < run_stats["latency_median"] <= run_stats["latency_99"]
    assert run_stats["epochs_in_flight"] in (0, 1, 2) and (run_stats["restarts"], run_stats["last_restart"]) == (
        0,
        None,
    )
    assert status["checkpoint_age"] >= 0

    printed = millstream("status", "runs/demo").out
    for line in (
        r"speed      [\d,]+ records/s",
        r"latency    \S+ m?s from an epoch's cut until it is finished, 99 % within \S+ m?s",
        r"in flight  \d epochs?",
        r"restarts   0",
        r"last checkpoint  \S+Z, \S+ m?s ago",
    ):
        assert re.search(rf"^  {line}$", printed, re.M), printed

    process.kill()  # its last progress file is still there, but the process is not
    ended(process)
    assert (demo / "runs/demo/live.json").exists() and status_now()["stats"] is None
    assert "speed" not in millstream("status", "runs/demo").out

    assert millstream("run", "demo.yaml", *FOLLOWING, "--records", 500, "--json").code == 0
    assert not (demo / "runs/demo/live.json").exists()


def scrape(address: str) -> str:
    """Return the metrics that Prometheus would get."""
    with urllib.request.urlopen(address, timeout=HANG_SECONDS) as answer:  # noqa: S310
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        text: str = answer.read().decode()
    return text


def test_prometheus_is_served_while_a_run_is_running(begin: Begin, demo: Path) -> None:
    port = free_port()  # no other process gets this port from the system after the run
    address = f"http://127.0.0.1:{port}/metrics"
    process = begin("run", "demo.yaml", *FOLLOWING, "--metrics-port", str(port), "--json")
    wait_until(lambda: windows(demo / "runs/demo") >= 1, "windows", process)
    metrics = scrape(address)
    assert "# TYPE millstream_epoch_latency_seconds histogram\n" in metrics
    count = re.search(r'^millstream_records_total{pipeline="demo"} ([\d.e+]+)$', metrics, re.M)
    assert count is not None and float(count[1]) >= 1000

    process.terminate()
    assert ended(process)[0] == 0
    with pytest.raises(URLError, match="refused"):
        scrape(address)


def test_the_restart_of_a_killed_worker_is_reported(begin: Begin, demo: Path, millstream: Millstream) -> None:
    process = begin("run", "demo.yaml", *FOLLOWING, "--set", "engine.workers=3", "--metrics-port", "0")
    address = _line_with("metrics are at", process).split()[-1]
    wait_until(lambda: windows(demo / "runs/demo") >= 1, "windows", process)
    os.kill(descendants(process.pid)[-1], signal.SIGKILL)
    reason = _line_with("killed", process).strip().removeprefix("warning: ")
    assert 'millstream_worker_restarts_total{pipeline="demo"} 1.0\n' in scrape(address)

    wait_until(lambda: "restarts   0" not in millstream("status", "runs/demo").out, "the restart", process)
    assert f"  restarts   1; the last: {reason}\n" in millstream("status", "runs/demo").out
    process.terminate()
    assert ended(process)[0] == 0


def test_a_port_in_use_is_refused_before_the_run_starts(demo: Path, millstream: Millstream) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = millstream("run", "demo.yaml", "--metrics-port", port, "--json")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"millstream: --metrics-port {port}: another process has that port; give another, or 0 for one that is free\n"
    )
    assert not (demo / "runs").exists()
    assert millstream("run", "demo.yaml", "--metrics-port", 70000).code == 2


def test_a_killed_run_is_interrupted_and_continues_to_the_results_of_a_golden_run(
    begin: Begin, demo: Path, millstream: Millstream
) -> None:
    code, _, err = ended(begin("run", "demo.yaml", "--crash", "deliver.predictions@3"))
    assert code == -signal.SIGKILL
    assert "crash at deliver.predictions@3, requested by --crash" in err
    status = json.loads(millstream("status", "runs/demo", "--json").out)
    assert (status["state"], status["error"]) == ("interrupted", None)
    assert status["epochs"]["processed"] == 4 and status["epochs"]["committed"] < 4

    again = millstream("run", "demo.yaml", "--crash", "deliver.predictions@3")
    assert again.code == 0
    assert "continuing runs/demo from epoch 3, record 1,500; epoch 3 is replayed (500 records)" in again.err
    assert "5,500 processed, repeats included" in again.out
    crashed = json.loads((demo / "runs/demo/summary.json").read_text())
    golden = json.loads(millstream("run", "demo.yaml", "--run", "golden", "--json").out)
    for key in ("records", "accuracy", "baselines", "model", "state", "outputs"):
        assert crashed[key] == golden[key], key


STALLING = """\
import pathlib, time

def keep(record):
    pathlib.Path("reached").touch()
    time.sleep(600)
    return True
"""


def test_a_second_interrupt_prints_what_the_run_waits_for_and_a_third_exits(
    begin: Begin, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(demo))
    (demo / "stalling.py").write_text(STALLING)
    config = (demo / "demo.yaml").read_text()
    first, last = config.index("pipeline:"), config.index("engine:")
    steps = "pipeline: {steps: [{type: filter, function: 'stalling:keep'}]}\n"
    (demo / "demo.yaml").write_text(config[:first] + steps + config[last:])
    process = begin("run", "demo.yaml")
    assert process.stderr is not None
    wait_until((demo / "reached").exists, "the first record", process)
    process.send_signal(signal.SIGINT)
    assert _line_with("stopping", process) == "stopping after the epoch in progress\n"
    process.send_signal(signal.SIGINT)
    assert _line_with("waiting", process).startswith(
        "waiting for epoch 0 and its checkpoint; press Ctrl-C again to exit at once"
    )
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 130


def _line_with(word: str, process: subprocess.Popen[str]) -> str:
    """The next line with a word that a run prints to standard error."""
    assert process.stderr is not None
    limit = threading.Timer(HANG_SECONDS, process.kill)
    limit.start()
    try:
        return next(line for line in process.stderr if word in line)
    except StopIteration:
        raise AssertionError(f"the run ended without a line with {word!r}") from None
    finally:
        limit.cancel()


def test_a_reader_of_the_rows_may_stop_at_any_time(begin: Begin, demo: Path, millstream: Millstream) -> None:
    assert millstream("run", "demo.yaml", "--json").code == 0
    process = begin("read", "runs/demo", "predictions")
    assert process.stdout is not None and process.stderr is not None
    assert json.loads(process.stdout.readline())["_offset"] == 0
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(HANG_SECONDS) == 0


@pytest.mark.spark
def test_on_spark_too_a_terminated_process_group_ends_after_its_epoch(
    begin: Begin, demo: Path, millstream: Millstream
) -> None:
    process = begin("run", "demo.yaml", *FOLLOWING, "--set", "engine.type=spark", "--json")
    wait_until(lambda: windows(demo / "runs/demo") >= 2, "windows", process)
    os.killpg(process.pid, signal.SIGTERM)  # as `timeout`, systemd and terminals do
    code, out, err = ended(process)
    assert (code, err) == (0, "stopping after the epoch in progress\n")
    first = json.loads(out)
    assert (first["engine"], first["ended"]) == ("spark", "stopped")

    summary = json.loads(millstream("run", "demo.yaml", *FOLLOWING, "--records", 500, "--json").out)
    assert (summary["engine"], summary["processed"]) == ("local", summary["records"])
    replay = ("--run", "golden", "--replay", "runs/demo", "--json")
    golden = json.loads(millstream("run", "demo.yaml", *FOLLOWING, *replay).out)
    for key in ("records", "accuracy", "baselines", "model", "state", "outputs"):
        assert summary[key] == golden[key], key
