"""Starting over in a topic: what is ours goes, what is others' is left and told."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from connectors.kafka.producing import Producing
from connectors.kafka.sinking import Sinking, epoch, mark, offsets_of

from millstream.errors import ForeignSink, InUse, MillstreamError


@pytest.mark.kafka
def test_starting_over_leaves_nothing(sinking: Sinking) -> None:
    sinking.clear()  # not even a topic is there
    with sinking.opened() as sink:
        sink.append(epoch(0), mark(0))
        sink.prepare(epoch(1), mark(1))
        sinking.clear()
        assert (sinking.mark(), sinking.offsets(), sinking.group()) == (None, [], {})
        with pytest.raises(InUse):
            sink.append(epoch(1), mark(1))
    with sinking.opened() as sink:
        sink.append(epoch(0), mark(0, "another log"))
    assert (sinking.mark(), sinking.offsets()) == (mark(0, "another log"), offsets_of(0))
    sinking.clear()
    sinking.clear()
    assert sinking.mark() is None


@pytest.mark.kafka
def test_starting_over_deletes_no_messages_of_others_and_can_tell_before(sinking: Sinking) -> None:
    sinking.may_clear()  # not even a topic is there
    with sinking.opened() as sink:
        sink.append(epoch(0), mark(0))
        sinking.may_clear()
        with Producing(sinking.bootstrap).producer() as producer:
            producer.send(sinking.topic, b"{}")
        with pytest.raises(ForeignSink, match="such as offset 4 of partition 0"):
            sinking.may_clear()
        sink.append(epoch(1), mark(1))  # which that has not disturbed
    with pytest.raises(ForeignSink, match="such as offset 4 of partition 0"):
        sinking.clear()
    assert (len(sinking.messages()), sinking.mark()) == (7, mark(1))
    neighbour = dataclasses.replace(sinking, pipeline="neighbour")
    neighbour.may_clear()
    neighbour.clear()  # it has nothing there that could be deleted
    assert len(sinking.messages()) == 7


@pytest.mark.kafka
def test_messages_of_others_are_found_behind_a_transaction_that_a_dead_run_has_left_open(sinking: Sinking) -> None:
    with sinking.opened() as sink:
        sink.append(epoch(0), mark(0))
        sink.prepare(epoch(1), mark(1))
        sinking.may_clear()
        with Producing(sinking.bootstrap).producer() as producer:
            producer.send(sinking.topic, b"{}")
        with pytest.raises(ForeignSink, match="such as offset 7 of partition 0"):
            sinking.may_clear()
        sink.commit()
    assert sinking.mark() == mark(1)


@pytest.mark.kafka
def test_starting_over_in_a_compacted_topic_says_what_to_do_and_can_tell_before(made: Callable[..., Sinking]) -> None:
    sinking = made(settings={"cleanup_policy": "compact"})
    sinking.may_clear()  # there is nothing to delete
    with sinking.opened() as sink:
        sink.append(epoch(0), mark(0))
    for refused in (sinking.may_clear, sinking.clear):
        with pytest.raises(
            MillstreamError, match=r"compacted topic.*delete the topic itself, or give the output another"
        ):
            refused()
    both = made(settings={"cleanup_policy": "compact,delete"})
    with both.opened() as sink:
        sink.append(epoch(0), mark(0))
    both.may_clear()
    both.clear()
    assert both.messages() == []


@pytest.mark.kafka
def test_starting_over_is_done_again_after_it_was_interrupted(sinking: Sinking) -> None:
    with sinking.opened() as sink:
        sink.append(epoch(0), mark(0))
    sinking.remove_rows()
    assert sinking.mark() == mark(0)  # by which it is known to be ours
    sinking.clear()
    assert sinking.mark() is None
