"""Topics with messages in them, as any producer makes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from connectors.kafka.running import eventually
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

__all__ = ["Producing"]


class Producing:
    """Makes topics on a broker, fills them and takes from them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap, retry_backoff_ms=20)

    def close(self) -> None:
        self._admin.close()

    def topic(self, name: str, partitions: int = 1, **settings: str) -> str:
        """Make a topic; settings have `_` for `.`."""
        configs = {key.replace("_", "."): value for key, value in settings.items()}
        self._admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs)], wait_for_metadata=True)
        return name

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name])
        eventually(lambda: name not in self._admin.list_topics(), f"the end of {name}")

    def partitions(self, name: str, total: int) -> None:
        """Add partitions."""
        self._admin.create_partitions({name: total})
        eventually(lambda: len(self._admin.describe_topics([name])[0]["partitions"]) >= total, "the partitions")

    def remove(self, name: str, before: int, partition: int = 0) -> None:
        """Do what retention does: remove what is before an offset."""
        self._admin.delete_records({TopicPartition(name, partition): before})

    def send(self, name: str, values: Iterable[bytes | None], partition: int = 0, **options: Any) -> None:
        with self.producer() as producer:
            for value in values:
                producer.send(name, value, partition=partition, **options)

    @contextmanager
    def producer(self, **options: Any) -> Iterator[KafkaProducer]:
        """A producer whose messages are all there when it closes."""
        defaults = {"linger_ms": 5, "retry_backoff_ms": 5, "max_request_size": 15 << 20}
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, **{**defaults, **options})
        try:
            yield producer
            producer.flush()
        finally:
            producer.close()

    @contextmanager
    def open_transaction(self, name: str, partition: int = 0) -> Iterator[KafkaProducer]:
        """A message in a transaction that stays open, and is aborted at the end if it still is."""
        with self.producer(transactional_id=f"{name}-open") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(name, b"{}", partition=partition)
            producer.flush()
            yield producer
            producer.abort_transaction()

    def transaction(self, name: str, values: Sequence[bytes], *, commit: bool, partition: int = 0) -> None:
        """Values in one transaction of a producer of their own."""
        with self.producer(transactional_id=f"{name}-{id(values)}") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for value in values:
                producer.send(name, value, partition=partition)
            producer.flush()
            (producer.commit_transaction if commit else producer.abort_transaction)()
