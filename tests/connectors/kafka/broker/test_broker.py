"""A broker of one's own: up, down, killed and up again; what stands in its way is told."""

from __future__ import annotations

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka_broker import OwnBroker, SharedBroker

pytestmark = pytest.mark.kafka


def create(bootstrap: str, topic: str, partitions: int = 1) -> None:
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({topic: {"num_partitions": partitions}}, wait_for_metadata=True)


def write(bootstrap: str, topic: str, *values: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for value in values:
        producer.send(topic, value)
    producer.flush()
    producer.close()


def read(bootstrap: str, topic: str) -> list[bytes]:
    """All that is in the topic's first partition."""
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end = consumer.end_offsets([partition])[partition]
    values = []
    while consumer.position(partition) < end:
        values += [record.value for records in consumer.poll(1000).values() for record in records]
    consumer.close()
    return values


def test_what_is_written_is_read(broker: SharedBroker) -> None:
    topic = broker.topic()
    create(broker.bootstrap, topic)
    write(broker.bootstrap, topic, b"one", b"two")
    assert read(broker.bootstrap, topic) == [b"one", b"two"]


def test_data_outlive_kill(own_broker: OwnBroker) -> None:
    own = own_broker()
    create(own.bootstrap, "kept")
    write(own.bootstrap, "kept", b"one")
    assert own.kill()
    assert own.running() is None
    own.up()
    write(own.bootstrap, "kept", b"two")
    assert read(own.bootstrap, "kept") == [b"one", b"two"]
