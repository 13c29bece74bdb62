"""Transactions with a real broker: all or nothing, with other producers of the same id, and with lost answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from connectors.kafka.pipeline_runs import HANG_SECONDS, eventually
from connectors.kafka.sink_topic import SinkTopic
from connectors.kafka.topic_admin import TopicAdmin
from kafka import errors as kafka_errors
from kafka_broker import OwnBroker, SharedBroker

from millstream_connectors.kafka.client.cluster import Cluster
from millstream_connectors.kafka.client.coordinators import Coordinators, ProducerIdentity
from millstream_connectors.kafka.client.encoding import Messages
from millstream_connectors.kafka.client.errors import Fenced, MessageTooLarge
from millstream_connectors.kafka.client.network import Nodes
from millstream_connectors.kafka.client.producer import IdempotentProducer
from millstream_connectors.kafka.client.transactions import Transactions

pytestmark = pytest.mark.kafka

PARTITIONS = 2
REQUESTS = ["AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]


def messages(*values: str) -> dict[int, Messages]:
    return {
        number: Messages([(None, f"{value}{number}".encode()) for value in values], ("by", b"us"), 0)
        for number in range(PARTITIONS)
    }


class Writing:
    """Producers of one transactional id, and the messages of their topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self._clusters: list[Cluster] = []
        self.cluster().create(topic, PARTITIONS)

    def cluster(self) -> Cluster:
        self._clusters.append(Cluster(self.bootstrap, timeout=HANG_SECONDS))
        return self._clusters[-1]

    def producer(self, transaction_timeout: float = 60) -> Transactions:
        cluster, name = self.cluster(), self.topic
        return Transactions(
            cluster,
            Coordinators(cluster),
            name=name,
            group=name,
            topic=self.topic,
            transaction_timeout=transaction_timeout,
        )

    def state(self) -> str:
        """The state of the last transaction, once it is neither being committed nor being aborted."""
        found = Coordinators(self._clusters[0]).wait_until_complete(self.topic)
        return "" if found is None else found.state

    def read(self) -> list[str]:
        """The values, once all committed ones are readable."""
        self.state()
        return sorted(one.value.decode() for one in SinkTopic(self.bootstrap, self.topic).messages())

    def close(self) -> None:
        for cluster in self._clusters:
            cluster.close()


@pytest.fixture
def writing(broker: SharedBroker) -> Iterator[Writing]:
    writing = Writing(broker.bootstrap, broker.topic("transactions"))
    yield writing
    writing.close()


@pytest.fixture
def small_messages(broker: SharedBroker, topics: TopicAdmin) -> Iterator[Callable[[int], Writing]]:
    """Producers for a topic that allows only messages up to this size."""
    opened: list[Writing] = []

    def create(max_bytes: int) -> Writing:
        topic = topics.create(broker.topic("transactions"), PARTITIONS, max_message_bytes=str(max_bytes))
        opened.append(Writing(broker.bootstrap, topic))
        return opened[-1]

    yield create
    for writing in opened:
        writing.close()


def write(producer: Transactions, *values: str) -> None:
    producer.prepare(messages(*values), "")
    assert producer.commit()


