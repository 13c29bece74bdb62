"""Ports for brokers: free, and reserved for the process that has asked for them."""

from __future__ import annotations

import random
import socket
import subprocess
import sys

import pytest

from millstream_connectors.kafka.broker import ports
from millstream_connectors.kafka.broker.ports import HOST, free_port, refusal


def in_another_process(expression: str) -> str:
    """Evaluate an expression in a process that ends afterwards."""
    script = f"from millstream_connectors.kafka.broker import ports; print({expression})"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def test_a_port_is_reserved_until_its_process_ends() -> None:
    assert in_another_process(f"ports._reserve({free_port()})") == "False"
    ended = in_another_process("ports.free_port()")
    assert in_another_process(f"ports._reserve({ended})") == "True"


def test_a_port_with_a_server_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as server:
        taken, free = server.getsockname()[1], free_port()
        assert refusal(taken) == "Address already in use"
        choices = [taken, free]
        monkeypatch.setattr(random, "choice", lambda _: choices.pop(0))
        monkeypatch.setattr(ports, "_reserve", lambda _: True)
        assert free_port() == free
