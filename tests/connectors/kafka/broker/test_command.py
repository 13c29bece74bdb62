"""The command `millstream kafka`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.kafka.clients import add_topic, connect_admin

from millstream_connectors.kafka.broker import Broker, default_data, free_port

pytestmark = pytest.mark.kafka

Kafka = Callable[..., tuple[int, str]]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The data folder of the user's broker, which is not up after the test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "a user's data"))
    yield default_data()
    Broker(default_data()).kill()


@pytest.fixture
def kafka(data: Path) -> Kafka:
    """Runs `millstream kafka`: exit code and output."""

    def run(*arguments: object) -> tuple[int, str]:
        command = [sys.executable, "-m", "millstream", "kafka", *map(str, arguments)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout + ran.stderr

    return run


def test_a_broker_from_its_start_to_its_end(kafka: Kafka, data: Path) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}, "
    assert kafka("status") == (1, f"down; data in {data}\n")
    assert kafka("up", "--port", port) == (0, f"up: {address}data in {data}\n")
    assert kafka("up") == (0, f"up already: {address}data in {data}\n")
    with connect_admin(f"127.0.0.1:{port}") as admin:
        add_topic(admin, "news", 2)
        add_topic(admin, "topics")
    running = Broker(data).running()
    assert running is not None
    assert kafka("status") == (
        0,
        f"up: {address}process {running.pid}, data in {data}\n"
        "  news    2 partitions  0 offsets\n"
        "  topics  1 partition   0 offsets\n",
    )
    assert kafka("down", "--data", data) == (0, f"down; data in {data}\n")
    assert kafka("down") == (0, f"was not up; data in {data}\n")
    assert kafka("reset") == (0, f"deleted {data}\n")
    assert kafka("reset") == (0, f"{data} does not exist\n")


def test_errors_are_reported_in_one_line(kafka: Kafka, tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("years of work")
    refused = f"millstream: {tmp_path} does not hold the data of a Millstream broker: choose another folder\n"
    assert kafka("up", "--data", tmp_path) == (1, refused)
    assert kafka("reset", "--data", tmp_path) == (1, refused)


def test_on_a_terminal_progress_stays_in_one_line() -> None:
    script = """
from millstream_connectors.kafka.broker.command import _progress
with _progress() as report:
    for message in ("a jar is damaged", "fetching: 1 MB ...", "fetching: 2 MB ..."):
        report(message)
"""
    mine, its = os.openpty()
    subprocess.run([sys.executable, "-c", script], stderr=its, check=True)
    os.close(its)
    shown = read_terminal(mine)
    os.close(mine)
    erase = "\r\033[K"
    assert shown == f"a jar is damaged\r\nfetching: 1 MB ...{erase}fetching: 2 MB ...{erase}"


def read_terminal(handle: int) -> str:
    """Everything that was written to a terminal whose other side is closed; one read may return only a part."""
    shown = b""
    with suppress(OSError):  # at the end Linux raises an error, other systems return nothing
        while part := os.read(handle, 1000):
            shown += part
    return shown.decode()
