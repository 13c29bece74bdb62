"""A Kafka broker for measurements, and topics with documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from benchmarks.kit.documents import document_lines
from millstream_connectors.kafka.broker import Broker, free_port

__all__ = ["create_topic", "fill_topic", "own_broker"]


@contextmanager
def own_broker(folder: Path) -> Iterator[str]:
    """The address of a broker that runs until the end of the `with` block."""
    broker = Broker(folder, free_port())
    broker.up()
    try:
        yield broker.bootstrap
    finally:
        broker.reset()


def create_topic(bootstrap: str, topic: str, partitions: int = 1) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, partitions, 1)])
    admin.close()


def fill_topic(bootstrap: str, topic: str, records: int, partitions: int) -> None:
    """A new topic with the first documents as JSON, partition by partition in turn."""
    create_topic(bootstrap, topic, partitions)
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20, batch_size=1 << 18)
    for number, line in enumerate(document_lines(records)):
        producer.send(topic, line, partition=number % partitions)
    producer.flush()
    producer.close()