class Losing:
    """Loses the next request of a kind or, if `done`, the answer to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str, *, done: bool, times: int = 1) -> None:
        self.left = times
        send = Nodes.send

        async def lossy(nodes: Nodes, request: Any, node: int | None = None) -> Any:
            if type(request).__name__.startswith(f"{kind}Request") and self.left:
                self.left -= 1
                if done:
                    await send(nodes, request, node)
                message = "lost"
                raise kafka_errors.KafkaConnectionError(message)
            return await send(nodes, request, node)

        monkeypatch.setattr(Nodes, "send", lossy)


def test_prepared_messages_are_readable_after_the_commit(writing: Writing) -> None:
    producer = writing.producer()
    producer.fence()
    producer.prepare(messages("a", "b"), "")
    assert writing.read() == []
    assert producer.commit()
    assert writing.read() == ["a0", "a1", "b0", "b1"]
    write(producer, "c")
    assert writing.read() == ["a0", "a1", "b0", "b1", "c0", "c1"]


def test_aborted_messages_are_never_readable(writing: Writing) -> None:
    producer = writing.producer()
    producer.fence()
    producer.prepare(messages("a"), "")
    producer.abort()
    write(producer, "b")
    producer.prepare(messages("c"), "")
    write(producer, "d")  # the prepared messages are given up
    assert writing.read() == ["b0", "b1", "d0", "d1"]


def test_fencing_aborts_the_open_transaction_and_shuts_out_the_previous_producer(writing: Writing) -> None:
    before, after = writing.producer(), writing.producer()
    before.fence()
    write(before, "a")
    before.prepare(messages("b"), "")
    after.fence()
    assert not before.commit()
    for _ in range(2):  # the fenced producer does not fence back
        with pytest.raises(Fenced):
            before.prepare(messages("b"), "")
    write(after, "c")
    assert writing.read() == ["a0", "a1", "c0", "c1"]


def test_a_producer_that_is_fenced_while_it_writes_disturbs_no_transaction(writing: Writing) -> None:
    before, after = writing.producer(), writing.producer()
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
    assert writing.read() == ["a0", "a1", "b0", "b1", "d0", "d1"]


@pytest.mark.parametrize("done", [False, True], ids=["request lost", "answer lost"])
@pytest.mark.parametrize("kind", REQUESTS)
def test_after_any_lost_answer_everything_is_written_once(
    writing: Writing, monkeypatch: pytest.MonkeyPatch, kind: str, done: bool
) -> None:
    producer = writing.producer()
    producer.fence()
    write(producer, "a")
    losing = Losing(monkeypatch, kind, done=done)
    write(producer, "b", "c")
    assert losing.left == 0
    write(producer, "d")
    assert writing.read() == ["a0", "a1", "b0", "b1", "c0", "c1", "d0", "d1"]


@pytest.mark.parametrize("done", [False, True], ids=["request lost", "answer lost"])
@pytest.mark.parametrize("kind", ["EndTxn", "InitProducerId"])
def test_answers_may_also_be_lost_during_the_cleanup_of_an_attempt(
    writing: Writing, monkeypatch: pytest.MonkeyPatch, kind: str, done: bool
) -> None:
    producer = writing.producer()
    producer.fence()
    Losing(monkeypatch, "Produce", done=True)
    losing = Losing(monkeypatch, kind, done=done)
    producer.prepare(messages("a"), "")
    assert losing.left == 0
    assert producer.commit()
    assert writing.read() == ["a0", "a1"]


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_late_end_request_ends_no_other_transaction(
    writing: Writing, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    producer, late = writing.producer(), writing.cluster()
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
    assert writing.read() == (["a0", "a1"] if commit else [])
    assert producer.commit()
    assert writing.read() == [*(["a0", "a1"] if commit else []), "b0", "b1"]


@pytest.mark.parametrize("done", [False, True], ids=["request lost", "answer lost"])
def test_the_answer_to_fencing_may_be_lost(writing: Writing, monkeypatch: pytest.MonkeyPatch, done: bool) -> None:
    Losing(monkeypatch, "InitProducerId", done=done)
    producer = writing.producer()
    producer.fence()
    write(producer, "a")
    assert writing.read() == ["a0", "a1"]


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_producer_that_is_fenced_while_an_answer_is_lost_fails_and_disturbs_no_other(
    writing: Writing, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    before, after = writing.producer(), writing.producer()
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
    assert writing.read() == ["b0", "b1"]


@pytest.mark.parametrize("done", [False, True], ids=["request lost", "answer lost"])
def test_a_producer_that_is_fenced_during_its_cleanup_does_not_fence_back(
    writing: Writing, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    before, after = writing.producer(), writing.producer()
    before.fence()
    Losing(monkeypatch, "Produce", done=True)
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
    assert writing.read() == ["b0", "b1"]


def test_a_commit_by_another_process_is_not_undone_by_the_next_producer(writing: Writing) -> None:
    before, after = writing.producer(), writing.producer()
    before.fence()
    before.prepare(messages("a"), "")
    assert after.end(before.producer, commit=True)
    writing.state()
    after.fence()
    assert not before.commit()  # the transaction is gone; only the progress shows that it was committed
    assert writing.read() == ["a0", "a1"]


def test_another_process_may_end_a_transaction_repeatedly(writing: Writing) -> None:
    for commit in (True, False):
        producer, other = writing.producer(), writing.producer()
        producer.fence()
        producer.prepare(messages(f"{commit}"), "")
        assert other.end(producer.producer, commit=commit)
        assert other.end(producer.producer, commit=commit)
        writing.state()
        assert not other.end(producer.producer, commit=not commit)
    assert not writing.producer().end(ProducerIdentity(10**9, 0), commit=True)
    assert writing.read() == ["True0", "True1"]


def test_a_transaction_that_the_brokers_aborted_after_its_timeout_is_started_again(own_broker: OwnBroker) -> None:
    broker = own_broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"})
    writing = Writing(broker.bootstrap, "slow")

    def timed_out(value: str) -> Transactions:
        """A producer whose prepared transaction the brokers have aborted."""
        producer = writing.producer(transaction_timeout=0.3)
        producer.fence()
        producer.prepare(messages(value), "")
        eventually(lambda: writing.state() == "CompleteAbort", "the abort")
        assert not producer.commit()
        producer._timeout = 60  # a busy machine may not commit the next transaction within the short one
        return producer

    write(timed_out("a"), "a")
    producer = timed_out("b")
    writing.producer().fence()
    with pytest.raises(Fenced):
        producer.prepare(messages("b"), "")
    assert writing.read() == ["a0", "a1"]
    writing.close()


def test_a_transactional_id_that_has_expired_is_used_again(own_broker: OwnBroker) -> None:
    broker = own_broker(
        {
            "transactional.id.expiration.ms": "1000",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
        }
    )
    writing = Writing(broker.bootstrap, "idle")
    producer = writing.producer()
    producer.fence()
    write(producer, "a")
    eventually(lambda: not writing.state(), "the expiry of the id")
    write(producer, "b")
    assert writing.read() == ["a0", "a1", "b0", "b1"]
    writing.close()


def test_an_epoch_may_take_many_batches(writing: Writing) -> None:
    values = [f"{number:06d}" + "x" * 500 for number in range(5000)]
    producer = writing.producer()
    producer.fence()
    write(producer, *values)
    assert writing.read() == sorted(f"{value}{number}" for value in values for number in range(PARTITIONS))


@pytest.mark.parametrize("transaction", [True, False])
def test_batches_become_smaller_for_a_topic_that_allows_no_larger_ones(
    small_messages: Callable[[int], Writing], transaction: bool
) -> None:
    writing = small_messages(2000)
    values = [f"{number:06d}" + "x" * 500 for number in range(20)]
    if transaction:
        producer = writing.producer()
        producer.fence()
        write(producer, *values)
    else:
        IdempotentProducer(writing.cluster(), writing.topic).write(messages(*values))
    assert writing.read() == sorted(f"{value}{number}" for value in values for number in range(PARTITIONS))


def test_a_message_that_is_too_large_for_the_topic_is_named(small_messages: Callable[[int], Writing]) -> None:
    writing = small_messages(2000)
    producer = writing.producer()
    producer.fence()
    with pytest.raises(MessageTooLarge) as raised:
        producer.prepare(messages("a", "b" * 3000, "c"), "")
    assert raised.value.index == 1
    assert 3000 < raised.value.size < 3200
    producer.abort()
    write(producer, "d")
    assert writing.read() == ["d0", "d1"]


@pytest.mark.parametrize("done", [False, True], ids=["request lost", "answer lost"])
def test_without_a_transaction_nothing_is_written_twice_either(
    small_messages: Callable[[int], Writing], monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    writing = small_messages(3000)
    values = [f"{number:06d}" + "x" * 500 for number in range(100)]  # more batches than a broker remembers
    producer = IdempotentProducer(writing.cluster(), writing.topic)
    producer.write(messages(*values[:60]))
    losing = Losing(monkeypatch, "Produce", done=done, times=3)
    producer.write(messages(*values[60:]))
    assert losing.left == 0
    assert writing.read() == sorted(f"{value}{number}" for value in values for number in range(PARTITIONS))


def test_messages_of_a_partition_keep_their_order(writing: Writing) -> None:
    producer = writing.producer()
    producer.fence()
    values = [str(number) for number in range(200)]
    write(producer, *values[:100])
    write(producer, *values[100:])
    writing.state()
    found: dict[int, list[str]] = {}
    for one in SinkTopic(writing.bootstrap, writing.topic).messages():
        found.setdefault(one.partition, []).append(one.value.decode())
    assert found == {number: [f"{value}{number}" for value in values] for number in range(PARTITIONS)}
