"""Ranges of offsets from a real broker: only committed messages, despite retention and compaction."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from support.brokers import OwnBroker, SharedBroker
from support.conditions import HANG_SECONDS, wait_until
from support.kafka.topic_admin import TopicAdmin, wait_until_complete

from millstream_connectors.kafka.client.cluster import Cluster
from millstream_connectors.kafka.client.errors import MessagesLost, OffsetRemoved, RetryTimeout, TopicRecreated
from millstream_connectors.kafka.client.fetcher import Fetcher

pytestmark = pytest.mark.kafka


def values(count: int, size: int = 20, seed: int = 1) -> list[bytes]:
    rng = random.Random(seed)
    return [b"%d %s" % (index, rng.randbytes(rng.randrange(size))) for index in range(count)]


def read(fetcher: Fetcher, topic: str, start: int, stop: int) -> dict[int, bytes | None]:
    found: dict[int, bytes | None] = {}
    for records in fetcher.read((topic, 0), start, stop):
        assert list(records.offsets) == sorted({*records.offsets.tolist()} - {*found})
        found.update(zip(records.offsets.tolist(), records.values(), strict=True))
    return found


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_any_range_is_read_from_compressed_batches(
    topics: TopicAdmin, cluster: Cluster, broker: SharedBroker, codec: str
) -> None:
    topic = topics.create(broker.topic(codec), compression_type=codec)
    sent = values(8000, size=600)
    topics.send(topic, sent)
    fetcher = Fetcher(cluster, "read_committed")
    assert read(fetcher, topic, 0, 8000) == dict(enumerate(sent))  # several answers
    rng = random.Random(6)
    for _ in range(20):
        start, stop = sorted(rng.sample(range(8000), 2))
        assert read(fetcher, topic, start, stop) == dict(enumerate(sent[start:stop], start))
    assert read(Fetcher(cluster, "read_committed"), topic, 7999, 8000) == {7999: sent[-1]}
    assert read(fetcher, topic, 5, 5) == {}


def test_a_message_of_five_megabytes_is_read(topics: TopicAdmin, cluster: Cluster, broker: SharedBroker) -> None:
    topic = topics.create(broker.topic("large"))
    large = random.Random(2).randbytes(5_000_000)
    topics.send(topic, [b"before", large, b"after"])
    assert read(Fetcher(cluster, "read_committed"), topic, 0, 3) == {0: b"before", 1: large, 2: b"after"}


def test_aborted_messages_are_not_read(topics: TopicAdmin, cluster: Cluster, broker: SharedBroker) -> None:
    topic = topics.create(broker.topic("aborted"))
    topics.send(topic, [b"plain"])
    topics.transaction(topic, [b"aborted"] * 3, commit=False)
    topics.transaction(topic, [b"committed"] * 2, commit=True)
    topics.transaction(topic, [b"aborted"] * 2, commit=False)
    end = cluster.ends([(topic, 0)])[topic, 0]
    assert end == 11  # with three control records
    committed = {0: b"plain", 5: b"committed", 6: b"committed"}
    assert read(Fetcher(cluster, "read_committed"), topic, 0, end) == committed
    for start in range(end):
        found = read(Fetcher(cluster, "read_committed"), topic, start, end)
        assert found == {offset: value for offset, value in committed.items() if offset >= start}
    everything = read(Fetcher(cluster, "read_uncommitted"), topic, 0, end)
    assert len(everything) == 8 and everything[1] == b"aborted"


def test_overlapping_transactions_are_kept_apart(topics: TopicAdmin, cluster: Cluster, broker: SharedBroker) -> None:
    topic = topics.create(broker.topic("overlap"))
    with (
        topics.producer(transactional_id=f"{topic}-a", linger_ms=0) as first,
        topics.producer(transactional_id=f"{topic}-b", linger_ms=0) as second,
    ):
        for producer in (first, second):
            producer.init_transactions()
        for number in range(6):
            for name, producer in ((b"first", first), (b"second", second)):
                producer.begin_transaction()
                for part in range(3):
                    producer.send(topic, b"%s %d %d" % (name, number, part), partition=0).get(HANG_SECONDS)
            (first.commit_transaction if number % 2 else first.abort_transaction)()
            second.send(topic, b"second %d 3" % number, partition=0).get(HANG_SECONDS)
            (second.commit_transaction if number % 3 else second.abort_transaction)()
    for suffix in ("a", "b"):
        wait_until_complete(broker.bootstrap, f"{topic}-{suffix}")
    end = cluster.ends([(topic, 0)])[topic, 0]
    found = [value for value in read(Fetcher(cluster, "read_committed"), topic, 0, end).values() if value]
    firsts = [b"first %d %d" % (number, part) for number in (1, 3, 5) for part in range(3)]
    seconds = [b"second %d %d" % (number, part) for number in (1, 2, 4, 5) for part in range(4)]
    assert [value for value in found if value.startswith(b"first")] == firsts
    assert [value for value in found if value.startswith(b"second")] == seconds


def test_keys_times_and_headers_are_read(topics: TopicAdmin, cluster: Cluster, broker: SharedBroker) -> None:
    topic = topics.create(broker.topic("whole"))
    options: dict[str, Any] = {"timestamp_ms": 1_700_000_000_123, "headers": [("kind", b"note"), ("empty", b"")]}
    topics.send(topic, [b"{}", None], key=b"k1", **options)
    [records] = Fetcher(cluster, "read_committed").read((topic, 0), 0, 2)
    assert (records.keys(), records.values()) == ([b"k1", b"k1"], [b"{}", None])
    assert records.timestamps.tolist() == [1_700_000_000_123] * 2
    assert (records.headers(b"kind"), records.headers(b"empty")) == ([b"note"] * 2, [b""] * 2)


# Removed messages


def test_a_removed_offset_is_named(topics: TopicAdmin, cluster: Cluster, broker: SharedBroker) -> None:
    topic = topics.create(broker.topic("removed"))
    topics.send(topic, values(100))
    topics.remove(topic, before=40)
    fetcher = Fetcher(cluster, "read_committed")
    assert len(read(fetcher, topic, 40, 100)) == 60
    with pytest.raises(OffsetRemoved, match=rf"{topic}/0: offset 39 is requested") as removed:
        read(fetcher, topic, 39, 100)
    assert (removed.value.requested, removed.value.first) == (39, 40)


def test_removed_messages_can_be_skipped(topics: TopicAdmin, cluster: Cluster, broker: SharedBroker) -> None:
    topic = topics.create(broker.topic("removed"))
    sent = values(100)
    topics.send(topic, sent)
    topics.remove(topic, before=40)
    fetcher = Fetcher(cluster, "read_committed", skip_removed=True)
    assert read(fetcher, topic, 10, 50) == dict(enumerate(sent[40:50], 40))
    assert read(fetcher, topic, 10, 30) == {}


def test_a_range_after_the_end_means_lost_messages(topics: TopicAdmin, cluster: Cluster, broker: SharedBroker) -> None:
    topic = topics.create(broker.topic("short"))
    topics.send(topic, values(5))
    for fetcher in (Fetcher(cluster, "read_committed"), Fetcher(cluster, "read_committed", skip_removed=True)):
        with pytest.raises(
            MessagesLost, match=f"{topic}/0 ends at offset 5 and has lost messages: it had offset 19 before"
        ):
            read(fetcher, topic, 10, 20)


@pytest.mark.usefixtures("every_answer")
def test_the_end_of_a_range_is_waited_for(topics: TopicAdmin, broker: SharedBroker) -> None:
    topic = topics.create(broker.topic("short"))
    topics.send(topic, values(5))
    cluster = Cluster(broker.bootstrap, timeout=1)
    with pytest.raises(
        RetryTimeout, match=f"{topic}/0 ends at 5, before the end of the requested range 6: offset not available$"
    ):
        read(Fetcher(cluster, "read_committed"), topic, 2, 6)
    cluster.close()


def test_a_topic_that_was_deleted_and_created_again_is_another_topic(
    topics: TopicAdmin, cluster: Cluster, broker: SharedBroker
) -> None:
    topic = topics.create(broker.topic("again"))
    topics.send(topic, values(5))
    fetcher = Fetcher(cluster, "read_committed")
    assert len(read(fetcher, topic, 0, 5)) == 5
    topics.delete(topic)
    topics.create(topic)
    topics.send(topic, values(5, seed=2))
    with pytest.raises(TopicRecreated, match=f"topic {topic} was deleted and created again while it was read"):
        read(fetcher, topic, 0, 5)
    assert len(read(Fetcher(cluster, "read_committed"), topic, 0, 5)) == 5


def test_gaps_of_a_compacted_topic_are_skipped(own_broker: OwnBroker) -> None:
    broker = own_broker({"log.cleaner.backoff.ms": "50", "log.initial.task.delay.ms": "50"})
    topics = TopicAdmin(broker.bootstrap)
    eager: dict[str, Any] = {"min_cleanable_dirty_ratio": "0.01", "segment_ms": "50"}
    topic = topics.create("compacted", cleanup_policy="compact", **eager)
    topics.send(topic, [b"first"], key=b"gone")
    for index in range(3):
        topics.send(topic, [b"%d" % number for number in range(100)], key=b"key %d" % index)
    cluster = Cluster(broker.bootstrap, timeout=HANG_SECONDS)

    found: dict[int, bytes | None] = {}

    def compacted() -> bool:
        topics.send(topic, [None], key=b"gone")  # a new message closes the segment before it
        end = cluster.ends([(topic, 0)])[topic, 0]
        found.clear()
        found.update(read(Fetcher(cluster, "read_committed"), topic, 0, end))
        return not {0, 299} & found.keys()

    wait_until(compacted, "compaction")
    assert {offset: found[offset] for offset in found if offset <= 300} == {100: b"99", 200: b"99", 300: b"99"}
    fetcher = Fetcher(cluster, "read_committed")
    assert read(fetcher, topic, 110, 190) == {}
    assert read(fetcher, topic, 110, 201) == {200: b"99"}
    assert read(fetcher, topic, 201, 300) == {}
    cluster.close()
    topics.close()


def test_a_range_without_any_remaining_batch_is_empty(
    topics: TopicAdmin, cluster: Cluster, broker: SharedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.create(broker.topic("emptied"))
    topics.send(topic, values(5))
    ask = cluster.ask

    def emptied(kind: str, question: Any) -> Any:
        """The answer of a broker whose cleaner has removed all remaining batches."""
        return dataclasses.replace(ask(kind, question), batches=b"")

    monkeypatch.setattr(cluster, "ask", emptied)
    assert read(Fetcher(cluster, "read_committed"), topic, 2, 5) == {}


def test_an_empty_answer_is_asked_for_again(
    topics: TopicAdmin, cluster: Cluster, broker: SharedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.create(broker.topic("late"))
    sent = values(5)
    topics.send(topic, sent)
    ask = cluster.ask
    asked = 0

    def late(kind: str, question: Any) -> Any:
        nonlocal asked
        asked += 1
        answer = ask(kind, question)
        return dataclasses.replace(answer, batches=b"") if asked == 1 else answer

    monkeypatch.setattr(cluster, "ask", late)
    assert read(Fetcher(cluster, "read_committed"), topic, 2, 5) == dict(enumerate(sent[2:], 2))
