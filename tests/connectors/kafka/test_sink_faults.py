"""The Kafka sink with kills of processes and brokers, and with changes by users: every row is written once."""

from __future__ import annotations

import json
import logging
import random
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka import errors as kafka_errors
from support.brokers import OwnBroker, SharedBroker
from support.conditions import HANG_SECONDS
from support.kafka.append_process import ROWS, start_process
from support.kafka.short_timeouts import shorten_timeouts
from support.kafka.sink_topic import SinkTopic, epoch, offsets_of, progress

from millstream.errors import MillstreamError
from millstream_connectors.kafka.client.network import Nodes

pytestmark = pytest.mark.kafka


@pytest.fixture
def sink_topic(broker: SharedBroker) -> SinkTopic:
    return SinkTopic(broker.bootstrap, broker.topic("faults"))


def at(monkeypatch: pytest.MonkeyPatch, kind: str, act: Callable[[], object], *, done: bool) -> None:
    """Act at the next request of a kind, before it is sent or, if `done`, after it was executed; its answer is lost."""
    send = Nodes.send
    waiting = [act]

    async def watched(nodes: Nodes, request: Any, node: int | None = None) -> Any:
        if not type(request).__name__.startswith(f"{kind}Request") or not waiting:
            return await send(nodes, request, node)
        if done:
            await send(nodes, request, node)
        waiting.pop()()
        message = "lost"
        raise kafka_errors.KafkaConnectionError(message)

    monkeypatch.setattr(Nodes, "send", watched)


def test_a_broker_killed_in_a_transaction_is_waited_for_and_every_row_is_written_once(
    own_broker: OwnBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = own_broker()
    sink_topic = SinkTopic(broker.bootstrap, "killed")
    restarts: list[threading.Thread] = []

    def kill() -> None:
        broker.kill()
        restarts.append(threading.Thread(target=broker.up))
        restarts[-1].start()

    moments = [("AddPartitionsToTxn", True), ("Produce", True), ("EndTxn", False), ("EndTxn", True)]
    with sink_topic.opened() as sink, caplog.at_level(logging.WARNING):
        sink.append(epoch(0), progress(0))
        for number, (kind, done) in enumerate(moments, 1):
            with monkeypatch.context() as patched:
                at(patched, kind, kill, done=done)
                caplog.clear()
                sink.append(epoch(number), progress(number))
            assert sink.progress() == progress(number)
            restarts[-1].join()
            assert re.fullmatch("(begin (still )*end )+", waiting_periods(caplog.messages)), caplog.messages
    assert sink_topic.offsets() == offsets_of(*range(5))


def waiting_periods(messages: list[str]) -> str:
    """The messages about a broker that is down, in one word each.

    A restarted broker may answer some kinds of requests a second before others: then there are two periods.
    """
    words = {"waiting for Kafka": "begin", "still waiting for Kafka": "still", "Kafka at": "end"}
    return "".join(f"{word} " for text in messages for start, word in words.items() if text.startswith(start))


def test_after_a_timeout_in_a_commit_the_next_run_finds_out_whether_it_was_executed(
    own_broker: OwnBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = own_broker()
    sink_topic = SinkTopic(broker.bootstrap, "away", options={"timeout": f"{HANG_SECONDS}s"})
    for number, done in enumerate([True, False], 1):
        with sink_topic.opened() as sink:
            if number == 1:
                sink.append(epoch(0), progress(0))
            with monkeypatch.context() as patched:

                def kill(patched: pytest.MonkeyPatch = patched) -> None:
                    broker.kill()
                    shorten_timeouts(patched)  # only now: on a busy machine a live broker may need longer

                at(patched, "EndTxn", kill, done=done)
                with pytest.raises(MillstreamError, match=r"gave up waiting for Kafka at .* after 1 s"):
                    sink.append(epoch(number), progress(number))
            broker.up()
    with sink_topic.opened() as sink:
        assert sink.progress() == progress(1)  # its commit was executed, and the answer lost
        sink.append(epoch(2), progress(2))
    assert sink_topic.offsets() == offsets_of(0, 1, 2)


def test_the_open_transaction_of_a_killed_process_is_aborted_by_the_next(sink_topic: SinkTopic) -> None:
    with start_process(sink_topic, "prepare", 0) as dead:
        assert dead.stdout is not None and dead.stdout.readline()
        dead.kill()
    assert sink_topic.progress() is None
    with sink_topic.opened() as sink:
        assert sink.progress() is None
        sink.append(epoch(0), progress(0))
    assert sink_topic.offsets() == offsets_of(0)


@pytest.mark.parametrize("commit", [True, False])
def test_the_prepared_epoch_of_a_killed_process_is_finished_by_another(sink_topic: SinkTopic, commit: bool) -> None:
    with start_process(sink_topic, "prepare", 0) as dead:
        assert dead.stdout is not None
        token = json.loads(dead.stdout.readline())
        dead.kill()
    with sink_topic.opened(fenced=False) as sink:
        sink.finish(token, commit=commit)
        sink.finish(token, commit=commit)
        assert sink.progress() == (progress(0) if commit else None)
        assert sink_topic.offsets() == (offsets_of(0, count=ROWS) if commit else [])
        sink.fence(0)
        sink.append(epoch(1), progress(1))
    assert sink_topic.offsets() == [*(offsets_of(0, count=ROWS) if commit else []), *offsets_of(1)]


@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.matrix)])
def test_after_kills_every_row_is_written_once(sink_topic: SinkTopic, kills: int) -> None:
    rng = random.Random(5)
    last = -1
    for _ in range(kills):
        with start_process(sink_topic, "append", 10**6) as victim:
            assert victim.stdout is not None
            for _ in range(rng.randint(1, 20)):
                last = int(victim.stdout.readline())
            time.sleep(rng.random() * 0.01)  # anywhere in an epoch
            victim.kill()
            last = max([last, *map(int, victim.stdout.read().split())])
    held = sink_topic.progress()
    assert held is not None and held.epoch in (last, last + 1)
    with start_process(sink_topic, "append", held.epoch + 5) as end:
        assert end.wait(HANG_SECONDS) == 0
    assert sink_topic.offsets() == offsets_of(*range(held.epoch + 5), count=ROWS)


def test_a_group_that_is_deleted_during_a_run_is_written_again(sink_topic: SinkTopic) -> None:
    with sink_topic.opened() as sink:
        sink.append(epoch(0), progress(0))
        sink_topic.forget_group()
        sink.append(epoch(1), progress(1))
    assert len(sink_topic.group()) == 1
    assert sink_topic.progress() == progress(1)


def test_a_group_that_a_user_sets_back_repeats_no_row(sink_topic: SinkTopic) -> None:
    with sink_topic.opened() as sink:
        for number in range(3):
            sink.append(epoch(number), progress(number))
        sink_topic.set_group(0, "")
        with sink_topic.opened(fenced=False) as other:
            assert other.progress() == progress(2)
        sink.append(epoch(3), progress(3))
    with sink_topic.opened() as again:
        sink_topic.set_group(0, "")
        assert again.progress() == progress(3)
        again.append(epoch(4), progress(4))
    assert sink_topic.offsets() == offsets_of(*range(5))
