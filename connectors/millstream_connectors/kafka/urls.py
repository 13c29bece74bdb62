"""`kafka://HOST:PORT/TOPIC`, for `millstream log` and for notebooks; without a topic, all there are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from millstream.errors import ConfigError, MillstreamError
from millstream.log.contracts import Log, Place
from millstream_connectors.fields import USUAL_FIELDS
from millstream_connectors.kafka.cluster import Cluster, Topic
from millstream_connectors.kafka.connection import addresses
from millstream_connectors.kafka.encoding import Message, Messages
from millstream_connectors.kafka.fetching import Fetcher
from millstream_connectors.kafka.producing import Idempotent, TooLarge
from millstream_connectors.kafka.source import KafkaSource

__all__ = ["KafkaUrl"]

_PATIENCE = 10.0
_POLL = 0.05
_AT_ONCE = 10_000
_NO_VALUE = b"null"


class KafkaUrl:
    """A topic of a cluster that wants no password; a line is a message's value.

    >>> KafkaUrl("127.0.0.1/documents")
    Traceback (most recent call last):
    ...
    millstream.errors.ConfigError: kafka://127.0.0.1/documents: a broker is HOST:PORT, such as 127.0.0.1:9092
    """

    def __init__(self, rest: str) -> None:
        self._bootstrap, _, self._topic = rest.partition("/")
        try:
            addresses(self._bootstrap)
        except ValueError:
            message = f"kafka://{rest}: a broker is HOST:PORT, such as 127.0.0.1:9092"
            raise ConfigError(message) from None

    def describe(self) -> Iterator[str]:
        """The topic, or all topics: a line for each partition."""
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
        """The values of committed messages, partition by partition in their order."""
        with self._connected() as cluster:
            pairs = self._found(cluster).pairs
            fetcher = Fetcher(cluster, "read_committed", skip_removed=True)
            positions = {pair: max(begin, start or 0) for pair, begin in cluster.beginnings(pairs).items()}
            while True:
                for pair, end in sorted(cluster.ends(pairs).items()):
                    while positions[pair] < end:
                        upto = min(end, positions[pair] + _AT_ONCE)
                        for records in fetcher.read(pair, positions[pair], upto):
                            yield from (_NO_VALUE if value is None else value for value in records.values())
                        positions[pair] = upto
                if not follow:
                    return
                time.sleep(_POLL)

    @contextmanager
    def appender(self, partitions: int | None = None) -> Iterator[Callable[[list[bytes]], None]]:
        with self._connected() as cluster:
            there = cluster.topic(self._named())
            topic = there or cluster.create(self._topic, partitions or 1)
            numbers = topic.partitions
            if partitions is not None and len(numbers) != partitions:
                message = f"topic {self._topic} is there, with {len(numbers)} partitions and not {partitions}"
                raise ConfigError(message)
            producer = Idempotent(cluster, self._topic)
            turn = 0

            def append(entries: list[bytes]) -> None:
                """One entry for each partition in turn, whatever lists they come in."""
                nonlocal turn
                content: list[Message] = [(None, entry) for entry in entries]
                parts = {numbers[(turn + i) % len(numbers)]: content[i :: len(numbers)] for i in range(len(numbers))}
                turn += len(entries)
                self._write(producer, {number: part for number, part in parts.items() if part})

            yield append

    def _write(self, producer: Idempotent, parts: Mapping[int, Sequence[Message]]) -> None:
        now = time.time_ns() // 1_000_000
        try:
            producer.write({number: Messages(part, None, now) for number, part in parts.items()})
        except TooLarge as large:
            message = (
                f"an entry of {large.size:,} bytes is larger than topic {self._topic} takes (its max.message.bytes): "
                f"{parts[large.partition][large.place][1][:40]!r}..."
            )
            raise MillstreamError(message) from None

    def log(self, fields: Mapping[str, str] | None = None) -> Log:
        source = KafkaSource(bootstrap=self._bootstrap, topic=self._named(), fields=dict(fields or USUAL_FIELDS))
        return source.open(Place(Path(), Path(), hurry=True))  # keeps no files

    def _connected(self) -> closing[Cluster]:
        return closing(Cluster(self._bootstrap, None, _PATIENCE))

    def _named(self) -> str:
        if not self._topic:
            message = f"kafka://{self._bootstrap}: say which topic, as in kafka://{self._bootstrap}/documents"
            raise ConfigError(message)
        return self._topic

    def _found(self, cluster: Cluster) -> Topic:
        topic = cluster.topic(self._named())
        if topic is None:
            others = ", ".join(sorted(cluster.topics())) or "none"
            message = (
                f"there is no topic {self._topic} at {self._bootstrap}; there are: {others}. "
                "`millstream log append` and `import` make one"
            )
            raise MillstreamError(message)
        return topic
