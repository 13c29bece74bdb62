"""The client keeps its own connections out of kafka-python's loggers, and nobody else's."""

from __future__ import annotations

import logging
import socket

import pytest
from kafka.net.selector import NetworkSelector

from millstream_connectors.kafka.client.cluster import Cluster
from millstream_connectors.kafka.client.errors import RetryTimeout


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def kafka_messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.partition(".")[0] == "kafka"]


def test_a_broker_that_is_away_is_no_message_of_kafka_python(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafka")
    cluster = Cluster(f"127.0.0.1:{closed_port()}", None, 0.3)
    with pytest.raises(RetryTimeout):
        cluster.topics()
    cluster.close()
    assert kafka_messages(caplog) == []


def test_other_clients_keep_their_messages(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafka")
    cluster = Cluster(f"127.0.0.1:{closed_port()}", None, 0.3)
    with pytest.raises(RetryTimeout):
        cluster.topics()
    other = NetworkSelector(client_id="somebody")
    other.start()
    other.stop()
    other.close()
    cluster.close()
    assert "IO loop starting (client_id=somebody)" in kafka_messages(caplog)
    assert logging.getLogger("kafka").level == logging.INFO  # as the test set it
