"""A broker for measuring, and the documents in a topic of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.documents import document_lines
from conformance.kafka_documents import create_topic
from kafka import KafkaProducer

from millstream_connectors.kafka.broker import Broker, free_port

__all__ = ["fill_topic", "own_broker"]


@contextmanager
def own_broker(folder: Path) -> Iterator[str]:
    """The address of a broker that is there until the `with` block ends."""
    broker = Broker(folder, free_port())
    broker.up()
    try:
        yield broker.bootstrap
    finally:
        broker.reset()


def fill_topic(bootstrap: str, topic: str, records: int, partitions: int) -> None:
    """The first documents as JSON, dealt to the partitions in turn."""
    create_topic(bootstrap, topic, partitions)
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20, batch_size=1 << 18)
    lines = (line for block in document_lines(records) for line in block.splitlines())
    for number, line in enumerate(lines):
        producer.send(topic, line, partition=number % partitions)
    producer.flush()
    producer.close()
