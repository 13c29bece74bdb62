"""Clients of kafka-python, with time limits that only a test that hangs reaches.

Their own limits are 10 to 60 seconds, and a broker on a busy machine may need longer for an answer.
"""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from support.conditions import HANG_SECONDS

__all__ = ["add_topic", "connect_admin", "connect_consumer", "connect_producer"]

_HANG_MILLIS = HANG_SECONDS * 1000


def connect_admin(bootstrap: str) -> KafkaAdminClient:
    return KafkaAdminClient(
        bootstrap_servers=bootstrap,
        bootstrap_timeout_ms=_HANG_MILLIS,
        request_timeout_ms=_HANG_MILLIS,
        retry_backoff_ms=20,
    )


def connect_producer(bootstrap: str, **options: Any) -> KafkaProducer:
    """A producer; the brokers do not abort its transactions before a test counts as hanging."""
    limits = ("bootstrap_timeout_ms", "delivery_timeout_ms", "max_block_ms", "transaction_timeout_ms")
    return KafkaProducer(bootstrap_servers=bootstrap, **{**dict.fromkeys(limits, _HANG_MILLIS), **options})


def connect_consumer(bootstrap: str, **options: Any) -> KafkaConsumer:
    limits = dict.fromkeys(("bootstrap_timeout_ms", "request_timeout_ms"), _HANG_MILLIS)
    return KafkaConsumer(bootstrap_servers=bootstrap, **limits, **options)


def add_topic(admin: KafkaAdminClient, name: str, partitions: int = 1, **settings: str) -> None:
    """Create a topic, and wait until all of its partitions have leaders."""
    admin.create_topics({name: {"num_partitions": partitions, "replication_factor": 1, "configs": settings}})
    admin.wait_for_topics([name], timeout_ms=_HANG_MILLIS)
