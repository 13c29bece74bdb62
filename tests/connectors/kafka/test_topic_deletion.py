"""The deletion of a sink's rows: its own rows are deleted, messages of others are kept and reported."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from support.kafka.sink_topic import SinkTopic, epoch, offsets_of, progress
from support.kafka.topic_admin import TopicAdmin

from millstream.errors import ForeignSink, InUse, MillstreamError


@pytest.mark.kafka
def test_deletion_leaves_no_row_progress_or_group(sink_topic: SinkTopic) -> None:
    sink_topic.clear()  # the topic does not exist
    with sink_topic.opened() as sink:
        sink.append(epoch(0), progress(0))
        sink.prepare(epoch(1), progress(1))
        sink_topic.clear()
        assert (sink_topic.progress(), sink_topic.offsets(), sink_topic.group()) == (None, [], {})
        with pytest.raises(InUse):
            sink.append(epoch(1), progress(1))
    with sink_topic.opened() as sink:
        sink.append(epoch(0), progress(0, "another log"))
    assert (sink_topic.progress(), sink_topic.offsets()) == (progress(0, "another log"), offsets_of(0))
    sink_topic.clear()
    sink_topic.clear()
    assert sink_topic.progress() is None


@pytest.mark.kafka
def test_deletion_is_refused_if_there_are_messages_of_others_as_a_check_predicts(sink_topic: SinkTopic) -> None:
    sink_topic.may_clear()  # the topic does not exist
    with sink_topic.opened() as sink:
        sink.append(epoch(0), progress(0))
        sink_topic.may_clear()
        with TopicAdmin(sink_topic.bootstrap).producer() as producer:
            producer.send(sink_topic.topic, b"{}")
        with pytest.raises(ForeignSink, match="such as offset 4 of partition 0"):
            sink_topic.may_clear()
        sink.append(epoch(1), progress(1))  # the check has not disturbed it
    with pytest.raises(ForeignSink, match="such as offset 4 of partition 0"):
        sink_topic.clear()
    assert (len(sink_topic.messages()), sink_topic.progress()) == (7, progress(1))
    neighbour = dataclasses.replace(sink_topic, pipeline="neighbour")
    neighbour.may_clear()
    neighbour.clear()  # it has no rows in the topic
    assert len(sink_topic.messages()) == 7


@pytest.mark.kafka
def test_messages_of_others_are_found_after_the_open_transaction_of_a_dead_run(sink_topic: SinkTopic) -> None:
    with sink_topic.opened() as sink:
        sink.append(epoch(0), progress(0))
        sink.prepare(epoch(1), progress(1))
        sink_topic.may_clear()
        with TopicAdmin(sink_topic.bootstrap).producer() as producer:
            producer.send(sink_topic.topic, b"{}")
        with pytest.raises(ForeignSink, match="such as offset 7 of partition 0"):
            sink_topic.may_clear()
        sink.commit()
    assert sink_topic.progress() == progress(1)


@pytest.mark.kafka
def test_deletion_from_a_compacted_topic_is_refused_with_advice_as_a_check_predicts(
    created: Callable[..., SinkTopic],
) -> None:
    sink_topic = created(settings={"cleanup_policy": "compact"})
    sink_topic.may_clear()  # there are no rows yet
    with sink_topic.opened() as sink:
        sink.append(epoch(0), progress(0))
    for refused in (sink_topic.may_clear, sink_topic.clear):
        with pytest.raises(
            MillstreamError, match=r"compacted topic.*delete the topic itself, or give the output another topic"
        ):
            refused()
    both = created(settings={"cleanup_policy": "compact,delete"})
    with both.opened() as sink:
        sink.append(epoch(0), progress(0))
    both.may_clear()
    both.clear()
    assert both.messages() == []


@pytest.mark.kafka
def test_an_interrupted_deletion_can_be_repeated(sink_topic: SinkTopic) -> None:
    with sink_topic.opened() as sink:
        sink.append(epoch(0), progress(0))
    sink_topic.remove_rows()
    assert sink_topic.progress() == progress(0)  # by which the next attempt recognizes the topic
    sink_topic.clear()
    assert sink_topic.progress() is None
