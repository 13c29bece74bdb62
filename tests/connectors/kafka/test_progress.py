"""The progress of a topic: from the group, from the rows, or from the remaining parts of both."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest
from support.brokers import SharedBroker
from support.conditions import HANG_SECONDS
from support.kafka.sink_topic import OUTPUT, SinkTopic, epoch, progress
from support.kafka.topic_admin import TopicAdmin

from millstream_connectors.kafka import progress as progress_module
from millstream_connectors.kafka.client.cluster import Cluster
from millstream_connectors.kafka.client.coordinators import KafkaCoordinators
from millstream_connectors.kafka.client.errors import RetryTimeout
from millstream_connectors.kafka.client.network import Nodes
from millstream_connectors.kafka.progress import ProgressReader, Signature, metadata_of

pytestmark = pytest.mark.kafka


@pytest.fixture
def sink_topic(broker: SharedBroker) -> SinkTopic:
    return SinkTopic(broker.bootstrap, broker.topic("marks"))


def fill(sink_topic: SinkTopic, *numbers: int, log: str = "an epoch log") -> None:
    with sink_topic.opened() as sink:
        for number in numbers:
            sink.append(epoch(number), progress(number, log))


def write_others(sink_topic: SinkTopic, count: int, partition: int = 0) -> None:
    """Write messages of another producer; some have a header of the same name."""
    with TopicAdmin(sink_topic.bootstrap).producer() as producer:
        headers = [None, [("millstream", b'["other/predictions","an epoch log",99]')], [("millstream", b"99")]]
        for number in range(count):
            producer.send(sink_topic.topic, b"{}", headers=headers[number % 3], partition=partition)


def test_a_missing_topic_has_no_progress_and_is_not_created(sink_topic: SinkTopic) -> None:
    assert sink_topic.progress() is None
    assert sink_topic.read().num_rows == 0
    with sink_topic.admin() as admin:
        assert sink_topic.topic not in admin.list_topics()


def test_the_group_has_the_progress_and_the_end_of_the_rows(sink_topic: SinkTopic) -> None:
    fill(sink_topic, 0, 1)
    [offset] = sink_topic.group().values()
    assert json.loads(offset.metadata) == progress(1).line()
    assert offset.offset == 7  # two epochs of three rows, and the end of the first transaction
    assert sink_topic.progress() == progress(1)


def test_without_the_group_the_rows_have_the_progress(sink_topic: SinkTopic) -> None:
    fill(sink_topic, 0, 1)
    sink_topic.forget_group()
    assert sink_topic.progress() == progress(1)
    write_others(sink_topic, 1000)  # more than the first scan reads
    assert sink_topic.progress() == progress(1)
    fill(sink_topic, 2)
    assert sink_topic.progress() == progress(2)


def test_without_the_rows_the_group_has_the_progress(sink_topic: SinkTopic) -> None:
    fill(sink_topic, 0, 1)
    sink_topic.remove_rows()
    assert sink_topic.progress() == progress(1)
    write_others(sink_topic, 10)
    assert sink_topic.progress() == progress(1)


def test_without_both_there_is_no_progress(sink_topic: SinkTopic) -> None:
    fill(sink_topic, 0, 1)
    sink_topic.remove_rows()
    sink_topic.forget_group()
    assert sink_topic.progress() is None
    write_others(sink_topic, 10)
    assert sink_topic.progress() is None


@pytest.mark.parametrize(
    ("offset", "metadata"),
    [
        (0, ""),  # as Kafka's own tool sets it
        (3, metadata_of(progress(0))),  # the offset of the previous epoch
        (0, metadata_of(progress(0))),
        (0, "{not json"),
        (3, '{"log": 7}'),
        (3, metadata_of(progress(0, "another log"))),
        (10**6, metadata_of(progress(77))),  # after the end
    ],
)
def test_if_the_rows_and_an_altered_group_disagree_the_rows_win(
    sink_topic: SinkTopic, offset: int, metadata: str
) -> None:
    fill(sink_topic, 0, 1)
    sink_topic.set_group(offset, metadata)
    assert sink_topic.progress() == progress(1)


def test_an_altered_group_is_noticed_despite_many_messages_of_others(sink_topic: SinkTopic) -> None:
    fill(sink_topic, 0, 1)
    write_others(sink_topic, 1000)
    for offset, metadata in [(0, ""), (3, metadata_of(progress(0)))]:
        sink_topic.set_group(offset, metadata)
        assert sink_topic.progress() == progress(1)


def test_the_progress_of_several_partitions_is_the_last_epoch(broker: SharedBroker) -> None:
    sink_topic = SinkTopic(broker.bootstrap, broker.topic("marks"), options={"partitions": 3, "key": "label"})
    with sink_topic.opened() as sink:
        for number, label in enumerate(["a", "b", "c", "d", "e"]):
            sink.append(epoch(number, label=label), progress(number))
            assert sink_topic.progress() == progress(number)
    assert len(sink_topic.group()) > 1
    sink_topic.forget_group()
    assert sink_topic.progress() == progress(4)


def test_rows_of_an_open_or_aborted_transaction_do_not_count(sink_topic: SinkTopic) -> None:
    fill(sink_topic, 0)
    with sink_topic.opened() as sink:
        sink.prepare(epoch(1), progress(1))
        assert sink_topic.progress() == progress(0)
        sink_topic.forget_group()
        assert sink_topic.progress() == progress(0)
    fill(sink_topic, 2)  # this run aborts it
    sink_topic.forget_group()
    assert sink_topic.progress() == progress(2)


def test_a_first_transaction_that_is_open_is_no_progress(sink_topic: SinkTopic) -> None:
    with sink_topic.opened() as sink:
        sink.prepare(epoch(0), progress(0))
        assert sink_topic.progress() is None


def test_an_open_transaction_of_another_producer_hides_nothing_from_the_group(sink_topic: SinkTopic) -> None:
    fill(sink_topic, 0)
    with TopicAdmin(sink_topic.bootstrap).open_transaction(sink_topic.topic):
        fill(sink_topic, 1)
        assert sink_topic.progress() == progress(1)
    assert sink_topic.progress() == progress(1)


def test_without_the_group_the_end_of_another_producers_transaction_is_waited_for(sink_topic: SinkTopic) -> None:
    fill(sink_topic, 0)
    with TopicAdmin(sink_topic.bootstrap).open_transaction(sink_topic.topic):
        fill(sink_topic, 1)
        sink_topic.forget_group()
        with closing(Cluster(sink_topic.bootstrap, timeout=HANG_SECONDS)) as cluster:
            signature = Signature(sink_topic.pipeline, OUTPUT, sink_topic.topic)
            hasty = ProgressReader(cluster, KafkaCoordinators(cluster), signature, timeout=0.5)
            with pytest.raises(RetryTimeout, match="an open transaction of another producer hides later messages"):
                hasty.find()
    assert sink_topic.progress() == progress(1)


def test_without_a_guard_no_transaction_is_waited_for_and_only_the_last_messages_are_scanned(
    sink_topic: SinkTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sink_topic.opened(guarded=False) as sink:
        sink.append(epoch(0), progress(0))
    with TopicAdmin(sink_topic.bootstrap).open_transaction(sink_topic.topic):
        for _ in range(2):
            with sink_topic.opened(guarded=False) as sink:
                assert sink.progress() == progress(0)
                sink.append(epoch(1), progress(1))
    write_others(sink_topic, 100)
    with sink_topic.opened(guarded=False) as sink:
        assert sink.progress() == progress(1)
    monkeypatch.setattr(progress_module, "_RECENT", 50)
    with sink_topic.opened(guarded=False) as sink:
        assert sink.progress() is None
    assert sink_topic.progress() == progress(1)


@pytest.mark.parametrize("change", ["deleted", "set to another offset"])
def test_a_missing_or_altered_offset_of_one_partition_is_replaced_by_a_scan_of_its_rows(
    broker: SharedBroker, change: str
) -> None:
    sink_topic = SinkTopic(broker.bootstrap, broker.topic("marks"), options={"partitions": 2})
    with sink_topic.opened() as sink:
        for number in range(6):
            sink.append(epoch(number, 1), progress(number))
    [last] = [message.partition for message in sink_topic.messages() if json.loads(message.value)["_offset"] == 5000]
    write_others(sink_topic, 400, partition=last)  # more than the first scan reads
    if change == "deleted":
        sink_topic.forget_partition(last)
    else:
        sink_topic.set_group(sink_topic.group()[last].offset + 400, "", partition=last)
    assert sink_topic.progress() == progress(5)


def test_partitions_without_own_rows_are_scanned_only_once(
    broker: SharedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink_topic = SinkTopic(broker.bootstrap, broker.topic("marks"), options={"partitions": 3, "key": "label"})
    sink_topic.open().close()
    for partition in range(3):
        write_others(sink_topic, 1000, partition=partition)
    fill(sink_topic, 0)
    assert {partition for partition, offset in sink_topic.group().items() if offset.offset >= 1000} == {0, 1, 2}
    send = Nodes.send
    fetched: list[int] = []

    async def watched(nodes: Nodes, request: Any, node: int | None = None) -> Any:
        if type(request).__name__.startswith("FetchRequest"):
            fetched.append(request.topics[0].partitions[0].fetch_offset)
        return await send(nodes, request, node)

    monkeypatch.setattr(Nodes, "send", watched)
    with sink_topic.opened() as sink:
        assert sink.progress() == progress(0)
        sink.append(epoch(1), progress(1))
    assert sink_topic.progress() == progress(1)
    assert all(offset >= 1000 for offset in fetched)
