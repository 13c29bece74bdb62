"""The Kafka broker that tests share, and brokers for a single test."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from millstream_connectors.kafka.broker import Broker, free_port

__all__ = ["OwnBroker", "SharedBroker", "broker_in", "end_broker_in"]

OwnBroker = Callable[..., Broker]
"""Starts a broker for one test; the keyword `settings` is a mapping of broker settings."""


@dataclass(frozen=True)
class SharedBroker:
    """A running broker that other tests use too."""

    bootstrap: str

    def topic(self, prefix: str = "topic") -> str:
        """A topic name that no other test uses; the topic is not created."""
        return f"{prefix}-{uuid.uuid4().hex[:12]}"


def broker_in(folder: Path) -> SharedBroker:
    """The broker whose data are in a folder. The first process starts it, and it keeps running."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        running = Broker(folder / "data").running()
        broker = Broker(folder / "data", running.port if running is not None else free_port())
        if running is None:
            up = [
                sys.executable,
                "-m",
                "millstream",
                "kafka",
                "up",
                "--data",
                str(broker.data),
                "--port",
                str(broker.port),
            ]
            subprocess.run(up, capture_output=True, text=True, check=True)
    return SharedBroker(broker.bootstrap)


def end_broker_in(folder: Path) -> None:
    """Kill the broker whose data are in a folder, if there is one."""
    Broker(folder / "data").kill()
