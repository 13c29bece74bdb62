"""What a broker says of itself when it is asked."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import KafkaError

__all__ = ["Topic", "ready_cluster", "topics"]

_SECONDS = 5


@dataclass(frozen=True)
class Topic:
    """A topic; `messages` counts what is between the first and the last offset, the marks of transactions included."""

    name: str
    partitions: int
    messages: int


def ready_cluster(host: str, port: int) -> str | None:
    """The id of the cluster of the broker there, once it serves; None before that."""
    try:
        # kafka-python is asked only where somebody listens: it complains at length where nobody does.
        socket.create_connection((host, port), _SECONDS).close()
        with _admin(host, port) as admin:
            cluster = admin.describe_cluster()
    except (OSError, KafkaError):
        return None
    fenced = any(node.get("is_fenced") for node in cluster["brokers"])
    return None if fenced or not cluster["brokers"] else str(cluster["cluster_id"])


def topics(host: str, port: int) -> list[Topic]:
    """The topics by name, without Kafka's own."""
    with _admin(host, port) as admin:
        described = [topic for topic in admin.describe_topics() if not topic["is_internal"]]
        partitions = {
            topic["name"]: [TopicPartition(topic["name"], one["partition_index"]) for one in topic["partitions"]]
            for topic in described
        }
        everything = [one for of_topic in partitions.values() for one in of_topic]
        begins = admin.list_partition_offsets(dict.fromkeys(everything, OffsetSpec.EARLIEST)) if everything else {}
        ends = admin.list_partition_offsets(dict.fromkeys(everything, OffsetSpec.LATEST)) if everything else {}
    return [
        Topic(name, len(of_topic), sum(ends[one].offset - begins[one].offset for one in of_topic))
        for name, of_topic in sorted(partitions.items())
    ]


def _admin(host: str, port: int) -> KafkaAdminClient:
    return KafkaAdminClient(
        bootstrap_servers=f"{host}:{port}", bootstrap_timeout_ms=_SECONDS * 1000, request_timeout_ms=_SECONDS * 1000
    )
