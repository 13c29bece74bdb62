"""The URL `kafka://HOST:PORT/TOPIC`, for `millstream log` and for notebooks; without a topic it means all topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from millstream.errors import ConfigError, MillstreamError
from millstream.log.contracts import Log, OpenContext
from millstream_connectors.fields import USUAL_FIELDS
from millstream_connectors.kafka.client.addresses import parse_addresses
from millstream_connectors.kafka.client.cluster import Cluster, Topic
from millstream_connectors.kafka.client.encoder import Message, Messages
from millstream_connectors.kafka.client.errors import MessageTooLarge
from millstream_connectors.kafka.client.fetcher import Fetcher
from millstream_connectors.kafka.client.producer import IdempotentProducer
from millstream_connectors.kafka.errors import millstream_errors
from millstream_connectors.kafka.source import KafkaSource

__all__ = ["KafkaUrl"]

_TIMEOUT_SECONDS = 10.0
_POLL_SECONDS = 0.05
_RANGE = 10_000
_NO_VALUE = b"null"


class KafkaUrl:
    """A topic of a cluster without a password; each line is the value of a message.

    >>> KafkaUrl("127.0.0.1/documents")
    Traceback (most recent call last):
    ...
    millstream.errors.ConfigError: kafka://127.0.0.1/documents: a broker is HOST:PORT, such as 127.0.0.1:9092
    """

    def __init__(self, rest: str) -> None:
        self._bootstrap, _, self._topic = rest.partition("/")
        try:
            parse_addresses(self._bootstrap)
        except ValueError:
            message = f"kafka://{rest}: a broker is HOST:PORT, such as 127.0.0.1:9092"
            raise ConfigError(message) from None

    def describe(self) -> Iterator[str]:
        """A line for each partition of the topic, or of all topics."""
        with self._connected() as cluster:
            topics = {self._topic: self._found(cluster)} if self._topic else cluster.topics()
            for _, topic in sorted(topics.items()):
                pairs = topic.pairs
                begins, ends = cluster.beginnings(pairs), cluster.ends(pairs)
                for pair in pairs:
                    begin, end = begins[pair], ends[pair]
                    name = f"kafka://{self._bootstrap}/{topic.name}  partition {pair[1]}"
                    yield f"{name}  offsets {begin}-{end} ({end - begin}), id {topic.id}"

    def entries(self, start: int | None = None, *, follow: bool = False) -> Iterator[bytes]:
        """The values of committed messages, one partition after the other."""
        with self._connected() as cluster:
            pairs = self._found(cluster).pairs
            fetcher = Fetcher(cluster, "read_committed", skip_removed=True)
            positions = {pair: max(begin, start or 0) for pair, begin in cluster.beginnings(pairs).items()}
            while True:
                for pair, end in sorted(cluster.ends(pairs).items()):
                    while positions[pair] < end:
                        upto = min(end, positions[pair] + _RANGE)
                        for records in fetcher.read(pair, positions[pair], upto):
                            yield from (_NO_VALUE if value is None else value for value in records.values())
                        positions[pair] = upto
                if not follow:
                    return
                time.sleep(_POLL_SECONDS)

    @contextmanager
    def appender(self, partitions: int | None = None) -> Iterator[Callable[[list[bytes]], None]]:
        with self._connected() as cluster:
            topic = cluster.topic(self._required_topic()) or cluster.create(self._topic, partitions or 1)
            numbers = topic.partitions
            if partitions is not None and len(numbers) != partitions:
                message = f"topic {self._topic} exists, with {len(numbers)} partitions and not {partitions}"
                raise ConfigError(message)
            producer = IdempotentProducer(cluster, self._topic)
            appended = 0

            def append(entries: list[bytes]) -> None:
                """Write one entry to each partition in turn, across all calls."""
                nonlocal appended
                content: list[Message] = [(None, entry) for entry in entries]
                parts = {
                    numbers[(appended + i) % len(numbers)]: content[i :: len(numbers)] for i in range(len(numbers))
                }
                appended += len(entries)
                self._write(producer, {number: part for number, part in parts.items() if part})

            yield append

    def _write(self, producer: IdempotentProducer, parts: Mapping[int, Sequence[Message]]) -> None:
        now = time.time_ns() // 1_000_000
        try:
            producer.write({number: Messages(part, None, now) for number, part in parts.items()})
        except MessageTooLarge as large:
            message = (
                f"an entry of {large.size:,} bytes is larger than topic {self._topic} allows (its max.message.bytes): "
                f"{parts[large.partition][large.index][1][:40]!r}..."
            )
            raise MillstreamError(message) from None

    def log(self, fields: Mapping[str, str] | None = None) -> Log:
        source = KafkaSource(
            bootstrap=self._bootstrap, topic=self._required_topic(), fields=dict(fields or USUAL_FIELDS)
        )
        return source.open(OpenContext(Path(), Path(), fail_fast=True))  # a read-only log writes no files

    @contextmanager
    def _connected(self) -> Iterator[Cluster]:
        with millstream_errors(), closing(Cluster(self._bootstrap, None, _TIMEOUT_SECONDS)) as cluster:
            yield cluster

    def _required_topic(self) -> str:
        if not self._topic:
            message = f"kafka://{self._bootstrap}: name a topic, as in kafka://{self._bootstrap}/documents"
            raise ConfigError(message)
        return self._topic

    def _found(self, cluster: Cluster) -> Topic:
        topic = cluster.topic(self._required_topic())
        if topic is None:
            others = ", ".join(sorted(cluster.topics())) or "none"
            message = (
                f"there is no topic {self._topic} at {self._bootstrap}; there are: {others}. "
                "`millstream log append` and `import` create one"
            )
            raise MillstreamError(message)
        return topic
