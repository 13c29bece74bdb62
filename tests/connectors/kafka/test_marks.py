"""The mark of a topic: told by the group, by the rows, or by what is left of both."""

from __future__ import annotations

import json

import pytest
from connectors.kafka.producing import Producing
from connectors.kafka.sinking import Sinking, epoch, mark
from kafka_broker import SharedBroker

from millstream_connectors.kafka.marks import metadata_of

pytestmark = pytest.mark.kafka


@pytest.fixture
def sinking(broker: SharedBroker) -> Sinking:
    return Sinking(broker.bootstrap, broker.topic("marks"))


def filled(sinking: Sinking, *numbers: int, log: str = "an epoch log") -> None:
    with sinking.opened() as sink:
        for number in numbers:
            sink.append(epoch(number), mark(number, log))


def others(sinking: Sinking, count: int) -> None:
    """Messages of somebody else; some have a header of that name."""
    with Producing(sinking.bootstrap).producer() as producer:
        headers = [None, [("millstream", b'["other/predictions","an epoch log",99]')], [("millstream", b"99")]]
        for number in range(count):
            producer.send(sinking.topic, b"{}", headers=headers[number % 3], partition=0)


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
    with Producing(sinking.bootstrap).producer(transactional_id=sinking.topic, retry_backoff_ms=5) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(sinking.topic, b"{}", partition=0)
        producer.flush()
        filled(sinking, 1)
        assert sinking.mark() == mark(1)
        producer.commit_transaction()
    assert sinking.mark() == mark(1)
