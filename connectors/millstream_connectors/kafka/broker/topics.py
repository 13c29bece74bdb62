"""What a broker holds."""

from __future__ import annotations

from dataclasses import dataclass

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import KafkaError

from millstream.errors import MillstreamError

__all__ = ["Topic", "topics"]

_SECONDS = 10


@dataclass(frozen=True)
class Topic:
    """A topic; `messages` counts what is between the first and the last offset, the marks of transactions included."""

    name: str
    partitions: int
    messages: int


def topics(host: str, port: int) -> list[Topic]:
    """The topics by name, without Kafka's own."""
    try:
        with _admin(host, port) as admin:
            return _topics(admin)
    except KafkaError as error:
        raise MillstreamError(f"the broker at {host}:{port} does not answer: {error}") from None


def _topics(admin: KafkaAdminClient) -> list[Topic]:
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
