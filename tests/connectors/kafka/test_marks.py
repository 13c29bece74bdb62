"""The mark of a topic: told by the group, by the rows, or by what is left of both."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from connectors.kafka.producing import Producing
from connectors.kafka.sinking import Sinking, epoch, mark
from kafka_broker import SharedBroker

from millstream.errors import MillstreamError
from millstream_connectors.kafka import marks
from millstream_connectors.kafka.marks import metadata_of
from millstream_connectors.kafka.network import Broker

pytestmark = pytest.mark.kafka


@pytest.fixture
def sinking(broker: SharedBroker) -> Sinking:
    return Sinking(broker.bootstrap, broker.topic("marks"))


def filled(sinking: Sinking, *numbers: int, log: str = "an epoch log") -> None:
    with sinking.opened() as sink:
        for number in numbers:
            sink.append(epoch(number), mark(number, log))


def others(sinking: Sinking, count: int, partition: int = 0) -> None:
    """Messages of somebody else; some have a header of that name."""
    with Producing(sinking.bootstrap).producer() as producer:
        headers = [None, [("millstream", b'["other/predictions","an epoch log",99]')], [("millstream", b"99")]]
        for number in range(count):
            producer.send(sinking.topic, b"{}", headers=headers[number % 3], partition=partition)


def test_there_is_none_without_a_topic_and_looking_makes_none(sinking: Sinking) -> None:
    assert sinking.mark() is None
    assert sinking.read().num_rows == 0
    with sinking.admin() as admin:
        assert sinking.topic not in admin.list_topics()


def test_the_group_tells_the_mark_and_where_our_rows_end(sinking: Sinking) -> None:
    filled(sinking, 0, 1)
    [offset] = sinking.group().values()
    assert json.loads(offset.metadata) == {"log": "an epoch log", "epoch": 1}
    assert offset.offset == 7  # two epochs of three rows, and the end of the first transaction
    assert sinking.mark() == mark(1)


def test_rows_tell_the_mark_when_the_group_has_vanished(sinking: Sinking) -> None:
    filled(sinking, 0, 1)
    sinking.forget_group()
    assert sinking.mark() == mark(1)
    others(sinking, 1000)  # more than a first look takes in
    assert sinking.mark() == mark(1)
    filled(sinking, 2)
    assert sinking.mark() == mark(2)


def test_with_the_rows_gone_the_group_still_tells(sinking: Sinking) -> None:
    filled(sinking, 0, 1)
    sinking.remove_rows()
    assert sinking.mark() == mark(1)
    others(sinking, 10)
    assert sinking.mark() == mark(1)


def test_with_both_gone_there_is_none(sinking: Sinking) -> None:
    filled(sinking, 0, 1)
    sinking.remove_rows()
    sinking.forget_group()
    assert sinking.mark() is None
    others(sinking, 10)
    assert sinking.mark() is None


@pytest.mark.parametrize(
    ("offset", "metadata"),
    [
        (0, ""),  # as Kafka's own tool does it
        (3, metadata_of(mark(0))),  # as it was an epoch ago
        (0, metadata_of(mark(0))),
        (0, "{not json"),
        (3, '{"log": 7}'),
        (3, metadata_of(mark(0, "another log"))),
        (10**6, metadata_of(mark(77))),  # where no rows can be
    ],
)
def test_rows_count_for_more_than_what_somebody_makes_the_group_say(
    sinking: Sinking, offset: int, metadata: str
) -> None:
    filled(sinking, 0, 1)
    sinking.set_group(offset, metadata)
    assert sinking.mark() == mark(1)


def test_a_group_that_somebody_set_back_is_found_out_behind_many_messages_of_others(sinking: Sinking) -> None:
    filled(sinking, 0, 1)
    others(sinking, 1000)
    for offset, metadata in [(0, ""), (3, metadata_of(mark(0)))]:
        sinking.set_group(offset, metadata)
        assert sinking.mark() == mark(1)


def test_of_several_partitions_the_last_epoch_counts(broker: SharedBroker) -> None:
    sinking = Sinking(broker.bootstrap, broker.topic("marks"), options={"partitions": 3, "key": "label"})
    with sinking.opened() as sink:
        for number, label in enumerate(["a", "b", "c", "d", "e"]):
            sink.append(epoch(number, label=label), mark(number))
            assert sinking.mark() == mark(number)
    assert len(sinking.group()) > 1
    sinking.forget_group()
    assert sinking.mark() == mark(4)


def test_rows_of_an_open_or_aborted_transaction_do_not_count(sinking: Sinking) -> None:
    filled(sinking, 0)
    with sinking.opened() as sink:
        sink.prepare(epoch(1), mark(1))
        assert sinking.mark() == mark(0)
        sinking.forget_group()
        assert sinking.mark() == mark(0)
    filled(sinking, 2)  # which aborts it
    sinking.forget_group()
    assert sinking.mark() == mark(2)


def test_a_first_transaction_that_is_open_is_no_mark(sinking: Sinking) -> None:
    with sinking.opened() as sink:
        sink.prepare(epoch(0), mark(0))
        assert sinking.mark() is None


def test_an_open_transaction_of_somebody_else_hides_nothing_from_the_group(sinking: Sinking) -> None:
    filled(sinking, 0)
    with Producing(sinking.bootstrap).open_transaction(sinking.topic):
        filled(sinking, 1)
        assert sinking.mark() == mark(1)
    assert sinking.mark() == mark(1)


def test_where_the_group_says_nothing_the_end_of_an_open_transaction_is_waited_for(sinking: Sinking) -> None:
    filled(sinking, 0)
    hasty = dataclasses.replace(sinking, options={"patience": "2s"})
    with Producing(sinking.bootstrap).open_transaction(sinking.topic):
        filled(sinking, 1)
        sinking.forget_group()
        with pytest.raises(MillstreamError, match="a transaction of another producer is open there, and hides"):
            hasty.open()
    assert sinking.mark() == mark(1)


def test_without_a_guard_nobody_is_waited_for_and_only_the_end_of_the_topic_is_looked_at(
    sinking: Sinking, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinking = dataclasses.replace(sinking, options={"patience": "20s"})
    with sinking.opened(guarded=False) as sink:
        sink.append(epoch(0), mark(0))
    with Producing(sinking.bootstrap).open_transaction(sinking.topic):
        for _ in range(2):
            with sinking.opened(guarded=False) as sink:
                assert sink.mark() == mark(0)
                sink.append(epoch(1), mark(1))
    others(sinking, 100)
    with sinking.opened(guarded=False) as sink:
        assert sink.mark() == mark(1)
    monkeypatch.setattr(marks, "_GLANCE", 50)
    with sinking.opened(guarded=False) as sink:
        assert sink.mark() is None
    assert sinking.mark() == mark(1)


@pytest.mark.parametrize("how", ["deleted", "set to another offset"])
def test_an_offset_of_one_partition_that_somebody_takes_away_is_made_up_for_by_its_rows(
    broker: SharedBroker, how: str
) -> None:
    sinking = Sinking(broker.bootstrap, broker.topic("marks"), options={"partitions": 2})
    with sinking.opened() as sink:
        for number in range(6):
            sink.append(epoch(number, 1), mark(number))
    [last] = [message.partition for message in sinking.messages() if json.loads(message.value)["_offset"] == 5000]
    others(sinking, 400, partition=last)  # more than a first look takes in
    if how == "deleted":
        sinking.forget_partition(last)
    else:
        sinking.set_group(sinking.group()[last].offset + 400, "", partition=last)
    assert sinking.mark() == mark(5)


def test_partitions_without_rows_of_ours_are_looked_through_by_one_start_alone(
    broker: SharedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinking = Sinking(broker.bootstrap, broker.topic("marks"), options={"partitions": 3, "key": "label"})
    sinking.open().close()
    for partition in range(3):
        others(sinking, 1000, partition=partition)
    filled(sinking, 0)
    assert {partition for partition, offset in sinking.group().items() if offset.offset >= 1000} == {0, 1, 2}
    send = Broker.send
    fetched: list[int] = []

    async def watched(broker: Broker, request: Any, node: int | None = None) -> Any:
        if type(request).__name__.startswith("FetchRequest"):
            fetched.append(request.topics[0].partitions[0].fetch_offset)
        return await send(broker, request, node)

    monkeypatch.setattr(Broker, "send", watched)
    with sinking.opened() as sink:
        assert sink.mark() == mark(0)
        sink.append(epoch(1), mark(1))
    assert sinking.mark() == mark(1)
    assert all(offset >= 1000 for offset in fetched)
