"""The Kafka sink when processes and brokers are killed, and when somebody meddles: every row is there once."""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from connectors.kafka.appending import ROWS, process
from connectors.kafka.sinking import Sinking, epoch, mark, offsets_of
from kafka import errors as kafka_errors
from kafka_broker import OwnBroker, SharedBroker

from millstream.errors import MillstreamError
from millstream_connectors.kafka.network import Broker

pytestmark = pytest.mark.kafka


@pytest.fixture
def sinking(broker: SharedBroker) -> Sinking:
    return Sinking(broker.bootstrap, broker.topic("faults"))


def at(monkeypatch: pytest.MonkeyPatch, kind: str, do: Callable[[], object], *, done: bool) -> None:
    """Do something when the next request of a kind is sent, whose answer is lost; or the request, if not `done`."""
    send = Broker.send
    waiting = [do]

    async def watched(broker: Broker, request: Any, node: int | None = None) -> Any:
        if not type(request).__name__.startswith(f"{kind}Request") or not waiting:
            return await send(broker, request, node)
        if done:
            await send(broker, request, node)
        waiting.pop()()
        message = "lost"
        raise kafka_errors.KafkaConnectionError(message)

    monkeypatch.setattr(Broker, "send", watched)


def test_a_broker_killed_in_a_transaction_is_waited_for_and_every_row_is_there_once(
    own_broker: OwnBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = own_broker()
    sinking = Sinking(broker.bootstrap, "killed")
    restarts: list[threading.Thread] = []

    def kill() -> None:
        broker.kill()
        restarts.append(threading.Thread(target=broker.up))
        restarts[-1].start()

    moments = [("AddPartitionsToTxn", True), ("Produce", True), ("EndTxn", False), ("EndTxn", True)]
    with sinking.opened() as sink, caplog.at_level(logging.WARNING):
        sink.append(epoch(0), mark(0))
        for number, (kind, done) in enumerate(moments, 1):
            with monkeypatch.context() as patched:
                at(patched, kind, kill, done=done)
                caplog.clear()
                sink.append(epoch(number), mark(number))
            assert sink.mark() == mark(number)
            restarts[-1].join(60)
            said = [record.getMessage().partition(" Kafka at ")[0] for record in caplog.records]
            assert said[0] == "waiting for" and said[1:-1] == ["still waiting for"] * len(said[1:-1])
            assert "answers again" in caplog.records[-1].getMessage()
    assert sinking.offsets() == offsets_of(*range(5))


def test_a_broker_that_stays_away_ends_the_patience_and_what_was_uncertain_is_found_out(
    own_broker: OwnBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = own_broker()
    sinking = Sinking(broker.bootstrap, "away", options={"patience": "1s"})
    for number, done in enumerate([True, False], 1):
        with sinking.opened() as sink:
            if number == 1:
                sink.append(epoch(0), mark(0))
            with monkeypatch.context() as patched:
                at(patched, "EndTxn", broker.kill, done=done)
                with pytest.raises(MillstreamError, match=r"waited for in vain for 1 s"):
                    sink.append(epoch(number), mark(number))
            broker.up()
    with sinking.opened() as sink:
        assert sink.mark() == mark(1)  # which was committed, unheard
        sink.append(epoch(2), mark(2))
    assert sinking.offsets() == offsets_of(0, 1, 2)


def test_what_a_killed_process_has_left_open_is_aborted_by_the_next(sinking: Sinking) -> None:
    with process(sinking, "prepare", 0) as dead:
        assert dead.stdout is not None and dead.stdout.readline()
        dead.kill()
    assert sinking.mark() is None
    with sinking.opened() as sink:
        assert sink.mark() is None
        sink.append(epoch(0), mark(0))
    assert sinking.offsets() == offsets_of(0)


@pytest.mark.parametrize("commit", [True, False])
def test_what_a_killed_process_has_prepared_is_finished_by_another(sinking: Sinking, commit: bool) -> None:
    with process(sinking, "prepare", 0) as dead:
        assert dead.stdout is not None
        token = json.loads(dead.stdout.readline())
        dead.kill()
    with sinking.opened() as sink:
        sink.finish(token, commit=commit)
        sink.finish(token, commit=commit)
        assert sink.mark() == (mark(0) if commit else None)
        assert sinking.offsets() == (offsets_of(0, count=ROWS) if commit else [])
        sink.append(epoch(1), mark(1))
    assert sinking.offsets() == [*(offsets_of(0, count=ROWS) if commit else []), *offsets_of(1)]


def test_ten_kills_leave_every_row_once(sinking: Sinking) -> None:
    rng = random.Random(5)
    last = -1
    for _ in range(10):
        with process(sinking, "append", 10**6) as victim:
            assert victim.stdout is not None
            for _ in range(rng.randint(1, 20)):
                last = int(victim.stdout.readline())
            time.sleep(rng.random() * 0.01)  # anywhere in an epoch
            victim.kill()
            last = max([last, *map(int, victim.stdout.read().split())])
    held = sinking.mark()
    assert held is not None and held.epoch in (last, last + 1)
    with process(sinking, "append", held.epoch + 5) as end:
        assert end.wait(60) == 0
    assert sinking.offsets() == offsets_of(*range(held.epoch + 5), count=ROWS)


def test_a_group_that_vanishes_while_a_run_appends_is_written_anew(sinking: Sinking) -> None:
    with sinking.opened() as sink:
        sink.append(epoch(0), mark(0))
        sinking.forget_group()
        sink.append(epoch(1), mark(1))
    assert len(sinking.group()) == 1
    assert sinking.mark() == mark(1)


def test_somebody_setting_the_group_back_repeats_no_row(sinking: Sinking) -> None:
    with sinking.opened() as sink:
        for number in range(3):
            sink.append(epoch(number), mark(number))
        sinking.set_group(0, "")
        with sinking.opened() as other:
            assert other.mark() == mark(2)
        sink.append(epoch(3), mark(3))
    with sinking.opened() as again:
        sinking.set_group(0, "")
        assert again.mark() == mark(3)
        again.append(epoch(4), mark(4))
    assert sinking.offsets() == offsets_of(*range(5))
