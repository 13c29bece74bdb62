"""Fixtures for Kafka tests: topics, a connection, a sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from support.brokers import SharedBroker
from support.conditions import HANG_SECONDS
from support.kafka.sink_topic import SinkTopic
from support.kafka.topic_admin import TopicAdmin

from millstream_connectors.kafka.client import connection
from millstream_connectors.kafka.client.cluster import Cluster


@pytest.fixture
def topics(broker: SharedBroker) -> Iterator[TopicAdmin]:
    with closing(TopicAdmin(broker.bootstrap)) as topics:
        yield topics


@pytest.fixture
def cluster(broker: SharedBroker) -> Iterator[Cluster]:
    with closing(Cluster(broker.bootstrap, timeout=HANG_SECONDS)) as cluster:
        yield cluster


@pytest.fixture
def sink_topic(broker: SharedBroker) -> SinkTopic:
    return SinkTopic(broker.bootstrap, broker.topic("sink"))


@pytest.fixture
def created(broker: SharedBroker) -> Callable[..., SinkTopic]:
    """A sink with other options, in a topic that may have settings of its own."""

    def create(*, partitions: int = 1, settings: dict[str, str] | None = None, **options: object) -> SinkTopic:
        topic = broker.topic("sink")
        if settings is not None:
            with closing(TopicAdmin(broker.bootstrap)) as topics:
                topics.create(topic, partitions, **settings)
        return SinkTopic(broker.bootstrap, topic, options={"timeout": f"{HANG_SECONDS}s", **options})

    return create


@pytest.fixture
def every_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the answer to every attempt before the timeout is checked.

    On a busy machine the last attempt before a short timeout may have no answer yet, and then the error does not name
    the reason that the test expects.
    """
    monkeypatch.setattr(connection, "_POLL_SECONDS", HANG_SECONDS)
    monkeypatch.setattr(connection, "_MIN_ANSWER_SECONDS", HANG_SECONDS)
