"""Transactions with a real broker: all or nothing, whoever else has the same id, and whichever answer is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from connectors.kafka.running import eventually
from connectors.kafka.sinking import Sinking
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka_broker import OwnBroker, SharedBroker

from millstream_connectors.kafka.cluster import Cluster
from millstream_connectors.kafka.coordinators import Coordinators, Producer
from millstream_connectors.kafka.encoding import Messages
from millstream_connectors.kafka.network import Broker
from millstream_connectors.kafka.producing import Idempotent, TooLarge
from millstream_connectors.kafka.transactions import Fenced, Transactions

pytestmark = pytest.mark.kafka

PARTITIONS = 2
REQUESTS = ["AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]


def messages(*values: str) -> dict[int, Messages]:
    return {
        number: Messages([(None, f"{value}{number}".encode()) for value in values], ("by", b"us"), 0)
        for number in range(PARTITIONS)
    }


class Writing:
    """Producers of one transactional id, and what is read in their topic."""

    def __init__(self, bootstrap: str, topic: str, patience: float = 60) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self._patience = patience
        self._clusters: list[Cluster] = []
        self.cluster().create(topic, PARTITIONS)

    def cluster(self) -> Cluster:
        self._clusters.append(Cluster(self.bootstrap, patience=self._patience))
        return self._clusters[-1]

    def producer(self, timeout: float = 60) -> Transactions:
        cluster = self.cluster()
        return Transactions(
            cluster, Coordinators(cluster), name=self.topic, group=self.topic, topic=self.topic, timeout=timeout
        )

    def settle(self) -> str:
        """The state of the last transaction."""
        found = Coordinators(self._clusters[0]).settle(self.topic)
        return "" if found is None else found.state

    def read(self) -> list[str]:
        """The values, once what was committed is there to be read."""
        self.settle()
        return sorted(one.value.decode() for one in Sinking(self.bootstrap, self.topic).messages())

    def close(self) -> None:
        for cluster in self._clusters:
            cluster.close()


@pytest.fixture
def writing(broker: SharedBroker) -> Iterator[Writing]:
    writing = Writing(broker.bootstrap, broker.topic("transactions"))
    yield writing
    writing.close()


def wrote(producer: Transactions, *values: str) -> None:
    producer.prepare(messages(*values), "")
    assert producer.commit()


class Losing:
    """Loses the answer to the next request of a kind, or the request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str, *, done: bool, times: int = 1) -> None:
        self.left = times
        send = Broker.send

        async def lossy(broker: Broker, request: Any, node: int | None = None) -> Any:
            if type(request).__name__.startswith(f"{kind}Request") and self.left:
                self.left -= 1
                if done:
                    await send(broker, request, node)
                message = "lost"
                raise kafka_errors.KafkaConnectionError(message)
            return await send(broker, request, node)

        monkeypatch.setattr(Broker, "send", lossy)


def test_what_is_prepared_is_read_once_it_is_committed(writing: Writing) -> None:
    producer = writing.producer()
    producer.fence()
    producer.prepare(messages("a", "b"), "")
    assert writing.read() == []
    assert producer.commit()
    assert writing.read() == ["a0", "a1", "b0", "b1"]
    wrote(producer, "c")
    assert writing.read() == ["a0", "a1", "b0", "b1", "c0", "c1"]


def test_what_is_aborted_is_never_read(writing: Writing) -> None:
    producer = writing.producer()
    producer.fence()
    producer.prepare(messages("a"), "")
    producer.abort()
    wrote(producer, "b")
    producer.prepare(messages("c"), "")
    wrote(producer, "d")  # what was prepared before it is given up
    assert writing.read() == ["b0", "b1", "d0", "d1"]


def test_fencing_aborts_what_is_open_and_shuts_out_whoever_was_before(writing: Writing) -> None:
    before, after = writing.producer(), writing.producer()
    before.fence()
    wrote(before, "a")
    before.prepare(messages("b"), "")
    after.fence()
    assert not before.commit()
    for _ in range(2):  # it does not fence back
        with pytest.raises(Fenced):
            before.prepare(messages("b"), "")
    wrote(after, "c")
    assert writing.read() == ["a0", "a1", "c0", "c1"]


def test_whoever_was_shut_out_while_it_wrote_disturbs_no_transaction(writing: Writing) -> None:
    before, after = writing.producer(), writing.producer()
    before.fence()
    wrote(before, "a")
    after.fence()
    after.prepare(messages("b"), "")
    with pytest.raises(Fenced):
        before.prepare(messages("c"), "")
    with pytest.raises(Fenced):
        before.abort()
    assert after.commit()
    wrote(after, "d")
    assert writing.read() == ["a0", "a1", "b0", "b1", "d0", "d1"]


