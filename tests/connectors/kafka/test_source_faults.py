"""Pipelines over topics with faults of topics and brokers: an error that names the fault, or every record once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.brokers import OwnBroker, SharedBroker
from support.conditions import HANG_SECONDS, wait_until
from support.kafka.pipeline_runs import Position, Run, documents
from support.kafka.short_timeouts import shorten_timeouts
from support.kafka.topic_admin import TopicAdmin

from millstream.errors import AlteredLog, Contradiction, MillstreamError, Truncated
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point
from millstream.log.epochs import Added, PartitionName
from millstream_connectors.kafka import log as kafka_log
from millstream_connectors.kafka.broker import Broker
from millstream_connectors.kafka.client.cluster import Cluster
from millstream_connectors.kafka.client.fetcher import Fetcher

pytestmark = pytest.mark.kafka


@pytest.fixture
def run(broker: SharedBroker, tmp_path: Path) -> Callable[..., Run]:
    def run(delivery: str = "exactly_once", **source: Any) -> Run:
        source = {"from" if key == "start" else key: value for key, value in source.items()}
        return Run(tmp_path, broker.bootstrap, {"source": source}, delivery)

    return run


def at(offsets: range | list[int], partition: int = 0, source: str = "source") -> list[Position]:
    return [(source, partition, offset) for offset in offsets]


# Topics


def test_a_topic_that_was_deleted_and_created_again_between_two_starts_is_refused(
    topics: TopicAdmin, broker: SharedBroker, run: Callable[..., Run]
) -> None:
    topic = topics.create(broker.topic())
    topics.send(topic, documents(50))
    run(topic=topic).go()
    topics.delete(topic)
    topics.create(topic)
    topics.send(topic, documents(50))
    with pytest.raises(
        AlteredLog, match=rf"source/{topic}/0 was altered .*\(then topic id .*, now topic id "
    ) as refused:
        run(topic=topic).go()
    assert refused.value.exit_code == 3


def test_a_deleted_topic_is_refused_at_the_start(
    topics: TopicAdmin, broker: SharedBroker, run: Callable[..., Run]
) -> None:
    topic = topics.create(broker.topic())
    topics.send(topic, documents(50))
    run(topic=topic).go()
    topics.delete(topic)
    for create in (False, True):
        with pytest.raises(
            Contradiction, match=f"topic {topic} was read by this run and no longer exists at .*--fresh"
        ):
            run(topic=topic, create=create).go()
    run(topic=topic, create=True).go(fresh=True)  # the refused starts have not created the topic


def test_a_deleted_topic_is_refused_also_without_the_cache(
    topics: TopicAdmin, broker: SharedBroker, run: Callable[..., Run], tmp_path: Path
) -> None:
    topic = topics.create(broker.topic())
    topics.send(topic, documents(50))
    run(topic=topic).go()
    topics.delete(topic)
    shutil.rmtree(tmp_path / "run" / "cache")
    with pytest.raises(Contradiction, match=f"there is no topic {topic}"):
        run(topic=topic).go()
    with pytest.raises(AlteredLog, match=rf"source/{topic}/0 was altered"):
        run(topic=topic, create=True).go()


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_is_deleted_while_it_is_read_ends_the_run(
    topics: TopicAdmin, broker: SharedBroker, run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    monkeypatch.setattr(kafka_log, "_DELETED_SECONDS", 1e9 if again else 0.1)
    topic = topics.create(broker.topic())
    topics.send(topic, documents(50))
    following = run(topic=topic)
    fault = "was deleted and created again" if again else "was deleted"

    def deleted() -> None:
        with following.following():
            following.reaches(50)
            topics.delete(topic)
            if again:
                topics.create(topic)
                topics.send(topic, documents(70))
            following.fails()

    with pytest.raises(Contradiction, match=f"topic {topic} {fault} while it was read; start over with --fresh"):
        deleted()


def test_added_partitions_are_read_from_their_first_message(
    topics: TopicAdmin, broker: SharedBroker, run: Callable[..., Run]
) -> None:
    topic = topics.create(broker.topic())
    topics.send(topic, documents(30))
    following = run(topic=topic, start="latest")
    with following.following():
        wait_until(lambda: len(following.events()) > 0, "the first partition")
        topics.send(topic, documents(20, 30))
        following.reaches(20)
        topics.add_partitions(topic, 3)
        topics.send(topic, documents(15, 50), partition=2)
        following.reaches(35)
    assert following.positions() == at(range(30, 50)) + at(range(15), partition=2)
    added = [event for event in following.events() if isinstance(event, Added)]
    assert added == [
        Added(PartitionName("source", f"{topic}/0", 0), 30),
        Added(PartitionName("source", f"{topic}/1", 1), 0),
        Added(PartitionName("source", f"{topic}/2", 2), 0),
    ]
    topics.send(topic, documents(5, 65), partition=1)
    topics.add_partitions(topic, 4)
    topics.send(topic, documents(5, 70), partition=3)
    run(topic=topic, start="latest").go()
    assert following.positions() == at(range(30, 50)) + at(range(5), 1) + at(range(15), 2) + at(range(5), 3)


def test_topics_that_match_a_pattern_are_added_during_the_run(
    topics: TopicAdmin, broker: SharedBroker, run: Callable[..., Run]
) -> None:
    prefix = broker.topic("pattern")
    following = run(pattern=f"{prefix}-.*", start="latest")
    with following.following():
        for number in range(2):
            topic = topics.create(f"{prefix}-{number}")
            topics.create(f"x{prefix}-{number}")
            topics.send(topic, documents(10, number * 10))
            following.reaches(number * 10 + 10)
    assert following.positions() == at(range(10)) + at(range(10), partition=1)


def test_the_start_at_latest_is_decided_once(topics: TopicAdmin, broker: SharedBroker, run: Callable[..., Run]) -> None:
    topic = topics.create(broker.topic())
    topics.send(topic, documents(30))
    run(topic=topic, start="latest").go()
    topics.send(topic, documents(10, 30))
    again = run(topic=topic, start="latest")
    again.go()
    assert again.positions() == at(range(30, 40))


def test_a_pipeline_may_read_two_kafka_sources(topics: TopicAdmin, broker: SharedBroker, tmp_path: Path) -> None:
    first, second = topics.create(broker.topic("a"), 2), topics.create(broker.topic("b"))
    topics.send(first, documents(40), partition=1)
    topics.send(second, [b"a harbour", None, b"an orchard"], key=b"harbour")
    sources = {"receipts": {"topic": first}, "words": {"topic": second, "format": "text", "key": "label"}}
    both = Run(tmp_path, broker.bootstrap, sources)
    both.go()
    assert both.positions() == at(range(40), 1, "receipts") + at([0, 2], 0, "words")
    topics.send(first, documents(5, 40), partition=0)
    topics.send(second, [b"a glacier"])
    both.go()
    assert both.positions() == at(range(5), 0, "receipts") + at(range(40), 1, "receipts") + at([0, 2, 3], 0, "words")
    [rejected] = both.rows("rejects")
    assert (rejected["_offset"], rejected["reason"]) == (1, "tombstone: the message has no value")


def test_a_large_message_is_processed(topics: TopicAdmin, broker: SharedBroker, run: Callable[..., Run]) -> None:
    topic = topics.create(broker.topic())
    large = b'{"text": "harbour ' + b"word " * 1_000_000 + b'", "label": "harbour"}'
    topics.send(topic, [*documents(3), large, *documents(3)])
    one = run(topic=topic)
    one.go()
    assert one.positions() == at(range(7))


def test_an_unreachable_broker_is_reported_with_advice(tmp_path: Path) -> None:
    nowhere = Run(tmp_path, "127.0.0.1:1", {"source": {"topic": "news", "timeout": "200ms"}})
    with pytest.raises(
        MillstreamError, match=r"gave up waiting for Kafka at 127.0.0.1:1 after .*check the address"
    ) as refused:
        nowhere.go()
    assert refused.value.exit_code == 4


# Retention and compaction


def test_messages_removed_before_they_were_read_are_refused_or_skipped(
    topics: TopicAdmin, broker: SharedBroker, run: Callable[..., Run]
) -> None:
    topic = topics.create(broker.topic())
    topics.send(topic, documents(50))
    run(topic=topic).go()
    topics.send(topic, documents(50, 50))
    topics.remove(topic, before=70)
    with pytest.raises(
        Truncated, match=f"{topic}/0: offset 50 is requested, and the brokers have removed all before 70"
    ) as refused:
        run(topic=topic).go()
    assert refused.value.exit_code == 3
    lenient = run(topic=topic, on_truncated="earliest")
    lenient.go()
    assert lenient.positions() == at([*range(50), *range(70, 100)])


def test_messages_removed_before_their_replay_are_refused(
    topics: TopicAdmin, broker: SharedBroker, run: Callable[..., Run]
) -> None:
    topic = topics.create(broker.topic())
    topics.send(topic, documents(60))
    run(topic=topic).crash(CrashPoint(Point.DELIVER, 1))  # epoch 1 has 20 to 39; it is recorded and not in a checkpoint
    topics.remove(topic, before=30)
    with pytest.raises(
        Truncated, match=f"{topic}/0: offset 20 is requested, and the brokers have removed all before 30"
    ):
        run(topic=topic).go()
    with pytest.raises(AlteredLog, match="in the source 'source' 20 records became 10; the log was altered"):
        run(topic=topic, on_truncated="earliest").go()


def test_messages_compacted_before_their_replay_are_refused(own_broker: OwnBroker, tmp_path: Path) -> None:
    broker = own_broker({"log.cleaner.backoff.ms": "50", "log.initial.task.delay.ms": "50"})
    topics = TopicAdmin(broker.bootstrap)
    topic = topics.create("compacted", cleanup_policy="compact", segment_ms="50", min_cleanable_dirty_ratio="0.01")
    topics.send(topic, documents(40), key=b"same")
    run = Run(tmp_path, broker.bootstrap, {"source": {"topic": topic}})
    run.crash(CrashPoint(Point.DELIVER, 1))
    cluster = Cluster(broker.bootstrap)

    def compacted() -> bool:
        topics.send(topic, documents(1), key=b"other")  # a new message closes the segment before it
        messages = Fetcher(cluster, "read_committed").read((topic, 0), 0, 40)
        return sum(map(len, messages)) <= 1

    wait_until(compacted, "compaction")
    cluster.close()
    topics.close()
    with pytest.raises(AlteredLog, match=r"in the source 'source' 20 records became [01]; the log was altered"):
        run.go()


# Transactions of other producers


def test_a_run_waits_for_an_open_transaction_and_continues_after_its_abort(
    topics: TopicAdmin, broker: SharedBroker, run: Callable[..., Run]
) -> None:
    topic = topics.create(broker.topic())
    topics.send(topic, documents(10))
    following = run(topic=topic)
    with following.following(), topics.producer(transactional_id=topic) as theirs:
        following.reaches(10)
        theirs.init_transactions()
        theirs.begin_transaction()
        theirs.send(topic, documents(1)[0], partition=0).get(HANG_SECONDS)
        topics.send(topic, documents(10, 10))
        with closing(Cluster(broker.bootstrap)) as cluster:
            assert cluster.ends([(topic, 0)]) == {(topic, 0): 10}
        assert following.positions() == at(range(10))
        theirs.abort_transaction()
        following.reaches(20)
    assert following.positions() == at([*range(10), *range(11, 21)])


def test_messages_of_other_producers_are_read_after_their_commit(
    topics: TopicAdmin, broker: SharedBroker, run: Callable[..., Run]
) -> None:
    topic = topics.create(broker.topic())
    expected: list[int] = []
    for number in range(6):
        values = [value for value in documents(7, number * 7) if value]
        topics.transaction(topic, values, commit=number % 3 != 1)
        if number % 3 != 1:
            expected += range(number * 8, number * 8 + 7)
    run(topic=topic).crash(CrashPoint(Point.DELIVER, 1))
    again = run(topic=topic)
    again.go()
    assert again.positions() == at(expected)
    assert again.go().records == len(expected)  # only control records were left, which are no records


# Brokers


def test_a_broker_that_starts_later_is_waited_for(
    own_broker: OwnBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = own_broker()
    topics = TopicAdmin(broker.bootstrap)
    topic = topics.create("news")
    topics.send(topic, documents(50))
    topics.close()
    broker.kill()
    run = Run(tmp_path, broker.bootstrap, {"source": {"topic": topic}})
    with run.following():
        wait_until(lambda: any(message.startswith("waiting for Kafka") for message in caplog.messages), "the warning")
        broker.up()
        run.reaches(50)
    assert run.positions() == at(range(50))


@pytest.mark.parametrize(
    "kills", [pytest.param((300, 2000), id="two"), pytest.param((300, 900, 2000), id="three", marks=pytest.mark.matrix)]
)
def test_kills_of_the_broker_lose_no_record(own_broker: OwnBroker, tmp_path: Path, kills: Sequence[int]) -> None:
    """The broker is killed while the run reads, and while it waits for messages."""
    broker = own_broker()
    send(broker, "news", documents(2000), partitions=2)
    run = Run(tmp_path, broker.bootstrap, {"source": {"topic": "news"}})
    with run.following():
        for count in kills:
            run.reaches(count)
            broker.kill()
            broker.up()
        send(broker, "news", documents(50, 2000))
        run.reaches(2050)
    assert run.positions() == at(range(2050))


def send(broker: Broker, topic: str, values: list[bytes | None], partitions: int | None = None) -> None:
    topics = TopicAdmin(broker.bootstrap)
    if partitions is not None:
        topics.create(topic, partitions)
    topics.send(topic, values)
    topics.close()


def test_a_run_can_be_stopped_while_the_broker_is_down(
    own_broker: OwnBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = own_broker()
    send(broker, "news", documents(50), partitions=1)
    run = Run(tmp_path, broker.bootstrap, {"source": {"topic": "news"}})
    with run.following():
        run.reaches(50)
        broker.kill()
        wait_until(lambda: any(message.startswith("waiting for Kafka") for message in caplog.messages), "the warning")
    broker.up()
    send(broker, "news", documents(10, 50))
    run.stop.clear()
    run.go()
    assert run.positions() == at(range(60))


def test_the_timeout_ends_a_run_whose_broker_stays_down(
    own_broker: OwnBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = own_broker()
    send(broker, "news", documents(50), partitions=1)
    run = Run(tmp_path, broker.bootstrap, {"source": {"topic": "news"}})

    def killed() -> None:
        with run.following(), monkeypatch.context() as patch:
            run.reaches(50)
            broker.kill()
            shorten_timeouts(patch)  # only now: on a busy machine a live broker may need longer
            run.fails()

    with pytest.raises(MillstreamError, match=r"gave up waiting for Kafka at .* after 1 s"):
        killed()
    broker.up()
    send(broker, "news", documents(10, 50))
    run.stop.clear()
    run.go()
    assert run.positions() == at(range(60))
