"""Whether a broker serves yet, and is the one that is meant."""

from __future__ import annotations

import socket
import threading

import pytest
from kafka.admin import KafkaAdminClient
from kafka_broker import SharedBroker

from millstream_connectors.kafka.broker import free_port
from millstream_connectors.kafka.broker.ready import ready_cluster


@pytest.mark.kafka
def test_a_broker_tells_its_cluster(broker: SharedBroker) -> None:
    host, _, port = broker.bootstrap.partition(":")
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
        assert ready_cluster(host, int(port)) == admin.describe_cluster()["cluster_id"]


def test_nobody_is_no_broker() -> None:
    assert ready_cluster("127.0.0.1", free_port()) is None


@pytest.mark.parametrize("answer", [b"", b"\0\0\0\x08", b"HTTP/1.1 400\r\n\r\n", b"\0\0\0\x10" + b"\0" * 16])
def test_what_answers_otherwise_is_no_broker(answer: bytes) -> None:
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
