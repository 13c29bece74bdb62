"""Transactions with a real broker: all or nothing, with other producers of the same id, and with lost answers."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import errors as kafka_errors
from support.brokers import OwnBroker
from support.conditions import HANG_SECONDS, wait_until
from support.kafka.transactional_topic import Loss, TransactionalTopic, messages, write

from millstream_connectors.kafka.client.coordinators import ProducerIdentity
from millstream_connectors.kafka.client.errors import Fenced
from millstream_connectors.kafka.client.network import Nodes
from millstream_connectors.kafka.client.transactions import Transactions

pytestmark = pytest.mark.kafka


REQUESTS = ["AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]


def test_prepared_messages_are_readable_after_the_commit(topic: TransactionalTopic) -> None:
    producer = topic.producer()
    producer.fence()
    producer.prepare(messages("a", "b"), "")
    assert topic.read() == []
    assert producer.commit()
    assert topic.read() == ["a0", "a1", "b0", "b1"]
    write(producer, "c")
    assert topic.read() == ["a0", "a1", "b0", "b1", "c0", "c1"]


def test_aborted_messages_are_never_readable(topic: TransactionalTopic) -> None:
    producer = topic.producer()
    producer.fence()
    producer.prepare(messages("a"), "")
    producer.abort()
    write(producer, "b")
    producer.prepare(messages("c"), "")
    write(producer, "d")  # the prepared messages are given up
    assert topic.read() == ["b0", "b1", "d0", "d1"]


def test_fencing_aborts_the_open_transaction_and_shuts_out_the_previous_producer(topic: TransactionalTopic) -> None:
    before, after = topic.producer(), topic.producer()
    before.fence()
    write(before, "a")
    before.prepare(messages("b"), "")
    after.fence()
    assert not before.commit()
    for _ in range(2):  # the fenced producer does not fence back
        with pytest.raises(Fenced):
            before.prepare(messages("b"), "")
    write(after, "c")
    assert topic.read() == ["a0", "a1", "c0", "c1"]


def test_a_producer_that_is_fenced_while_it_writes_disturbs_no_transaction(topic: TransactionalTopic) -> None:
    before, after = topic.producer(), topic.producer()
    before.fence()
    write(before, "a")
    after.fence()
    after.prepare(messages("b"), "")
    with pytest.raises(Fenced):
        before.prepare(messages("c"), "")
    with pytest.raises(Fenced):
        before.abort()
    assert after.commit()
    write(after, "d")
    assert topic.read() == ["a0", "a1", "b0", "b1", "d0", "d1"]


@pytest.mark.parametrize("done", [False, True], ids=["request lost", "answer lost"])
@pytest.mark.parametrize("kind", REQUESTS)
def test_after_any_lost_answer_everything_is_written_once(
    topic: TransactionalTopic, monkeypatch: pytest.MonkeyPatch, kind: str, done: bool
) -> None:
    producer = topic.producer()
    producer.fence()
    write(producer, "a")
    loss = Loss(monkeypatch, kind, done=done)
    write(producer, "b", "c")
    assert loss.left == 0
    write(producer, "d")
    assert topic.read() == ["a0", "a1", "b0", "b1", "c0", "c1", "d0", "d1"]


@pytest.mark.parametrize("done", [False, True], ids=["request lost", "answer lost"])
@pytest.mark.parametrize("kind", ["EndTxn", "InitProducerId"])
def test_answers_may_also_be_lost_during_the_cleanup_of_an_attempt(
    topic: TransactionalTopic, monkeypatch: pytest.MonkeyPatch, kind: str, done: bool
) -> None:
    producer = topic.producer()
    producer.fence()
    Loss(monkeypatch, "Produce", done=True)
    loss = Loss(monkeypatch, kind, done=done)
    producer.prepare(messages("a"), "")
    assert loss.left == 0
    assert producer.commit()
    assert topic.read() == ["a0", "a1"]


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_late_end_request_ends_no_other_transaction(
    topic: TransactionalTopic, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    producer, late = topic.producer(), topic.cluster()
    producer.fence()
    send = Nodes.send
    held: list[tuple[Any, int | None]] = []
    answered: list[int] = []

    async def delaying(nodes: Nodes, request: Any, node: int | None = None) -> Any:
        kind = type(request).__name__
        if kind.startswith("EndTxnRequest") and not held:
            held.append((request, node))
            message = "delayed"
            raise kafka_errors.KafkaConnectionError(message)
        answer = await send(nodes, request, node)
        if kind.startswith("ProduceRequest") and held and not answered:
            ended = late.ask("late", lambda other: send(other, *held[0]))
            answered.append(ended.error_code)
        return answer

    producer.prepare(messages("a"), "")
    monkeypatch.setattr(Nodes, "send", delaying)
    if commit:
        assert producer.commit()
    else:
        producer.abort()
    producer.prepare(messages("b"), "")
    assert answered == [kafka_errors.ProducerFencedError.errno]
    assert topic.read() == (["a0", "a1"] if commit else [])
    assert producer.commit()
    assert topic.read() == [*(["a0", "a1"] if commit else []), "b0", "b1"]


@pytest.mark.parametrize("done", [False, True], ids=["request lost", "answer lost"])
def test_the_answer_to_fencing_may_be_lost(
    topic: TransactionalTopic, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    Loss(monkeypatch, "InitProducerId", done=done)
    producer = topic.producer()
    producer.fence()
    write(producer, "a")
    assert topic.read() == ["a0", "a1"]


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_producer_that_is_fenced_while_an_answer_is_lost_fails_and_disturbs_no_other(
    topic: TransactionalTopic, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    before, after = topic.producer(), topic.producer()
    before.fence()
    send = Nodes.send
    fenced = False

    async def fencing(nodes: Nodes, request: Any, node: int | None = None) -> Any:
        nonlocal fenced
        if type(request).__name__.startswith(f"{kind}Request") and not fenced:
            fenced = True
            # It has a connection of its own, whose event loop runs in another thread.
            after.fence()
            after.prepare(messages("b"), "")
            message = "lost"
            raise kafka_errors.KafkaConnectionError(message)
        return await send(nodes, request, node)

    monkeypatch.setattr(Nodes, "send", fencing)

    def append() -> None:
        before.prepare(messages("a"), "")
        while not before.commit():
            before.prepare(messages("a"), "")

    with pytest.raises(Fenced):
        append()
    assert after.commit()
    assert topic.read() == ["b0", "b1"]


@pytest.mark.parametrize("done", [False, True], ids=["request lost", "answer lost"])
def test_a_producer_that_is_fenced_during_its_cleanup_does_not_fence_back(
    topic: TransactionalTopic, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    before, after = topic.producer(), topic.producer()
    before.fence()
    Loss(monkeypatch, "Produce", done=True)
    send = Nodes.send
    fenced = False

    async def fencing(nodes: Nodes, request: Any, node: int | None = None) -> Any:
        nonlocal fenced
        if not type(request).__name__.startswith("InitProducerIdRequest") or fenced:
            return await send(nodes, request, node)
        fenced = True
        if done:
            await send(nodes, request, node)
        after.fence()
        message = "lost"
        raise kafka_errors.KafkaConnectionError(message)

    monkeypatch.setattr(Nodes, "send", fencing)
    with pytest.raises(Fenced):
        before.prepare(messages("a"), "")
    write(after, "b")
    assert topic.read() == ["b0", "b1"]


def test_a_commit_by_another_process_is_not_undone_by_the_next_producer(topic: TransactionalTopic) -> None:
    before, after = topic.producer(), topic.producer()
    before.fence()
    before.prepare(messages("a"), "")
    assert after.end(before.producer, commit=True)
    topic.state()
    after.fence()
    assert not before.commit()  # the transaction is gone; only the progress shows that it was committed
    assert topic.read() == ["a0", "a1"]


def test_another_process_may_end_a_transaction_repeatedly(topic: TransactionalTopic) -> None:
    for commit in (True, False):
        producer, other = topic.producer(), topic.producer()
        producer.fence()
        producer.prepare(messages(f"{commit}"), "")
        assert other.end(producer.producer, commit=commit)
        assert other.end(producer.producer, commit=commit)
        topic.state()
        assert not other.end(producer.producer, commit=not commit)
    assert not topic.producer().end(ProducerIdentity(10**9, 0), commit=True)
    assert topic.read() == ["True0", "True1"]


def test_a_transaction_that_the_brokers_aborted_after_its_timeout_is_started_again(own_broker: OwnBroker) -> None:
    broker = own_broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"})
    topic = TransactionalTopic(broker.bootstrap, "slow")

    def timed_out(value: str) -> Transactions:
        """A producer whose prepared transaction the brokers have aborted."""
        producer = topic.producer(transaction_timeout=0.3)
        producer.fence()
        producer.prepare(messages(value), "")
        wait_until(lambda: topic.state() == "CompleteAbort", "the abort")
        assert not producer.commit()
        producer._timeout = HANG_SECONDS  # a busy machine may not commit the next transaction within the short one
        return producer

    write(timed_out("a"), "a")
    producer = timed_out("b")
    topic.producer().fence()
    with pytest.raises(Fenced):
        producer.prepare(messages("b"), "")
    assert topic.read() == ["a0", "a1"]
    topic.close()


def test_a_transactional_id_that_has_expired_is_used_again(own_broker: OwnBroker) -> None:
    broker = own_broker(
        {
            "transactional.id.expiration.ms": "1000",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
        }
    )
    topic = TransactionalTopic(broker.bootstrap, "idle")
    producer = topic.producer()
    producer.fence()
    write(producer, "a")
    wait_until(lambda: not topic.state(), "the expiry of the id")
    write(producer, "b")
    assert topic.read() == ["a0", "a1", "b0", "b1"]
    topic.close()
