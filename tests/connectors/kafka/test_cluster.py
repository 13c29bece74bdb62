"""A connection to a cluster: what it answers, how long it waits, and what it says meanwhile."""

from __future__ import annotations

import logging
import multiprocessing
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.errors import OffsetNotAvailableError
from kafka_broker import OwnBroker, SharedBroker

from millstream.errors import MillstreamError
from millstream_connectors.kafka.broker import Broker, free_port
from millstream_connectors.kafka.cluster import Cluster, Topic
from millstream_connectors.kafka.network import Broker as Brokers
from millstream_connectors.kafka.waiting import Patience

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def topic(broker: SharedBroker, cluster: Cluster) -> Topic:
    return cluster.create(broker.topic("cluster"), 3)


def produce(broker: SharedBroker, topic: Topic, times: list[int], partition: int = 0) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for time in times:
        producer.send(topic.name, b"{}", partition=partition, timestamp_ms=time)
    producer.flush()
    producer.close()


@pytest.mark.kafka
def test_a_topic_that_is_made_is_there_with_its_partitions(cluster: Cluster, topic: Topic) -> None:
    assert list(topic.partitions) == [0, 1, 2]
    assert cluster.topics([topic.name]) == {topic.name: topic}
    assert cluster.topics()[topic.name] == topic
    assert cluster.create(topic.name, 7) == topic  # somebody else was first
    assert len(cluster.id) == 22


@pytest.mark.kafka
def test_asking_for_a_topic_does_not_make_it(cluster: Cluster, broker: SharedBroker) -> None:
    name = broker.topic("nowhere")
    assert cluster.topics([name]) == {}
    assert name not in cluster.topics()


@pytest.mark.kafka
def test_kafkas_own_topics_are_not_among_all(cluster: Cluster) -> None:
    assert not any(name.startswith("__") for name in cluster.topics())


@pytest.mark.kafka
def test_beginnings_ends_and_what_came_at_a_time(cluster: Cluster, topic: Topic, broker: SharedBroker) -> None:
    produce(broker, topic, [1_000, 2_000, 3_000])
    pairs = [(topic.name, number) for number in topic.partitions]
    first, second, third = pairs
    assert cluster.beginnings(pairs) == {first: 0, second: 0, third: 0}
    assert cluster.ends(pairs) == {first: 3, second: 0, third: 0}
    assert cluster.offsets_at(pairs, 2_000_000) == {first: 1, second: 0, third: 0}
    assert cluster.offsets_at([first], 2_000_001) == {first: 2}
    assert cluster.offsets_at([first], 3_000_001) == {first: 3}


@pytest.mark.kafka
def test_an_open_transaction_holds_the_end_back(cluster: Cluster, topic: Topic, broker: SharedBroker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic.name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic.name, b"{}", partition=0).get(10)
    pair = (topic.name, 0)
    assert cluster.ends([pair]) == {pair: 0}
    assert cluster.ends([pair], "read_uncommitted") == {pair: 1}
    producer.abort_transaction()
    producer.close()
    cluster.ask("the end", lambda broker: marked(cluster, broker, pair))
    assert cluster.ends([pair]) == {pair: 2}  # the record, and the mark of its end


async def marked(cluster: Cluster, broker: Brokers, pair: tuple[str, int]) -> None:
    """Fails, to be asked again, as long as the mark of the transaction's end is not there."""
    if (await cluster._offsets(broker, [pair], -1, "read_committed"))[pair] < 2:
        raise OffsetNotAvailableError


@pytest.mark.kafka
def test_many_threads_may_ask(cluster: Cluster, topic: Topic) -> None:
    pair = (topic.name, 0)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(cluster.ends([pair]))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{pair: 0}] * 16


@pytest.mark.kafka
def test_a_forked_process_has_connections_of_its_own(cluster: Cluster, topic: Topic) -> None:
    pair = (topic.name, 0)
    cluster.ends([pair])
    context = multiprocessing.get_context("fork")
    found = context.Queue()
    child = context.Process(target=lambda: found.put(dict(cluster.ends([pair]))))
    child.start()
    assert found.get(timeout=60) == {pair: 0}
    child.join()
    assert cluster.ends([pair]) == {pair: 0}


# Brokers that are away


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """What is said while waiting; the list grows."""
    said: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    keep = Keep()
    logger = logging.getLogger("millstream_connectors")
    logger.addHandler(keep)
    yield said
    logger.removeHandler(keep)


