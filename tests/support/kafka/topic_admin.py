"""Creates and changes topics, and writes messages into them, with kafka-python's own clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from kafka import KafkaProducer, TopicPartition
from support.conditions import wait_until
from support.kafka.clients import add_topic, connect_admin, connect_producer

from millstream_connectors.kafka.client.cluster import Cluster
from millstream_connectors.kafka.client.coordinators import KafkaCoordinators

__all__ = ["TopicAdmin", "wait_until_complete"]


def wait_until_complete(bootstrap: str, transactional_id: str) -> None:
    """Wait until a committed or aborted transaction is visible to readers: brokers confirm it before it is."""
    with closing(Cluster(bootstrap)) as cluster:
        KafkaCoordinators(cluster).wait_until_complete(transactional_id)


class TopicAdmin:
    """The topics of one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = connect_admin(bootstrap)

    def close(self) -> None:
        self._admin.close()

    def create(self, name: str, partitions: int = 1, **settings: str) -> str:
        """Create a topic whose messages stay, however old their timestamps are; `_` in names of settings is `.`."""
        configs = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in settings.items()}
        add_topic(self._admin, name, partitions, **configs)
        return name

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name])
        wait_until(lambda: name not in self._admin.list_topics(), f"the deletion of {name}")

    def add_partitions(self, name: str, total: int) -> None:
        self._admin.create_partitions({name: total})
        wait_until(lambda: len(self._admin.describe_topics([name])[0]["partitions"]) >= total, "the partitions")

    def remove(self, name: str, before: int, partition: int = 0) -> None:
        """Remove the messages before an offset, as retention does."""
        self._admin.delete_records({TopicPartition(name, partition): before})

    def send(self, name: str, values: Iterable[bytes | None], partition: int = 0, **options: Any) -> None:
        with self.producer() as producer:
            for value in values:
                producer.send(name, value, partition=partition, **options)

    @contextmanager
    def producer(self, **options: Any) -> Iterator[KafkaProducer]:
        """A producer; at the end of the block all its messages are written."""
        defaults = {"linger_ms": 5, "retry_backoff_ms": 5, "max_request_size": 15 << 20}
        producer = connect_producer(self.bootstrap, **{**defaults, **options})
        try:
            yield producer
            producer.flush()
        finally:
            producer.close()

    @contextmanager
    def open_transaction(self, name: str, partition: int = 0) -> Iterator[KafkaProducer]:
        """A message in an open transaction, which is aborted at the end of the block."""
        with self.producer(transactional_id=f"{name}-open") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(name, b"{}", partition=partition)
            producer.flush()
            yield producer
            producer.abort_transaction()

    def transaction(self, name: str, values: Sequence[bytes], *, commit: bool, partition: int = 0) -> None:
        """Write values in one transaction of a producer of their own; afterwards its end is visible to readers."""
        transactional_id = f"{name}-{id(values)}"
        with self.producer(transactional_id=transactional_id) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for value in values:
                producer.send(name, value, partition=partition)
            producer.flush()
            (producer.commit_transaction if commit else producer.abort_transaction)()
        wait_until_complete(self.bootstrap, transactional_id)
