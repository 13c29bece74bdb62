"""A topic with producers of one transactional id, and lost requests and answers."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kafka import errors as kafka_errors
from support.conditions import HANG_SECONDS
from support.kafka.sink_topic import SinkTopic

from millstream_connectors.kafka.client.cluster import Cluster
from millstream_connectors.kafka.client.coordinators import KafkaCoordinators
from millstream_connectors.kafka.client.encoder import Messages
from millstream_connectors.kafka.client.network import Nodes
from millstream_connectors.kafka.client.transactions import Transactions

__all__ = ["PARTITIONS", "Loss", "TransactionalTopic", "messages", "write"]

PARTITIONS = 2


def messages(*values: str) -> dict[int, Messages]:
    """The same values for each partition, as of now: brokers soon delete messages with old timestamps."""
    millis = time.time_ns() // 1_000_000
    return {
        number: Messages([(None, f"{value}{number}".encode()) for value in values], ("by", b"us"), millis)
        for number in range(PARTITIONS)
    }


class TransactionalTopic:
    """Producers of one transactional id, and the messages of their topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self._clusters: list[Cluster] = []
        self.cluster().create(topic, PARTITIONS)

    def cluster(self) -> Cluster:
        self._clusters.append(Cluster(self.bootstrap, timeout=HANG_SECONDS))
        return self._clusters[-1]

    def producer(self, transaction_timeout: float = HANG_SECONDS) -> Transactions:
        cluster, name = self.cluster(), self.topic
        return Transactions(
            cluster,
            KafkaCoordinators(cluster),
            name=name,
            group=name,
            topic=self.topic,
            transaction_timeout=transaction_timeout,
        )

    def state(self) -> str:
        """The state of the last transaction, once it is neither being committed nor being aborted."""
        found = KafkaCoordinators(self._clusters[0]).wait_until_complete(self.topic)
        return "" if found is None else found.state

    def read(self) -> list[str]:
        """The values, once all committed ones are readable."""
        self.state()
        return sorted(one.value.decode() for one in SinkTopic(self.bootstrap, self.topic).messages())

    def close(self) -> None:
        for cluster in self._clusters:
            cluster.close()


def write(producer: Transactions, *values: str) -> None:
    producer.prepare(messages(*values), "")
    assert producer.commit()


class Loss:
    """Loses the next request of a kind or, if `done`, the answer to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str, *, done: bool, times: int = 1) -> None:
        self.left = times
        send = Nodes.send

        async def lossy(nodes: Nodes, request: Any, node: int | None = None) -> Any:
            if type(request).__name__.startswith(f"{kind}Request") and self.left:
                self.left -= 1
                if done:
                    await send(nodes, request, node)
                message = "lost"
                raise kafka_errors.KafkaConnectionError(message)
            return await send(nodes, request, node)

        monkeypatch.setattr(Nodes, "send", lossy)
