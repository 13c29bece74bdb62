"""The HTTP port for Prometheus: its answers, its errors and its end."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from support.conditions import HANG_SECONDS

from millstream.errors import ConfigError
from millstream.runs.watch import metrics_port
from millstream.runs.watch.metrics_port import MetricsPort
from millstream_connectors.kafka.broker import free_port


@pytest.fixture
def port() -> Iterator[MetricsPort]:
    port = MetricsPort(0)
    yield port
    port.close()


class Up(Collector):
    """One gauge, with a description of any length."""

    def __init__(self, description: str = "Up.") -> None:
        self._description = description

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("up", self._description, 1)


def answer(port: MetricsPort, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    """Status, content type and text."""
    connection = http.client.HTTPConnection("127.0.0.1", port.number, timeout=HANG_SECONDS)
    try:
        connection.request(method, "/metrics", headers=headers)
        response = connection.getresponse()
        return response.status, response.headers["Content-Type"] or "", response.read().decode()
    finally:
        connection.close()


def test_the_page_is_empty_until_a_collector_is_registered(port: MetricsPort) -> None:
    plain = "text/plain; version=0.0.4; charset=utf-8"
    assert answer(port) == (200, plain, "")
    port.register(Up())
    assert answer(port) == (200, plain, "# HELP up Up.\n# TYPE up gauge\nup 1.0\n")


def test_a_scraper_can_ask_for_openmetrics(port: MetricsPort) -> None:
    port.register(Up())
    status, content_type, text = answer(port, Accept="application/openmetrics-text; version=1.0.0")
    assert status == 200 and content_type.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


def test_metrics_are_read_only(port: MetricsPort) -> None:
    assert answer(port, "POST")[0] == 405


def test_a_client_that_disconnects_early_causes_no_error(port: MetricsPort, capfd: pytest.CaptureFixture[str]) -> None:
    port.register(Up("up" * 5_000_000))
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port.number)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset, not close
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    assert answer(port)[0] == 200
    assert "".join(capfd.readouterr()) == ""


def test_another_machine_cannot_connect(port: MetricsPort) -> None:
    with socket.socket() as elsewhere:
        elsewhere.bind(("127.0.0.2", port.number))  # this address is free, as the port listens on 127.0.0.1 only


def test_closing_leaves_no_thread_and_a_free_port() -> None:
    before = set(threading.enumerate())
    first = MetricsPort(free_port())  # no client or test gets this port from the system when it is released
    with socket.create_connection(("127.0.0.1", first.number)) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        while client.recv(4096):  # the server closes first, so its side of the connection stays for a minute
            pass
    first.close()
    MetricsPort(first.number).close()
    for thread in set(threading.enumerate()) - before:  # the thread of the request may still be ending
        thread.join(HANG_SECONDS)
        assert not thread.is_alive()


@pytest.mark.parametrize("request_line", [b"", b"GET /metrics HTTP/1.0\r\n\r\n"], ids=["asks nothing", "takes nothing"])
def test_a_client_that_does_nothing_is_disconnected(
    port: MetricsPort, request_line: bytes, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(metrics_port._Handler, "timeout", 0.1)
    finish, finished = metrics_port._Handler.finish, threading.Event()

    def finish_request(handler: metrics_port._Handler) -> None:
        finish(handler)
        finished.set()

    monkeypatch.setattr(metrics_port._Handler, "finish", finish_request)
    port.register(Up("up" * 5_000_000))
    with socket.create_connection(("127.0.0.1", port.number)) as client:
        client.sendall(request_line)
        assert finished.wait(HANG_SECONDS)
    assert "".join(capfd.readouterr()) == ""


def test_a_silent_client_does_not_keep_the_port() -> None:
    first = MetricsPort(free_port())
    with socket.create_connection(("127.0.0.1", first.number)):
        first.close()
        MetricsPort(first.number).close()


def test_a_port_in_use_is_an_error_with_the_fix(port: MetricsPort) -> None:
    with pytest.raises(ConfigError, match=rf"--metrics-port {port.number}: another process has that port; give"):
        MetricsPort(port.number)
