"""The readiness of a broker, and its cluster id."""

from __future__ import annotations

import socket
import threading

import pytest
from support.brokers import SharedBroker
from support.conditions import wait_until
from support.kafka.clients import connect_admin

from millstream_connectors.kafka.broker import free_port
from millstream_connectors.kafka.broker.readiness import ready_cluster


@pytest.mark.kafka
def test_a_ready_broker_answers_with_its_cluster_id(broker: SharedBroker) -> None:
    host, _, port = broker.bootstrap.partition(":")
    with connect_admin(broker.bootstrap) as admin:
        expected = admin.describe_cluster()["cluster_id"]
    # An answer that takes too long counts as none.
    wait_until(lambda: ready_cluster(host, int(port)) == expected, "the answer")


def test_a_port_without_a_server_is_no_broker() -> None:
    assert ready_cluster("127.0.0.1", free_port()) is None


@pytest.mark.parametrize("answer", [b"", b"\0\0\0\x08", b"HTTP/1.1 400\r\n\r\n", b"\0\0\0\x10" + b"\0" * 16])
def test_a_server_of_another_kind_is_no_broker(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        other = threading.Thread(target=serve)
        other.start()
        assert ready_cluster(*server.getsockname()) is None
        other.join()
