"""A connection to a cluster: its answers, its retries, and its messages while a broker is unavailable."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, TypeVar

import pytest
from support.brokers import OwnBroker, SharedBroker
from support.conditions import HANG_SECONDS, wait_until
from support.kafka.clients import connect_producer
from support.kafka.topic_admin import wait_until_complete

from millstream_connectors.kafka.broker import Broker, free_port
from millstream_connectors.kafka.client import retries
from millstream_connectors.kafka.client.cluster import Cluster, Topic
from millstream_connectors.kafka.client.errors import RequestRefused, RetryStopped, RetryTimeout

T = TypeVar("T")

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def topic(broker: SharedBroker, cluster: Cluster) -> Topic:
    return cluster.create(broker.topic("cluster"), 3)


def produce(broker: SharedBroker, topic: Topic, times: list[int], partition: int = 0) -> None:
    producer = connect_producer(broker.bootstrap)
    for millis in times:
        producer.send(topic.name, b"{}", partition=partition, timestamp_ms=millis)
    producer.flush()
    producer.close()


@pytest.mark.kafka
def test_a_created_topic_exists_with_its_partitions(cluster: Cluster, topic: Topic) -> None:
    assert list(topic.partitions) == [0, 1, 2]
    assert cluster.topics([topic.name]) == {topic.name: topic}
    assert cluster.topics()[topic.name] == topic
    assert cluster.create(topic.name, 7) == topic  # it exists already
    assert len(cluster.id) == 22


@pytest.mark.kafka
def test_a_request_for_a_topic_does_not_create_it(cluster: Cluster, broker: SharedBroker) -> None:
    name = broker.topic("nowhere")
    assert cluster.topics([name]) == {}
    assert name not in cluster.topics()


@pytest.mark.kafka
def test_kafkas_internal_topics_are_not_listed(cluster: Cluster) -> None:
    assert not any(name.startswith("__") for name in cluster.topics())


@pytest.mark.kafka
def test_beginnings_ends_and_offsets_at_a_time(cluster: Cluster, topic: Topic, broker: SharedBroker) -> None:
    millis = time.time_ns() // 1_000_000  # brokers soon delete messages with old timestamps
    produce(broker, topic, [millis, millis + 1_000, millis + 2_000])
    pairs = [(topic.name, number) for number in topic.partitions]
    first, second, third = pairs
    assert cluster.beginnings(pairs) == {first: 0, second: 0, third: 0}
    assert cluster.ends(pairs) == {first: 3, second: 0, third: 0}
    assert cluster.offsets_at(pairs, (millis + 1_000) * 1_000) == {first: 1, second: 0, third: 0}
    assert cluster.offsets_at([first], (millis + 1_000) * 1_000 + 1) == {first: 2}
    assert cluster.offsets_at([first], (millis + 2_000) * 1_000 + 1) == {first: 3}


@pytest.mark.kafka
def test_the_committed_end_is_before_an_open_transaction(cluster: Cluster, topic: Topic, broker: SharedBroker) -> None:
    producer = connect_producer(broker.bootstrap, transactional_id=topic.name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic.name, b"{}", partition=0).get(HANG_SECONDS)
    pair = (topic.name, 0)
    assert cluster.ends([pair]) == {pair: 0}
    assert cluster.ends([pair], "read_uncommitted") == {pair: 1}
    producer.abort_transaction()
    producer.close()
    wait_until_complete(broker.bootstrap, topic.name)
    assert cluster.ends([pair]) == {pair: 2}  # the record, and the control record of the abort


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
    assert found.get(timeout=HANG_SECONDS) == {pair: 0}
    child.join()
    assert cluster.ends([pair]) == {pair: 0}


# Unavailable brokers


@pytest.fixture
def nowhere() -> Iterator[Cluster]:
    """A cluster at an address without a broker."""
    with closing(Cluster(NOWHERE, timeout=0.2)) as cluster:
        yield cluster


@pytest.mark.usefixtures("every_answer")
def test_an_unreachable_address_is_named_at_the_timeout(nowhere: Cluster) -> None:
    with pytest.raises(RetryTimeout) as refused:
        nowhere.topics()
    assert str(refused.value) == (
        "gave up waiting for Kafka at 127.0.0.1:1 after 0.2 s: 127.0.0.1:1: connection refused"
    )
    assert refused.value.unreachable


def test_an_unknown_host_name_is_refused_at_once() -> None:
    with (
        closing(Cluster("nowhere.invalid:9092", timeout=HANG_SECONDS)) as cluster,
        pytest.raises(RequestRefused, match=r"Kafka at nowhere.invalid:9092: the host name 'nowhere.invalid' is not"),
    ):
        cluster.topics()


@pytest.mark.parametrize("bootstrap", ["kafka", "kafka:", ":9092", "kafka:0", "a:1,", "a:1;b:2", "a:65536"])
def test_addresses_are_hosts_and_ports(bootstrap: str) -> None:
    with pytest.raises(ValueError, match="a broker is HOST:PORT"):
        Cluster(bootstrap)


def test_a_stop_ends_waiting_but_not_a_brief_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "_STOP_SECONDS", 0.0)
    with closing(Cluster(NOWHERE, timeout=HANG_SECONDS, stopped=lambda: True)) as cluster:
        assert cluster.topics_briefly() is None
        with pytest.raises(RetryStopped, match=r"stopped while waiting for Kafka at 127.0.0.1:1"):
            cluster.topics()


@pytest.mark.kafka
def test_one_reachable_address_of_several_is_enough(broker: SharedBroker) -> None:
    with closing(Cluster(f"{NOWHERE},{broker.bootstrap}", timeout=HANG_SECONDS)) as cluster:
        assert cluster.id


def answer_of(question: Callable[[], T | None]) -> T:
    """The first answer to a brief question, which may have none on a busy machine or for a new partition."""
    found: list[T] = []

    def answered() -> bool:
        answer = question()
        found.extend([] if answer is None else [answer])
        return bool(found)

    wait_until(answered, "an answer")
    return found[0]


@pytest.mark.kafka
def test_a_killed_broker_is_waited_for(own_broker: OwnBroker, caplog: pytest.LogCaptureFixture) -> None:
    broker = own_broker()
    cluster = Cluster(broker.bootstrap, timeout=HANG_SECONDS)
    pair = (cluster.create("news", 1).name, 0)
    assert answer_of(lambda: cluster.ends_briefly([pair], "read_committed")) == {pair: 0}
    broker.kill()
    caplog.clear()
    while not caplog.messages:  # the first message is logged after a second
        assert cluster.ends_briefly([pair], "read_committed") is None
    restart = threading.Thread(target=broker.up)
    restart.start()
    assert cluster.ends([pair]) == {pair: 0}
    restart.join()
    cluster.close()
    first, *others, last = caplog.messages
    assert first.startswith(f"waiting for Kafka at {broker.bootstrap}, up to {HANG_SECONDS} s: ")
    assert all(other.startswith("still waiting") for other in others)
    assert last.startswith(f"Kafka at {broker.bootstrap} answers again, after ")


@pytest.mark.kafka
def test_a_broker_that_has_moved_is_found_at_another_address(own_broker: OwnBroker) -> None:
    before = own_broker()
    after = Broker(before.data, free_port())
    cluster = Cluster(f"{before.bootstrap},{after.bootstrap}", timeout=HANG_SECONDS)
    pair = (cluster.create("news", 1).name, 0)
    before.kill()
    try:
        after.up()
        assert cluster.ends([pair]) == {pair: 0}
        cluster.close()
    finally:
        after.kill()
