"""The topics of a local broker, and their sizes."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from millstream_connectors.kafka.client.cluster import Cluster
from millstream_connectors.kafka.errors import millstream_errors

__all__ = ["TopicSummary", "list_topics"]

_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class TopicSummary:
    """A topic; `messages` counts the offsets from the first to the last, control records of transactions included."""

    name: str
    partitions: int
    messages: int


def list_topics(bootstrap: str) -> list[TopicSummary]:
    """The topics by name, without Kafka's internal ones."""
    with millstream_errors(), closing(Cluster(bootstrap, timeout=_TIMEOUT_SECONDS)) as cluster:
        topics = sorted(cluster.topics().items())
        pairs = [pair for _, topic in topics for pair in topic.pairs]
        begins, ends = cluster.beginnings(pairs), cluster.ends(pairs, "read_uncommitted")
        sizes = {pair: ends[pair] - begins[pair] for pair in pairs}
        return [
            TopicSummary(name, len(topic.partitions), sum(sizes[pair] for pair in topic.pairs))
            for name, topic in topics
        ]
