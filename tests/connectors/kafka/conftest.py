"""What tests of Kafka share: topics to fill, a connection, a sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from connectors.kafka.producing import Producing
from connectors.kafka.sinking import Sinking
from kafka_broker import SharedBroker

from millstream_connectors.kafka.cluster import Cluster


@pytest.fixture
def producing(broker: SharedBroker) -> Iterator[Producing]:
    producing = Producing(broker.bootstrap)
    yield producing
    producing.close()


@pytest.fixture
def cluster(broker: SharedBroker) -> Iterator[Cluster]:
    cluster = Cluster(broker.bootstrap, patience=30)
    yield cluster
    cluster.close()


@pytest.fixture
def sinking(broker: SharedBroker) -> Sinking:
    return Sinking(broker.bootstrap, broker.topic("sink"))


@pytest.fixture
def made(broker: SharedBroker) -> Callable[..., Sinking]:
    """A sink with other options, in a topic that may have settings of its own."""

    def make(*, partitions: int = 1, settings: dict[str, str] | None = None, **options: object) -> Sinking:
        topic = broker.topic("sink")
        if settings is not None:
            producing = Producing(broker.bootstrap)
            producing.topic(topic, partitions, **settings)
            producing.close()
        return Sinking(broker.bootstrap, topic, options={"patience": "60s", **options})

    return make
