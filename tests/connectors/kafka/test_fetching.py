"""Ranges of partitions, read from a real broker: by position, committed, whatever was removed or compacted."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from connectors.kafka.producing import Producing
from connectors.kafka.running import eventually
from kafka_broker import OwnBroker, SharedBroker

from millstream.errors import AlteredLog, MillstreamError, Truncated
from millstream_connectors.kafka.cluster import Cluster
from millstream_connectors.kafka.fetching import Fetcher

pytestmark = pytest.mark.kafka


def values(count: int, size: int = 20, seed: int = 1) -> list[bytes]:
    rng = random.Random(seed)
    return [b"%d %s" % (place, rng.randbytes(rng.randrange(size))) for place in range(count)]


def read(fetcher: Fetcher, topic: str, start: int, stop: int) -> dict[int, bytes | None]:
    found: dict[int, bytes | None] = {}
    for records in fetcher.read((topic, 0), start, stop):
        assert list(records.offsets) == sorted({*records.offsets.tolist()} - {*found})
        found.update(zip(records.offsets.tolist(), records.values(), strict=True))
    return found


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_any_range_as_the_broker_compresses_it(
    producing: Producing, cluster: Cluster, broker: SharedBroker, codec: str
) -> None:
    topic = producing.topic(broker.topic(codec), compression_type=codec)
    sent = values(8000, size=600)
    producing.send(topic, sent)
    fetcher = Fetcher(cluster, "read_committed")
    assert read(fetcher, topic, 0, 8000) == dict(enumerate(sent))  # several answers
    rng = random.Random(6)
    for _ in range(20):
        start, stop = sorted(rng.sample(range(8000), 2))
        assert read(fetcher, topic, start, stop) == dict(enumerate(sent[start:stop], start))
    assert read(Fetcher(cluster, "read_committed"), topic, 7999, 8000) == {7999: sent[-1]}
    assert read(fetcher, topic, 5, 5) == {}


def test_a_message_of_five_megabytes(producing: Producing, cluster: Cluster, broker: SharedBroker) -> None:
    topic = producing.topic(broker.topic("large"))
    large = random.Random(2).randbytes(5_000_000)
    producing.send(topic, [b"before", large, b"after"])
    assert read(Fetcher(cluster, "read_committed"), topic, 0, 3) == {0: b"before", 1: large, 2: b"after"}


def test_what_was_aborted_is_never_read(producing: Producing, cluster: Cluster, broker: SharedBroker) -> None:
    topic = producing.topic(broker.topic("aborted"))
    producing.send(topic, [b"plain"])
    producing.transaction(topic, [b"aborted"] * 3, commit=False)
    producing.transaction(topic, [b"committed"] * 2, commit=True)
    producing.transaction(topic, [b"aborted"] * 2, commit=False)
    end = cluster.ends([(topic, 0)])[topic, 0]
    assert end == 11  # with three marks
    committed = {0: b"plain", 5: b"committed", 6: b"committed"}
    assert read(Fetcher(cluster, "read_committed"), topic, 0, end) == committed
    for start in range(end):
        found = read(Fetcher(cluster, "read_committed"), topic, start, end)
        assert found == {offset: value for offset, value in committed.items() if offset >= start}
    everything = read(Fetcher(cluster, "read_uncommitted"), topic, 0, end)
    assert len(everything) == 8 and everything[1] == b"aborted"


def test_transactions_that_overlap_are_told_apart(producing: Producing, cluster: Cluster, broker: SharedBroker) -> None:
    topic = producing.topic(broker.topic("overlap"))
    with (
        producing.producer(transactional_id=f"{topic}-a", linger_ms=0) as first,
        producing.producer(transactional_id=f"{topic}-b", linger_ms=0) as second,
    ):
        for producer in (first, second):
            producer.init_transactions()
        for number in range(6):
            for name, producer in ((b"first", first), (b"second", second)):
                producer.begin_transaction()
                for part in range(3):
                    producer.send(topic, b"%s %d %d" % (name, number, part), partition=0).get(10)
            (first.commit_transaction if number % 2 else first.abort_transaction)()
            second.send(topic, b"second %d 3" % number, partition=0).get(10)
            (second.commit_transaction if number % 3 else second.abort_transaction)()
    end = cluster.ends([(topic, 0)])[topic, 0]
    found = [value for value in read(Fetcher(cluster, "read_committed"), topic, 0, end).values() if value]
    firsts = [b"first %d %d" % (number, part) for number in (1, 3, 5) for part in range(3)]
    seconds = [b"second %d %d" % (number, part) for number in (1, 2, 4, 5) for part in range(4)]
    assert [value for value in found if value.startswith(b"first")] == firsts
    assert [value for value in found if value.startswith(b"second")] == seconds


def test_keys_times_and_headers_come_along(producing: Producing, cluster: Cluster, broker: SharedBroker) -> None:
    topic = producing.topic(broker.topic("whole"))
    options: dict[str, Any] = {"timestamp_ms": 1_700_000_000_123, "headers": [("kind", b"note"), ("empty", b"")]}
    producing.send(topic, [b"{}", None], key=b"k1", **options)
    [records] = Fetcher(cluster, "read_committed").read((topic, 0), 0, 2)
    assert (records.keys(), records.values()) == ([b"k1", b"k1"], [b"{}", None])
    assert records.timestamps.tolist() == [1_700_000_000_123] * 2
    assert (records.headers(b"kind"), records.headers(b"empty")) == ([b"note"] * 2, [b""] * 2)


# What was removed


def test_a_removed_range_is_named(producing: Producing, cluster: Cluster, broker: SharedBroker) -> None:
    topic = producing.topic(broker.topic("removed"))
    producing.send(topic, values(100))
    producing.remove(topic, before=40)
    fetcher = Fetcher(cluster, "read_committed")
    assert len(read(fetcher, topic, 40, 100)) == 60
    with pytest.raises(Truncated, match=rf"{topic}/0: offset 39 is wanted, and what is left begins at 40: retention"):
        read(fetcher, topic, 39, 100)


def test_what_was_removed_can_be_left_out(producing: Producing, cluster: Cluster, broker: SharedBroker) -> None:
    topic = producing.topic(broker.topic("removed"))
    sent = values(100)
    producing.send(topic, sent)
    producing.remove(topic, before=40)
    fetcher = Fetcher(cluster, "read_committed", skip_removed=True)
    assert read(fetcher, topic, 10, 50) == dict(enumerate(sent[40:50], 40))
    assert read(fetcher, topic, 10, 30) == {}


def test_a_range_beyond_the_end_is_an_altered_log(producing: Producing, cluster: Cluster, broker: SharedBroker) -> None:
    topic = producing.topic(broker.topic("short"))
    producing.send(topic, values(5))
    for fetcher in (Fetcher(cluster, "read_committed"), Fetcher(cluster, "read_committed", skip_removed=True)):
        with pytest.raises(AlteredLog, match=f"{topic}/0 ends at offset 5, and 19 was there before"):
            read(fetcher, topic, 10, 20)


def test_a_range_that_the_end_falls_short_of_is_waited_for(producing: Producing, broker: SharedBroker) -> None:
    topic = producing.topic(broker.topic("short"))
    producing.send(topic, values(5))
    cluster = Cluster(broker.bootstrap, patience=1)
    with pytest.raises(
        MillstreamError, match=f"{topic}/0 ends at 5 now, and is to be read up to 6: offset not available$"
    ):
        read(Fetcher(cluster, "read_committed"), topic, 2, 6)
    cluster.close()


def test_a_topic_that_was_made_again_is_another_one(
    producing: Producing, cluster: Cluster, broker: SharedBroker
) -> None:
    topic = producing.topic(broker.topic("again"))
    producing.send(topic, values(5))
    fetcher = Fetcher(cluster, "read_committed")
    assert len(read(fetcher, topic, 0, 5)) == 5
    producing.delete(topic)
    producing.topic(topic)
    producing.send(topic, values(5, seed=2))
    with pytest.raises(AlteredLog, match=f"topic {topic} was deleted and made again while it was read"):
        read(fetcher, topic, 0, 5)
    assert len(read(Fetcher(cluster, "read_committed"), topic, 0, 5)) == 5


def test_a_compacted_topic_has_gaps(own_broker: OwnBroker) -> None:
    broker = own_broker({"log.cleaner.backoff.ms": "50", "log.initial.task.delay.ms": "50"})
    producing = Producing(broker.bootstrap)
    eager: dict[str, Any] = {"min_cleanable_dirty_ratio": "0.01", "segment_ms": "50"}
    topic = producing.topic("compacted", cleanup_policy="compact", **eager)
    producing.send(topic, [b"first"], key=b"gone")
    for place in range(3):
        producing.send(topic, [b"%d" % number for number in range(100)], key=b"key %d" % place)
    cluster = Cluster(broker.bootstrap, patience=60)

    found: dict[int, bytes | None] = {}

    def compacted() -> bool:
        producing.send(topic, [None], key=b"gone")  # a segment is closed by what comes after it
        end = cluster.ends([(topic, 0)])[topic, 0]
        found.clear()
        found.update(read(Fetcher(cluster, "read_committed"), topic, 0, end))
        return not {0, 299} & found.keys()

    eventually(compacted, "compaction")
    assert {offset: found[offset] for offset in found if offset <= 300} == {100: b"99", 200: b"99", 300: b"99"}
    fetcher = Fetcher(cluster, "read_committed")
    assert read(fetcher, topic, 110, 190) == {}
    assert read(fetcher, topic, 110, 201) == {200: b"99"}
    assert read(fetcher, topic, 201, 300) == {}
    cluster.close()
    producing.close()


def test_an_end_of_which_no_batch_is_left_is_an_end(
    producing: Producing, cluster: Cluster, broker: SharedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = producing.topic(broker.topic("emptied"))
    producing.send(topic, values(5))
    ask = cluster.ask

    def emptied(what: str, question: Any) -> Any:
        """What a broker answers whose cleaner has removed all that is left: nothing, and that there is no more."""
        return dataclasses.replace(ask(what, question), batches=b"")

    monkeypatch.setattr(cluster, "ask", emptied)
    assert read(Fetcher(cluster, "read_committed"), topic, 2, 5) == {}


def test_an_answer_that_is_empty_once_is_no_end(
    producing: Producing, cluster: Cluster, broker: SharedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = producing.topic(broker.topic("late"))
    sent = values(5)
    producing.send(topic, sent)
    ask = cluster.ask
    asked = 0

    def late(what: str, question: Any) -> Any:
        nonlocal asked
        asked += 1
        answer = ask(what, question)
        return dataclasses.replace(answer, batches=b"") if asked == 1 else answer

    monkeypatch.setattr(cluster, "ask", late)
    assert read(Fetcher(cluster, "read_committed"), topic, 2, 5) == dict(enumerate(sent[2:], 2))
