"""Producers with a real broker: every message once and in order, in batches that the topic allows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.kafka.sink_topic import SinkTopic
from support.kafka.transactional_topic import PARTITIONS, Loss, TransactionalTopic, messages, write

from millstream_connectors.kafka.client.errors import MessageTooLarge
from millstream_connectors.kafka.client.producer import IdempotentProducer

pytestmark = pytest.mark.kafka


def test_an_epoch_may_take_many_batches(topic: TransactionalTopic) -> None:
    values = [f"{number:06d}" + "x" * 500 for number in range(5000)]
    producer = topic.producer()
    producer.fence()
    write(producer, *values)
    assert topic.read() == sorted(f"{value}{number}" for value in values for number in range(PARTITIONS))


@pytest.mark.parametrize("transaction", [True, False])
def test_batches_become_smaller_for_a_topic_that_allows_no_larger_ones(
    small_messages: Callable[[int], TransactionalTopic], transaction: bool
) -> None:
    topic = small_messages(2000)
    values = [f"{number:06d}" + "x" * 500 for number in range(20)]
    if transaction:
        producer = topic.producer()
        producer.fence()
        write(producer, *values)
    else:
        IdempotentProducer(topic.cluster(), topic.topic).write(messages(*values))
    assert topic.read() == sorted(f"{value}{number}" for value in values for number in range(PARTITIONS))


def test_a_message_that_is_too_large_for_the_topic_is_named(
    small_messages: Callable[[int], TransactionalTopic],
) -> None:
    topic = small_messages(2000)
    producer = topic.producer()
    producer.fence()
    with pytest.raises(MessageTooLarge) as raised:
        producer.prepare(messages("a", "b" * 3000, "c"), "")
    assert raised.value.index == 1
    assert 3000 < raised.value.size < 3200
    producer.abort()
    write(producer, "d")
    assert topic.read() == ["d0", "d1"]


@pytest.mark.parametrize("done", [False, True], ids=["request lost", "answer lost"])
def test_without_a_transaction_nothing_is_written_twice_either(
    small_messages: Callable[[int], TransactionalTopic], monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    topic = small_messages(3000)
    values = [f"{number:06d}" + "x" * 500 for number in range(100)]  # more batches than a broker remembers
    producer = IdempotentProducer(topic.cluster(), topic.topic)
    producer.write(messages(*values[:60]))
    loss = Loss(monkeypatch, "Produce", done=done, times=3)
    producer.write(messages(*values[60:]))
    assert loss.left == 0
    assert topic.read() == sorted(f"{value}{number}" for value in values for number in range(PARTITIONS))


def test_messages_of_a_partition_keep_their_order(topic: TransactionalTopic) -> None:
    producer = topic.producer()
    producer.fence()
    values = [str(number) for number in range(200)]
    write(producer, *values[:100])
    write(producer, *values[100:])
    topic.state()
    found: dict[int, list[str]] = {}
    for one in SinkTopic(topic.bootstrap, topic.topic).messages():
        found.setdefault(one.partition, []).append(one.value.decode())
    assert found == {number: [f"{value}{number}" for value in values] for number in range(PARTITIONS)}
