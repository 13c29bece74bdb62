"""The topic of one output, over a connection of its own; reading from it does not disturb the run that writes there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from millstream.log.formats.rows import table_of
from millstream_connectors.kafka.client.cluster import Cluster, Topic
from millstream_connectors.kafka.client.coordinators import KafkaCoordinators
from millstream_connectors.kafka.client.fetcher import Fetcher
from millstream_connectors.kafka.progress import HEADER, ProgressReader, Signature

__all__ = ["OutputTopic"]


@dataclass(frozen=True)
class OutputTopic:
    """A connection to the topic of an output; `location` is the topic's URL, waits take up to `timeout` seconds."""

    cluster: Cluster
    signature: Signature
    location: str
    timeout: float
    coordinators: KafkaCoordinators = field(init=False)
    progress: ProgressReader = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "coordinators", KafkaCoordinators(self.cluster))
        progress = ProgressReader(self.cluster, self.coordinators, self.signature, self.timeout)
        object.__setattr__(self, "progress", progress)

    def topic(self) -> Topic | None:
        return self.cluster.topic(self.signature.topic)

    def never_written(self) -> bool:
        """True if the topic never had a message."""
        topic = self.topic()
        pairs = topic.pairs if topic is not None else []
        return not any(self.cluster.ends(pairs, "read_uncommitted").values())

    def wait_until_complete(self) -> None:
        """Wait until all committed rows are readable."""
        self.coordinators.wait_until_complete(self.signature.id)

    def rows(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """The committed rows of this output, by partition, in order of their offsets: all of them, or an error."""
        topic = self.topic()
        if topic is None:
            return
        pairs = topic.pairs
        begins, ends = self.cluster.beginnings(pairs), self.progress.ends_of_own_rows(pairs)
        fetcher = Fetcher(self.cluster, "read_committed", skip_removed=True)
        for pair in pairs:
            for records in fetcher.read(pair, begins[pair], ends[pair]):
                own = self.signature.matches(records.headers(HEADER.encode()))
                values = [value for value, match in zip(records.values(), own, strict=True) if match and value]
                if values:
                    yield table_of(b"\n".join(values), schema)

    def close(self) -> None:
        self.cluster.close()
