"""Topics: created, filled with documents, and read by a plain consumer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kafka import TopicPartition
from support.conditions import wait_until
from support.kafka.clients import add_topic, connect_admin, connect_consumer, connect_producer

__all__ = ["create_topic", "produce_documents", "seen"]


def create_topic(bootstrap: str, topic: str, partitions: int = 1, **settings: str) -> None:
    admin = connect_admin(bootstrap)
    add_topic(admin, topic, partitions, **settings)
    admin.close()


def produce_documents(bootstrap: str, topic: str, folder: Path) -> None:
    """Send every line of the files as a message; the lines of the first file go to partition 0, and so on."""
    files = sorted(folder.glob("*.jsonl"))
    create_topic(bootstrap, topic, len(files))
    producer = connect_producer(bootstrap, linger_ms=5)
    for partition, file in enumerate(files):
        for line in file.read_bytes().splitlines():
            producer.send(topic, line, partition=partition)
    producer.flush()
    producer.close()


def seen(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """The rows of a topic that a plain read_committed consumer reads."""
    consumer = connect_consumer(bootstrap, isolation_level="read_committed")
    wait_until(lambda: bool(consumer.partitions_for_topic(topic)), f"the partitions of {topic}")
    partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    ends = consumer.end_offsets(partitions)
    rows: list[dict[str, Any]] = []

    def complete() -> bool:
        for messages in consumer.poll(timeout_ms=200).values():
            rows.extend(json.loads(message.value) for message in messages)
        return all(consumer.position(partition) >= end for partition, end in ends.items())

    wait_until(complete, f"the end of {topic}")
    consumer.close()
    return rows