def test_nobody_there_is_told_with_the_address_and_what_to_do() -> None:
    cluster = Cluster(NOWHERE, patience=0.2)
    with pytest.raises(MillstreamError) as refused:
        cluster.topics()
    assert str(refused.value) == (
        "Kafka at 127.0.0.1:1 was waited for in vain for 0.2 s: 127.0.0.1:1: connection refused; "
        "is the address right, and does it run? `millstream kafka up` starts one on this machine"
    )
    cluster.close()


def test_a_host_that_nobody_knows_is_told_at_once() -> None:
    cluster = Cluster("nowhere.invalid:9092", patience=60)
    with pytest.raises(MillstreamError, match=r"Kafka at nowhere.invalid:9092: the host name 'nowhere.invalid' is not"):
        cluster.topics()
    cluster.close()


@pytest.mark.parametrize("bootstrap", ["kafka", "kafka:", ":9092", "kafka:0", "a:1,", "a:1;b:2", "a:65536"])
def test_addresses_are_hosts_and_ports(bootstrap: str) -> None:
    with pytest.raises(ValueError, match="a broker is HOST:PORT"):
        Cluster(bootstrap)


@pytest.mark.kafka
def test_of_several_addresses_one_is_enough(broker: SharedBroker) -> None:
    cluster = Cluster(f"{NOWHERE},{broker.bootstrap}", patience=30)
    assert cluster.id
    cluster.close()


@pytest.mark.kafka
def test_a_broker_that_was_killed_is_waited_for(own_broker: OwnBroker, warnings: list[str]) -> None:
    broker = own_broker()
    cluster = Cluster(broker.bootstrap, patience=60)
    pair = (cluster.create("news", 1).name, 0)
    assert cluster.ends_briefly([pair], "read_committed") == {pair: 0}
    broker.kill()
    while not warnings:  # it is told after a second
        assert cluster.ends_briefly([pair], "read_committed") is None
    back = threading.Thread(target=broker.up)
    back.start()
    assert cluster.ends([pair]) == {pair: 0}
    back.join()
    cluster.close()
    first, *others, last = warnings
    assert first.startswith(f"waiting for Kafka at {broker.bootstrap}, up to 60 s: ")
    assert all(other.startswith("still waiting") for other in others)
    assert last.startswith(f"Kafka at {broker.bootstrap} answers again, after ")


@pytest.mark.kafka
def test_a_broker_that_has_moved_is_found_at_another_address(own_broker: OwnBroker) -> None:
    before = own_broker()
    after = Broker(before.data, free_port())
    cluster = Cluster(f"{before.bootstrap},{after.bootstrap}", patience=60)
    pair = (cluster.create("news", 1).name, 0)
    before.kill()
    try:
        after.up()
        assert cluster.ends([pair]) == {pair: 0}
        cluster.close()
    finally:
        after.kill()


def test_one_line_when_trouble_begins_one_every_ten_seconds_one_when_it_is_over(warnings: list[str]) -> None:
    now = 100.0
    patience = Patience("Kafka", 60, clock=lambda: now)
    for tenth in range(400):
        now = 100 + tenth / 10
        patience.failed("ends", "refused", since=now - 0.1)
        patience.failed("topics", "refused", since=now - 0.1)
    patience.over("ends")
    assert "again" not in warnings[-1]
    patience.over("topics")
    assert warnings == [
        "waiting for Kafka, up to 60 s: refused",
        "still waiting for Kafka, for 11 s so far: refused",
        "still waiting for Kafka, for 21 s so far: refused",
        "still waiting for Kafka, for 31 s so far: refused",
        "Kafka answers again, after 40 s",
    ]


def test_a_short_trouble_is_not_worth_a_word(warnings: list[str]) -> None:
    now = 100.0
    patience = Patience("Kafka", 60, clock=lambda: now)
    patience.failed("ends", "moved", since=now)
    now = 100.9
    patience.failed("ends", "moved", since=now)
    patience.over("ends")
    now = 200.0
    patience.failed("ends", "moved", since=now)
    assert warnings == []


def test_patience_ends(warnings: list[str]) -> None:
    now = 100.0
    patience = Patience("Kafka", 60, clock=lambda: now)
    patience.failed("ends", "refused", since=now)
    now = 159.0
    patience.failed("topics", "refused", since=now)
    now = 160.0
    with pytest.raises(MillstreamError, match=r"^Kafka was waited for in vain for 60 s: refused; does it run\?$"):
        patience.failed("ends", "refused", since=now, advice="does it run?")
