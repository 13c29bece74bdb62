"""Kafka's coordinators: the brokers that keep the offsets of groups and the state of transactional ids.

The group coordinator of a group keeps its offsets, the transaction coordinator of a transactional id its state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.admin import DeleteGroupsRequest, DescribeTransactionsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

from millstream_connectors.kafka.client.cluster import Cluster, Pair
from millstream_connectors.kafka.client.connection import check_code
from millstream_connectors.kafka.client.network import Nodes

__all__ = ["KafkaCoordinators", "ProducerIdentity"]


@dataclass(frozen=True)
class ProducerIdentity:
    """The id and epoch of a producer; the brokers increase the epoch to fence the previous producer."""

    id: int
    epoch: int


@dataclass(frozen=True)
class _TransactionState:
    """The current producer of a transactional id, and the state of its last transaction."""

    producer: ProducerIdentity
    state: str

    @property
    def open(self) -> bool:
        """True while a transaction is open."""
        return self.state == "Ongoing"


class KafkaCoordinators:
    """Kafka's group coordinators and transaction coordinators; their coroutines are used on the event loop only."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._numbers: dict[tuple[CoordinatorType, str], int] = {}

    async def ask_group(self, nodes: Nodes, group: str, request: Any) -> Any:
        """Send a request to the group coordinator of a group."""
        return await self._send(nodes, CoordinatorType.GROUP, group, request)

    async def ask_transaction(self, nodes: Nodes, name: str, request: Any) -> Any:
        """Send a request to the transaction coordinator of a transactional id."""
        return await self._send(nodes, CoordinatorType.TRANSACTION, name, request)

    def forget(self) -> None:
        """Forget the brokers that are coordinators, because a broker has refused a request."""
        self._numbers.clear()

    async def transaction_state(self, nodes: Nodes, name: str) -> _TransactionState | None:
        """The state of a transactional id, without fencing its producer; None if the brokers have none.

        The question is retried while a transaction is being committed or aborted: until that is complete, the messages
        that a reader will see are not known.
        """
        answer = await self.ask_transaction(nodes, name, DescribeTransactionsRequest(transactional_ids=[name]))
        found = answer.transaction_states[0]
        if found.error_code == kafka_errors.TransactionalIdNotFoundError.errno:
            return None
        if found.error_code:
            self.forget()
        check_code(found.error_code, f"transactions of {name}")
        if found.transaction_state.startswith("Prepare"):
            raise kafka_errors.ConcurrentTransactionsError(f"transactions of {name}")
        return _TransactionState(ProducerIdentity(found.producer_id, found.producer_epoch), found.transaction_state)

    def wait_until_complete(self, name: str) -> _TransactionState | None:
        """Wait until committed messages are readable: the brokers confirm a commit before they have published it."""
        return self._cluster.ask("transactions", lambda nodes: self.transaction_state(nodes, name))

    def group_offsets(self, group: str, pairs: Collection[Pair]) -> Mapping[Pair, tuple[int, str | None]]:
        """A group's committed offsets of partitions, with their metadata; open transactions do not count."""
        asked = OffsetFetchRequest.OffsetFetchRequestGroup
        numbers: dict[str, list[int]] = {}
        for topic, number in pairs:
            numbers.setdefault(topic, []).append(number)
        topics = [
            asked.OffsetFetchRequestTopics(name=topic, partition_indexes=indexes) for topic, indexes in numbers.items()
        ]

        async def offsets(nodes: Nodes) -> Mapping[Pair, tuple[int, str | None]]:
            request = OffsetFetchRequest(
                groups=[asked(group_id=group, topics=topics)], require_stable=False, min_version=8, max_version=9
            )
            answer = (await self.ask_group(nodes, group, request)).groups[0]
            if answer.error_code == kafka_errors.GroupIdNotFoundError.errno:
                return {}
            check_code(answer.error_code, f"group {group}")
            found = {}
            for topic in answer.topics:
                for partition in topic.partitions:
                    check_code(partition.error_code, f"group {group}")
                    if partition.committed_offset >= 0:
                        offset = partition.committed_offset, partition.metadata
                        found[topic.name, partition.partition_index] = offset
            return found

        return self._cluster.ask("group", offsets)

    def delete_group(self, group: str) -> None:
        """Delete a group and its offsets, if it exists."""

        async def delete(nodes: Nodes) -> None:
            answer = await self.ask_group(nodes, group, DeleteGroupsRequest(groups_names=[group]))
            code = answer.results[0].error_code
            if code != kafka_errors.GroupIdNotFoundError.errno:
                check_code(code, f"group {group}")

        self._cluster.ask("deletion", delete)

    async def _send(self, nodes: Nodes, kind: CoordinatorType, key: str, request: Any) -> Any:
        try:
            if (kind, key) not in self._numbers:
                asked = FindCoordinatorRequest(key_type=kind.value, coordinator_keys=[key], min_version=4)
                found = (await nodes.send(asked)).coordinators[0]
                check_code(found.error_code, key)
                self._numbers[kind, key] = found.node_id
            return await nodes.send(request, self._numbers[kind, key])
        except kafka_errors.KafkaError:
            self.forget()
            raise
