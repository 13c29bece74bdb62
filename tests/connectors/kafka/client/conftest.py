"""Fixtures for tests of the client: topics for transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.brokers import SharedBroker
from support.kafka.topic_admin import TopicAdmin
from support.kafka.transactional_topic import PARTITIONS, TransactionalTopic


@pytest.fixture
def topic(broker: SharedBroker) -> Iterator[TransactionalTopic]:
    topic = TransactionalTopic(broker.bootstrap, broker.topic("transactions"))
    yield topic
    topic.close()


@pytest.fixture
def small_messages(broker: SharedBroker, topics: TopicAdmin) -> Iterator[Callable[[int], TransactionalTopic]]:
    """Producers for a topic that allows only messages up to this size."""
    opened: list[TransactionalTopic] = []

    def create(max_bytes: int) -> TransactionalTopic:
        topic = topics.create(broker.topic("transactions"), PARTITIONS, max_message_bytes=str(max_bytes))
        opened.append(TransactionalTopic(broker.bootstrap, topic))
        return opened[-1]

    yield create
    for topic in opened:
        topic.close()