@pytest.mark.parametrize("done", [False, True], ids=["never arrived", "done, unheard"])
@pytest.mark.parametrize("kind", REQUESTS)
def test_whatever_answer_is_lost_all_is_written_once(
    writing: Writing, monkeypatch: pytest.MonkeyPatch, kind: str, done: bool
) -> None:
    producer = writing.producer()
    producer.fence()
    wrote(producer, "a")
    losing = Losing(monkeypatch, kind, done=done)
    wrote(producer, "b", "c")
    assert losing.left == 0
    wrote(producer, "d")
    assert writing.read() == ["a0", "a1", "b0", "b1", "c0", "c1", "d0", "d1"]


@pytest.mark.parametrize("done", [False, True], ids=["never arrived", "done, unheard"])
@pytest.mark.parametrize("kind", ["EndTxn", "InitProducerId"])
def test_answers_may_be_lost_while_a_try_is_cleaned_up_too(
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
def test_an_end_that_was_asked_for_twice_and_arrives_late_ends_no_other_transaction(
    writing: Writing, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    producer, late = writing.producer(), writing.cluster()
    producer.fence()
    send = Broker.send
    held: list[tuple[Any, int | None]] = []
    answered: list[int] = []

    async def delaying(broker: Broker, request: Any, node: int | None = None) -> Any:
        kind = type(request).__name__
        if kind.startswith("EndTxnRequest") and not held:
            held.append((request, node))
            message = "no answer, though it is on its way"
            raise kafka_errors.KafkaConnectionError(message)
        answer = await send(broker, request, node)
        if kind.startswith("ProduceRequest") and held and not answered:
            ended = late.ask("late", lambda other: send(other, *held[0]))
            answered.append(ended.error_code)
        return answer

    producer.prepare(messages("a"), "")
    monkeypatch.setattr(Broker, "send", delaying)
    if commit:
        assert producer.commit()
    else:
        producer.abort()
    producer.prepare(messages("b"), "")
    assert answered == [kafka_errors.ProducerFencedError.errno]
    assert writing.read() == (["a0", "a1"] if commit else [])
    assert producer.commit()
    assert writing.read() == [*(["a0", "a1"] if commit else []), "b0", "b1"]


@pytest.mark.parametrize("done", [False, True], ids=["never arrived", "done, unheard"])
def test_the_answer_to_fencing_may_be_lost(writing: Writing, monkeypatch: pytest.MonkeyPatch, done: bool) -> None:
    Losing(monkeypatch, "InitProducerId", done=done)
    producer = writing.producer()
    producer.fence()
    wrote(producer, "a")
    assert writing.read() == ["a0", "a1"]


@pytest.mark.parametrize("kind", REQUESTS)
def test_whoever_is_shut_out_while_an_answer_is_lost_says_so_and_disturbs_nobody(
    writing: Writing, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    before, after = writing.producer(), writing.producer()
    before.fence()
    send = Broker.send
    shut = False

    async def shutting(broker: Broker, request: Any, node: int | None = None) -> Any:
        nonlocal shut
        if type(request).__name__.startswith(f"{kind}Request") and not shut:
            shut = True
            # On its own connection, whose event loop has a thread of its own.
            after.fence()
            after.prepare(messages("b"), "")
            message = "lost"
            raise kafka_errors.KafkaConnectionError(message)
        return await send(broker, request, node)

    monkeypatch.setattr(Broker, "send", shutting)

    def append() -> None:
        before.prepare(messages("a"), "")
        while not before.commit():
            before.prepare(messages("a"), "")

    with pytest.raises(Fenced):
        append()
    assert after.commit()
    assert writing.read() == ["b0", "b1"]


@pytest.mark.parametrize("done", [False, True], ids=["never arrived", "done, unheard"])
def test_whoever_is_shut_out_while_it_cleans_up_does_not_fence_back(
    writing: Writing, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    before, after = writing.producer(), writing.producer()
    before.fence()
    Losing(monkeypatch, "Produce", done=True)
    send = Broker.send
    shut = False

    async def shutting(broker: Broker, request: Any, node: int | None = None) -> Any:
        nonlocal shut
        if not type(request).__name__.startswith("InitProducerIdRequest") or shut:
            return await send(broker, request, node)
        shut = True
        if done:
            await send(broker, request, node)
        after.fence()
        message = "lost"
        raise kafka_errors.KafkaConnectionError(message)

    monkeypatch.setattr(Broker, "send", shutting)
    with pytest.raises(Fenced):
        before.prepare(messages("a"), "")
    wrote(after, "b")
    assert writing.read() == ["b0", "b1"]


def test_a_commit_that_was_done_unheard_is_not_undone_by_whoever_comes_next(writing: Writing) -> None:
    before, after = writing.producer(), writing.producer()
    before.fence()
    before.prepare(messages("a"), "")
    assert after.end(before.producer, commit=True)
    writing.settle()
    after.fence()
    assert not before.commit()  # it is not its own any more, and was committed: the mark tells
    assert writing.read() == ["a0", "a1"]


def test_a_transaction_may_be_ended_by_another_process_and_more_than_once(writing: Writing) -> None:
    for commit in (True, False):
        producer, other = writing.producer(), writing.producer()
        producer.fence()
        producer.prepare(messages(f"{commit}"), "")
        assert other.end(producer.producer, commit=commit)
        assert other.end(producer.producer, commit=commit)
        writing.settle()
        assert not other.end(producer.producer, commit=not commit)
    assert not writing.producer().end(Producer(10**9, 0), commit=True)
    assert writing.read() == ["True0", "True1"]


def test_a_transaction_that_took_too_long_for_the_brokers_is_begun_anew(own_broker: OwnBroker) -> None:
    broker = own_broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"})
    writing = Writing(broker.bootstrap, "slow")
    producer = writing.producer(timeout=0.3)
    producer.fence()
    producer.prepare(messages("a"), "")
    eventually(lambda: writing.settle() == "CompleteAbort", "the end of what took too long")
    assert not producer.commit()
    wrote(producer, "a")
    producer.prepare(messages("b"), "")
    eventually(lambda: writing.settle() == "CompleteAbort", "the end of what took too long")
    other = writing.producer()
    other.fence()
    assert not producer.commit()
    with pytest.raises(Fenced):
        producer.prepare(messages("b"), "")
    assert writing.read() == ["a0", "a1"]
    writing.close()


def test_an_id_that_was_not_used_for_so_long_that_it_is_forgotten_goes_on(own_broker: OwnBroker) -> None:
    broker = own_broker(
        {
            "transactional.id.expiration.ms": "1000",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
        }
    )
    writing = Writing(broker.bootstrap, "idle")
    producer = writing.producer()
    producer.fence()
    wrote(producer, "a")
    eventually(lambda: not writing.settle(), "the end of the id")
    wrote(producer, "b")
    assert writing.read() == ["a0", "a1", "b0", "b1"]
    writing.close()


def test_an_epoch_may_take_many_batches(writing: Writing) -> None:
    values = [f"{number:06d}" + "x" * 500 for number in range(5000)]
    producer = writing.producer()
    producer.fence()
    wrote(producer, *values)
    assert writing.read() == sorted(f"{value}{number}" for value in values for number in range(PARTITIONS))


def limited(writing: Writing, size: int) -> None:
    with Sinking(writing.bootstrap, writing.topic).admin() as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, writing.topic, {"max.message.bytes": str(size)})])


@pytest.mark.parametrize("transaction", [True, False])
def test_batches_become_smaller_where_a_topic_takes_no_large_ones(writing: Writing, transaction: bool) -> None:
    limited(writing, 2000)
    values = [f"{number:06d}" + "x" * 500 for number in range(20)]
    if transaction:
        producer = writing.producer()
        producer.fence()
        wrote(producer, *values)
    else:
        Idempotent(writing.cluster(), writing.topic).write(messages(*values))
    assert writing.read() == sorted(f"{value}{number}" for value in values for number in range(PARTITIONS))


def test_a_message_that_is_too_large_alone_is_named(writing: Writing) -> None:
    limited(writing, 2000)
    producer = writing.producer()
    producer.fence()
    with pytest.raises(TooLarge) as raised:
        producer.prepare(messages("a", "b" * 3000, "c"), "")
    assert raised.value.place == 1
    assert 3000 < raised.value.size < 3200
    producer.abort()
    wrote(producer, "d")
    assert writing.read() == ["d0", "d1"]


@pytest.mark.parametrize("done", [False, True], ids=["never arrived", "done, unheard"])
def test_without_a_transaction_too_nothing_is_written_twice(
    writing: Writing, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    limited(writing, 3000)
    values = [f"{number:06d}" + "x" * 500 for number in range(100)]  # more batches than a broker remembers
    producer = Idempotent(writing.cluster(), writing.topic)
    producer.write(messages(*values[:60]))
    losing = Losing(monkeypatch, "Produce", done=done, times=3)
    producer.write(messages(*values[60:]))
    assert losing.left == 0
    assert writing.read() == sorted(f"{value}{number}" for value in values for number in range(PARTITIONS))


def test_whatever_is_asked_for_is_in_order_of_its_partition(writing: Writing) -> None:
    producer = writing.producer()
    producer.fence()
    values = [str(number) for number in range(200)]
    wrote(producer, *values[:100])
    wrote(producer, *values[100:])
    writing.settle()
    found: dict[int, list[str]] = {}
    for one in Sinking(writing.bootstrap, writing.topic).messages():
        found.setdefault(one.partition, []).append(one.value.decode())
    assert found == {number: [f"{value}{number}" for value in values] for number in range(PARTITIONS)}
