"""A Kafka cluster: its topics, and the first and last offsets of their partitions."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from kafka import errors as kafka_errors
from kafka.protocol.admin import CreateTopicsRequest, DeleteRecordsRequest, DescribeConfigsRequest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from millstream_connectors.kafka.client.connection import Connection, check_code
from millstream_connectors.kafka.client.network import Nodes
from millstream_connectors.kafka.client.security import Security

__all__ = ["Cluster", "Isolation", "Pair", "Topic", "partition_name"]

T = TypeVar("T")

Pair = tuple[str, int]
"""A topic's name and the number of one of its partitions."""

Isolation = Literal["read_committed", "read_uncommitted"]

_LATEST, _EARLIEST = -1, -2
_TOPIC = 2
"""The number of topics among the kinds of resources that have settings."""
_DELETE_MILLIS = 30_000
_UNKNOWN_TOPIC = kafka_errors.UnknownTopicOrPartitionError.errno


@dataclass(frozen=True)
class Topic:
    """A topic; its id, as Kafka's tools print it, changes when the topic is deleted and created again."""

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
    """A Kafka cluster; it connects at the first request, in the process that makes the request.

    Requests are retried for up to `timeout` seconds while a broker is unavailable. No request for a topic creates it.
    """

    def __init__(
        self,
        bootstrap: str,
        security: Security | None = None,
        timeout: float = 120.0,
        folder: Path = Path(),
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._connection = Connection(bootstrap, security, timeout, folder, stopped)
        self._leaders: dict[Pair, int] = {}
        self._topics: dict[str, Topic] = {}
        self._id = ""

    @property
    def id(self) -> str:
        """The id that the cluster has given itself."""
        if not self._id:
            self.ask("the cluster", lambda nodes: self._metadata(nodes, []))
        return self._id

    def ask(self, kind: str, question: Callable[[Nodes], Awaitable[T]]) -> T:
        """The answer to any other question, with retries; `kind` names the kind of question."""
        return self._connection.ask(kind, question)

    def topics(self, names: Collection[str] | None = None) -> Mapping[str, Topic]:
        """The topics of these names that exist; without names, all topics but Kafka's internal ones."""
        return self.ask("topics", lambda nodes: self._metadata(nodes, names))

    def topic(self, name: str) -> Topic | None:
        """The topic of this name, if it exists."""
        return self.topics([name]).get(name)

    def topics_briefly(self, names: Collection[str] | None = None) -> Mapping[str, Topic] | None:
        """As `topics`, without retries: None if there is no answer now."""
        return self._connection.ask_briefly("topics", lambda nodes: self._metadata(nodes, names))

    def ends(self, pairs: Collection[Pair], isolation: Isolation = "read_committed") -> Mapping[Pair, int]:
        """The ends of the readable messages; under read_committed they are before the first open transaction."""
        return self.ask("ends", lambda nodes: self._offsets(nodes, pairs, _LATEST, isolation))

    def ends_briefly(self, pairs: Collection[Pair], isolation: Isolation) -> Mapping[Pair, int] | None:
        """As `ends`, without retries: None if there is no answer now."""
        return self._connection.ask_briefly("ends", lambda nodes: self._offsets(nodes, pairs, _LATEST, isolation))

    def beginnings(self, pairs: Collection[Pair]) -> Mapping[Pair, int]:
        """The first offsets that the brokers have not removed."""
        return self.ask("beginnings", lambda nodes: self._offsets(nodes, pairs, _EARLIEST, "read_uncommitted"))

    def offsets_at(
        self, pairs: Collection[Pair], micros: int, isolation: Isolation = "read_committed"
    ) -> Mapping[Pair, int]:
        """The first offsets whose timestamp is this time or later; the end of a partition that has none."""
        millis = -(-micros // 1000)
        found = self.ask("offsets", lambda nodes: self._offsets(nodes, pairs, millis, isolation))
        missing = [pair for pair, offset in found.items() if offset < 0]
        return {**found, **(self.ends(missing, isolation) if missing else {})}

    def create(self, topic: str, partitions: int) -> Topic:
        """Create a topic with the brokers' defaults for all other settings; return the topic if it already exists."""

        async def create(nodes: Nodes) -> None:
            wanted = CreateTopicsRequest.CreatableTopic(
                name=topic, num_partitions=partitions, replication_factor=-1, assignments=[], configs=[]
            )
            answer = await nodes.send(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), nodes.controller)
            for one in answer.topics:
                if one.error_code != kafka_errors.TopicAlreadyExistsError.errno:
                    check_code(one.error_code, f"topic {topic}{f' ({one.error_message})' if one.error_message else ''}")

        async def find(nodes: Nodes) -> Topic:
            topics = await self._metadata(nodes, [topic])
            if topic not in topics:
                raise kafka_errors.LeaderNotAvailableError(f"topic {topic}")
            for number in topics[topic].partitions:
                self._leader((topic, number))
            return topics[topic]

        self.ask("creation", create)
        return self.ask("creation", find)

    def deletes_messages(self, topic: str) -> bool:
        """True if the brokers delete messages of a topic, or if this user may not read the topic's settings."""
        asked = DescribeConfigsRequest.DescribeConfigsResource
        resource = asked(resource_type=_TOPIC, resource_name=topic, configuration_keys=["cleanup.policy"])

        async def deletes(nodes: Nodes) -> bool:
            [found] = (await nodes.send(DescribeConfigsRequest(resources=[resource]))).results
            if found.error_code == kafka_errors.TopicAuthorizationFailedError.errno:
                return True
            check_code(found.error_code, f"settings of topic {topic}")
            return all("delete" in one.value for one in found.configs)

        return self.ask("settings", deletes)

    def delete_messages(self, ends: Mapping[Pair, int]) -> bool:
        """Delete all messages before these offsets; false if the topic is compacted, and the brokers delete none."""
        asked = DeleteRecordsRequest.DeleteRecordsTopic

        async def delete(nodes: Nodes) -> bool:
            for pair, end in ends.items():
                _, node = await self.leader(nodes, pair)
                partition = asked.DeleteRecordsPartition(partition_index=pair[1], offset=end)
                topics = [asked(name=pair[0], partitions=[partition])]
                answer = await nodes.send(DeleteRecordsRequest(topics=topics, timeout_ms=_DELETE_MILLIS), node)
                code = answer.topics[0].partitions[0].error_code
                if code == kafka_errors.PolicyViolationError.errno:
                    return False
                if code:
                    self.forget_leader(pair)
                check_code(code, partition_name(pair))
            return True

        return self.ask("deletion", delete)

    def close(self) -> None:
        self._connection.close()

    # On the event loop

    async def leader(self, nodes: Nodes, pair: Pair) -> tuple[Topic, int]:
        """The topic of a partition as of the last metadata, and the number of the broker that leads the partition."""
        if pair not in self._leaders:
            await self._metadata(nodes, [pair[0]])
            if pair not in self._leaders and pair[0] not in self._topics:
                raise kafka_errors.UnknownTopicOrPartitionError(f"topic {pair[0]}")
        return self._topics[pair[0]], self._leader(pair)

    def forget_leader(self, pair: Pair) -> None:
        """Forget the leader of a partition, because that broker no longer leads it."""
        self._leaders.pop(pair, None)

    def _leader(self, pair: Pair) -> int:
        if pair not in self._leaders:
            raise kafka_errors.LeaderNotAvailableError(partition_name(pair))
        return self._leaders[pair]

    async def _metadata(self, nodes: Nodes, names: Collection[str] | None) -> Mapping[str, Topic]:
        asked = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        answer = await nodes.send(MetadataRequest(topics=asked, allow_auto_topic_creation=False, min_version=10))
        nodes.update(answer)
        self._id = nodes.cluster_id
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
            check_code(topic.error_code, f"topic {topic.name}")
            shown = base64.urlsafe_b64encode(topic.topic_id.bytes).decode().rstrip("=")
            numbers = sorted(partition.partition_index for partition in topic.partitions)
            found[topic.name] = Topic(topic.name, shown, tuple(numbers))
            for partition in topic.partitions:
                if partition.leader_id >= 0:
                    self._leaders[topic.name, partition.partition_index] = partition.leader_id
        self._topics.update(found)
        return found

    async def _offsets(
        self, nodes: Nodes, pairs: Collection[Pair], timestamp: int, isolation: Isolation
    ) -> Mapping[Pair, int]:
        by_node: dict[int, dict[str, list[int]]] = {}
        for pair in pairs:
            _, node = await self.leader(nodes, pair)
            by_node.setdefault(node, {}).setdefault(pair[0], []).append(pair[1])
        found: dict[Pair, int] = {}
        for node, topics in by_node.items():
            answer = await nodes.send(_offsets_request(topics, timestamp, isolation), node)
            for topic in answer.topics:
                for partition in topic.partitions:
                    pair = (topic.name, partition.partition_index)
                    if partition.error_code:
                        self.forget_leader(pair)
                    check_code(partition.error_code, partition_name(pair))
                    found[pair] = partition.offset
        return found


def partition_name(pair: Pair) -> str:
    """The name of a partition in messages and in epoch logs."""
    return f"{pair[0]}/{pair[1]}"


def _offsets_request(topics: Mapping[str, Sequence[int]], timestamp: int, isolation: Isolation) -> Any:
    asked = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1 if isolation == "read_committed" else 0,
        topics=[
            asked(
                name=name,
                partitions=[
                    asked.ListOffsetsPartition(partition_index=number, timestamp=timestamp) for number in numbers
                ],
            )
            for name, numbers in topics.items()
        ],
        timeout_ms=10_000,
    )
