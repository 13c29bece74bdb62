"""What is asked of a Kafka cluster: its topics, where they begin and end."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from kafka import errors as kafka_errors
from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from millstream_connectors.kafka.connection import Connection, checked
from millstream_connectors.kafka.network import Broker
from millstream_connectors.kafka.security import Security

__all__ = ["Cluster", "Isolation", "Pair", "Topic", "named"]

T = TypeVar("T")

Pair = tuple[str, int]
"""A topic's name and the number of one of its partitions."""

Isolation = Literal["read_committed", "read_uncommitted"]

_LATEST, _EARLIEST = -1, -2
_UNKNOWN_TOPIC = kafka_errors.UnknownTopicOrPartitionError.errno


@dataclass(frozen=True)
class Topic:
    """A topic; its id, as Kafka's tools show it, is another one when it is deleted and made again."""

    name: str
    id: str
    partitions: Sequence[int]

    @property
    def pairs(self) -> list[Pair]:
        return [(self.name, number) for number in self.partitions]

    @property
    def uuid(self) -> uuid.UUID:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(f"{self.id}=="))


class Cluster:
    """A Kafka cluster, connected to when it is first asked something, in the process that asks.

    Waits up to `patience` seconds for a broker that is away. Topics are never made by asking for them.
    """

    def __init__(
        self,
        bootstrap: str,
        security: Security | None = None,
        patience: float = 120.0,
        base: Path = Path(),
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._connection = Connection(bootstrap, security, patience, base, stopped)
        self._leaders: dict[Pair, int] = {}
        self._topics: dict[str, Topic] = {}
        self._id = ""

    @property
    def id(self) -> str:
        """The cluster's own id."""
        if not self._id:
            self.ask("the cluster", lambda broker: self._look(broker, []))
        return self._id

    def ask(self, what: str, question: Callable[[Broker], Awaitable[T]]) -> T:
        """What else there is to ask, patiently; `what` tells one kind of question from another."""
        return self._connection.ask(what, question)

    def topics(self, names: Collection[str] | None = None) -> Mapping[str, Topic]:
        """Those of these topics that there are; all but Kafka's own, if no names are given."""
        return self.ask("topics", lambda broker: self._look(broker, names))

    def topic(self, name: str) -> Topic | None:
        """This one, if it is there."""
        return self.topics([name]).get(name)

    def topics_briefly(self, names: Collection[str] | None = None) -> Mapping[str, Topic] | None:
        """The same, but None if there is no answer right now."""
        return self._connection.ask_briefly("topics", lambda broker: self._look(broker, names))

    def ends(self, pairs: Collection[Pair], isolation: Isolation = "read_committed") -> Mapping[Pair, int]:
        """Where what can be read ends: before the first open transaction, under read_committed."""
        return self.ask("ends", lambda broker: self._offsets(broker, pairs, _LATEST, isolation))

    def ends_briefly(self, pairs: Collection[Pair], isolation: Isolation) -> Mapping[Pair, int] | None:
        """The same, but None if there is no answer right now."""
        return self._connection.ask_briefly("ends", lambda broker: self._offsets(broker, pairs, _LATEST, isolation))

    def beginnings(self, pairs: Collection[Pair]) -> Mapping[Pair, int]:
        """The first offsets that have not been removed."""
        return self.ask("beginnings", lambda broker: self._offsets(broker, pairs, _EARLIEST, "read_uncommitted"))

    def offsets_at(
        self, pairs: Collection[Pair], micros: int, isolation: Isolation = "read_committed"
    ) -> Mapping[Pair, int]:
        """The first offsets with a timestamp at this time or later; the end, where there is none."""
        millis = -(-micros // 1000)
        found = self.ask("offsets", lambda broker: self._offsets(broker, pairs, millis, isolation))
        missing = [pair for pair, offset in found.items() if offset < 0]
        return {**found, **(self.ends(missing, isolation) if missing else {})}

    def create(self, topic: str, partitions: int) -> Topic:
        """Make a topic, with the brokers' own defaults for the rest; somebody else may have made it meanwhile."""

        async def made(broker: Broker) -> None:
            wanted = CreateTopicsRequest.CreatableTopic(
                name=topic, num_partitions=partitions, replication_factor=-1, assignments=[], configs=[]
            )
            answer = await broker.send(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), broker.controller)
            for one in answer.topics:
                if one.error_code != kafka_errors.TopicAlreadyExistsError.errno:
                    checked(one.error_code, f"topic {topic}{f' ({one.error_message})' if one.error_message else ''}")

        async def there(broker: Broker) -> Topic:
            found = await self._look(broker, [topic])
            if topic not in found:
                raise kafka_errors.LeaderNotAvailableError(f"topic {topic}")
            for number in found[topic].partitions:
                self._leader((topic, number))
            return found[topic]

        self.ask("making a topic", made)
        return self.ask("making a topic", there)

    def close(self) -> None:
        self._connection.close()

    # On the event loop

    async def leader(self, broker: Broker, pair: Pair) -> tuple[Topic, int]:
        """Who answers for a partition: the topic as it was last seen, and the number of the broker."""
        if pair not in self._leaders:
            await self._look(broker, [pair[0]])
            if pair not in self._leaders and pair[0] not in self._topics:
                raise kafka_errors.UnknownTopicOrPartitionError(f"topic {pair[0]}")
        return self._topics[pair[0]], self._leader(pair)

    def moved(self, pair: Pair) -> None:
        """Forget who answers for a partition, because it no longer does."""
        self._leaders.pop(pair, None)

    def _leader(self, pair: Pair) -> int:
        if pair not in self._leaders:
            raise kafka_errors.LeaderNotAvailableError(named(pair))
        return self._leaders[pair]

    async def _look(self, broker: Broker, names: Collection[str] | None) -> Mapping[str, Topic]:
        asked = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        answer = await broker.send(MetadataRequest(topics=asked, allow_auto_topic_creation=False, min_version=10))
        broker.learn(answer)
        self._id = broker.cluster
        found = {}
        if names is None:
            self._leaders.clear()
            self._topics.clear()
        for topic in answer.topics:
            for number in [pair[1] for pair in self._leaders if pair[0] == topic.name]:
                self._leaders.pop((topic.name, number))
            self._topics.pop(topic.name, None)
            if topic.error_code == _UNKNOWN_TOPIC or (names is None and (topic.error_code or topic.is_internal)):
                continue
            checked(topic.error_code, f"topic {topic.name}")
            shown = base64.urlsafe_b64encode(topic.topic_id.bytes).decode().rstrip("=")
            numbers = sorted(partition.partition_index for partition in topic.partitions)
            found[topic.name] = Topic(topic.name, shown, tuple(numbers))
            for partition in topic.partitions:
                if partition.leader_id >= 0:
                    self._leaders[topic.name, partition.partition_index] = partition.leader_id
        self._topics.update(found)
        return found

    async def _offsets(
        self, broker: Broker, pairs: Collection[Pair], when: int, isolation: Isolation
    ) -> Mapping[Pair, int]:
        by_node: dict[int, dict[str, list[int]]] = {}
        for pair in pairs:
            _, node = await self.leader(broker, pair)
            by_node.setdefault(node, {}).setdefault(pair[0], []).append(pair[1])
        found: dict[Pair, int] = {}
        for node, topics in by_node.items():
            answer = await broker.send(_offsets_request(topics, when, isolation), node)
            for topic in answer.topics:
                for partition in topic.partitions:
                    pair = (topic.name, partition.partition_index)
                    if partition.error_code:
                        self.moved(pair)
                    checked(partition.error_code, named(pair))
                    found[pair] = partition.offset
        return found


def named(pair: Pair) -> str:
    """A partition as people and epoch logs know it."""
    return f"{pair[0]}/{pair[1]}"


def _offsets_request(topics: Mapping[str, Sequence[int]], when: int, isolation: Isolation) -> Any:
    asked = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1 if isolation == "read_committed" else 0,
        topics=[
            asked(
                name=name,
                partitions=[asked.ListOffsetsPartition(partition_index=number, timestamp=when) for number in numbers],
            )
            for name, numbers in topics.items()
        ],
        timeout_ms=10_000,
    )
