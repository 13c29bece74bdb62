"""The port that Prometheus asks, at its edges."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import pytest

from millstream.errors import ConfigError
from millstream.runs.metrics_port import MetricsPort


@pytest.fixture
def port() -> Iterator[MetricsPort]:
    made = MetricsPort(0)
    yield made
    made.close()


def answered(port: MetricsPort, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port.number, timeout=60)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_until_there_is_a_page_it_says_so(port: MetricsPort) -> None:
    assert answered(port, "/metrics") == (503, "the run has not begun yet; ask again\n")
    port.show(lambda: "up 1\n")
    assert answered(port, "/metrics") == answered(port, "/metrics?debug=1") == (200, "up 1\n")


def test_only_the_page_can_be_asked_for(port: MetricsPort) -> None:
    port.show(lambda: "up 1\n")
    assert answered(port, "/metrics/") == (404, "nothing is here; the metrics are at /metrics\n")
    assert answered(port, "/metrics", "POST")[0] == 501


def test_who_leaves_before_the_answer_disturbs_nobody(port: MetricsPort, capfd: pytest.CaptureFixture[str]) -> None:
    port.show(lambda: "up 1\n" * 1_000_000)
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port.number)) as asking:
            asking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # hang up, not: finish
            asking.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    assert answered(port, "/metrics")[0] == 200
    assert "".join(capfd.readouterr()) == ""


def test_another_machine_cannot_ask(port: MetricsPort) -> None:
    with socket.socket() as elsewhere:
        elsewhere.bind(("127.0.0.2", port.number))  # free: it listens on 127.0.0.1 alone


def test_a_port_that_has_been_closed_is_free_at_once() -> None:
    first = MetricsPort(0)
    with socket.create_connection(("127.0.0.1", first.number)) as asking:
        asking.sendall(b"GET / HTTP/1.0\r\n\r\n")
        while asking.recv(4096):  # until the port has hung up: what is left of that keeps others off for a minute
            pass
    first.close()
    MetricsPort(first.number).close()


def test_a_port_that_may_not_be_taken_is_told(port: MetricsPort) -> None:
    with pytest.raises(ConfigError, match=rf"--metrics-port {port.number}: another process has that port; give"):
        MetricsPort(port.number)
