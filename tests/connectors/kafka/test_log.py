"""Topics as a log that any process can read, with the options of a source."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.brokers import SharedBroker
from support.conditions import HANG_SECONDS, wait_until
from support.kafka.source_options import source
from support.kafka.topic_admin import TopicAdmin

from millstream.errors import AlteredLog, Contradiction, MillstreamError, Truncated
from millstream.log.contracts import OpenContext, Partition
from millstream.records import log_schema
from millstream_connectors.kafka import log as kafka_log
from millstream_connectors.kafka import offset_cache
from millstream_connectors.kafka.log import KafkaLog


@pytest.fixture
def opened(broker: SharedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Opens logs on the broker, and closes them."""
    monkeypatch.setattr(kafka_log, "FAIL_FAST_SECONDS", HANG_SECONDS)  # the broker is up, and the machine may be busy
    logs: list[KafkaLog] = []

    def opened(*, fail_fast: bool = False, **options: Any) -> KafkaLog:
        context = OpenContext(tmp_path, tmp_path / "cache", "news", fail_fast=fail_fast)
        config = source(**{"bootstrap": broker.bootstrap, "format": "text", "timeout": f"{HANG_SECONDS}s", **options})
        logs.append(config.open(context))
        return logs[-1]

    yield opened
    for log in logs:
        log.close()


def texts(log: KafkaLog, partition: str, start: int, stop: int) -> dict[int, str | None]:
    found: dict[int, str | None] = {}
    for batch in log.read(partition, start, stop):
        assert batch.schema == log_schema(log.fields)
        found.update(zip(batch["_offset"].to_pylist(), batch["text"].to_pylist(), strict=True))
    return found


def logged(caplog: pytest.LogCaptureFixture, prefix: str) -> list[str]:
    """The messages with a prefix; on a busy machine there may be others about a broker that answers slowly."""
    return [message for message in caplog.messages if message.startswith(prefix)]


def count_answers(log: KafkaLog, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that grows with every answer to a question about the current ends."""
    found: list[Any] = []
    request = log._end_offsets._request_briefly

    def counted(pairs: Any) -> Any:
        answer = request(pairs)
        if answer is not None:
            found.append(answer)
        return answer

    monkeypatch.setattr(log._end_offsets, "_request_briefly", counted)
    return found


def numbered(count: int) -> list[bytes | None]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.kafka
def test_a_topic_is_a_log(topics: TopicAdmin, broker: SharedBroker, opened: Any) -> None:
    topic = topics.create(broker.topic(), 2)
    topics.send(topic, numbered(5), partition=1)
    log = opened(topic=topic)
    assert log.partitions() == [Partition(f"{topic}/0", 0), Partition(f"{topic}/1", 1)]
    first, second = f"{topic}/0", f"{topic}/1"
    assert (log.beginning(first), log.end(first), log.beginning(second), log.end(second)) == (0, 0, 0, 5)
    assert texts(log, second, 1, 4) == {1: "1", 2: "2", 3: "3"}
    assert not log.ended(second)
    assert log.resume(second, 3) == 3
    cluster, topic_id = log._cluster.id, log._cluster.topics([topic])[topic].id
    assert log.identity(second, 5) == f"topic id {topic_id} of cluster {cluster}"


@pytest.mark.kafka
def test_the_end_follows_new_messages(topics: TopicAdmin, broker: SharedBroker, opened: Any) -> None:
    topic = topics.create(broker.topic())
    log = opened(topic=topic)
    assert log.end(f"{topic}/0") == 0
    topics.send(topic, numbered(3))
    wait_until(lambda: log.end(f"{topic}/0") == 3, "the new end")


@pytest.mark.kafka
def test_partitions_of_several_topics_are_ordered_and_have_no_number_of_their_own(
    topics: TopicAdmin, broker: SharedBroker, opened: Any
) -> None:
    second, first = topics.create(broker.topic("b"), 2), topics.create(broker.topic("a"), 11)
    log = opened(topics=[second, first])
    names = [f"{first}/{number}" for number in range(11)] + [f"{second}/0", f"{second}/1"]
    assert log.partitions() == [Partition(name, None) for name in names]


@pytest.mark.kafka
def test_from_selects_the_start_of_a_partition(topics: TopicAdmin, broker: SharedBroker, opened: Any) -> None:
    topic = topics.create(broker.topic(), 2)
    for number in range(5):
        topics.send(topic, [b"x"], timestamp_ms=1_700_000_000_000 + number * 1000)
    starts: list[tuple[Any, int]] = [
        ("earliest", 0),
        ("latest", 5),
        ({"timestamp": "2023-11-14T22:13:22Z"}, 2),
        ({"timestamp": "2023-11-14T22:13:22.000001Z"}, 3),
        ({"timestamp": "2030-01-01"}, 5),
        ({"offsets": {0: 4}}, 4),
        ({"offsets": {0: 5}}, 5),
        ({"offsets": {1: 0}}, 0),
    ]
    for start, offset in starts:
        log = opened(topic=topic, start=start)
        log.partitions()
        assert log.beginning(f"{topic}/0") == offset, start
        assert log.beginning(f"{topic}/0", joined=True) == 0


@pytest.mark.kafka
def test_start_offsets_that_do_not_exist_are_refused(topics: TopicAdmin, broker: SharedBroker, opened: Any) -> None:
    topic = topics.create(broker.topic(), 2)
    topics.send(topic, numbered(5))
    topics.remove(topic, before=2)
    log = opened(topic=topic, start={"offsets": {0: 6}})
    log.partitions()
    with pytest.raises(Contradiction, match=rf"`from` has offset 6 for {topic}/0, which ends at 5"):
        log.beginning(f"{topic}/0")
    with pytest.raises(
        Truncated, match=rf"{topic}/0: offset 1 is requested, and the brokers have removed all before 2"
    ):
        opened(topic=topic, start={"offsets": {0: 1}}).beginning(f"{topic}/0")
    assert opened(topic=topic, start={"offsets": {0: 1}}, on_truncated="earliest").beginning(f"{topic}/0") == 2
    with pytest.raises(Contradiction, match=rf"an offset for partition 2 of {topic}, whose partitions are 0 to 1"):
        opened(topic=topic, start={"offsets": {2: 0}}).partitions()


@pytest.mark.kafka
def test_a_missing_topic_is_refused_with_advice(topics: TopicAdmin, broker: SharedBroker, opened: Any) -> None:
    topic = topics.create(broker.topic("documents"))
    wrong = f"{topic}x"
    with pytest.raises(Contradiction) as refused:
        opened(topic=wrong).partitions()
    assert str(refused.value) == (
        f"there is no topic {wrong} at {broker.bootstrap}; `create: true` makes it, and so does "
        f"`millstream log append kafka://{broker.bootstrap}/{wrong}`; did you mean `{topic}`?"
    )


@pytest.mark.kafka
def test_a_missing_topic_is_created(broker: SharedBroker, opened: Any) -> None:
    topic = broker.topic()
    with pytest.raises(Contradiction, match="there is no topic"):
        opened(topic=topic, create=True, partitions=3, fail_fast=True).partitions()  # a read-only log changes nothing
    assert len(opened(topic=topic, create=True, partitions=3).partitions()) == 3
    assert len(opened(topic=topic, create=True, partitions=5).partitions()) == 3


@pytest.mark.kafka
def test_a_pattern_without_matches_waits(
    topics: TopicAdmin, broker: SharedBroker, opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    prefix = broker.topic("pattern")
    log = opened(pattern=f"{prefix}-.*")
    topics.create(f"other-{prefix}-1")
    topics.create(f"{prefix}+1".replace("+", "_"))
    assert log.partitions() == [] and log.partitions() == []
    assert logged(caplog, "no topic") == [f"no topic matches {prefix}-.* yet; waiting for one"]
    topic = topics.create(f"{prefix}-1", 2)
    wait_until(lambda: log.partitions() != [], "the topic")
    assert log.partitions() == [Partition(f"{topic}/0"), Partition(f"{topic}/1")]
    assert log.beginning(f"{topic}/0", joined=True) == log.end(f"{topic}/0") == 0


@pytest.mark.kafka
def test_removed_messages_are_refused_or_skipped(
    topics: TopicAdmin, broker: SharedBroker, opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics.create(broker.topic())
    topics.send(topic, numbered(9))
    topics.remove(topic, before=6)
    partition = f"{topic}/0"
    with pytest.raises(
        Truncated, match=rf"{partition}: offset 2 is requested, and the brokers have removed all before 6"
    ):
        opened(topic=topic).resume(partition, 2)
    lenient = opened(topic=topic, on_truncated="earliest")
    assert lenient.resume(partition, 2) == 6
    assert logged(caplog, partition) == [f"{partition}: offsets 2 to 5 were removed, continuing at 6"]
    assert texts(lenient, partition, 2, 8) == {6: "6", 7: "7"}


@pytest.mark.kafka
def test_removed_messages_of_an_added_partition_are_refused_or_skipped(
    topics: TopicAdmin, broker: SharedBroker, opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics.create(broker.topic())
    topics.send(topic, numbered(5))
    topics.remove(topic, before=3)
    partition = f"{topic}/0"
    for start in ("earliest", "latest"):
        with pytest.raises(
            Truncated, match=rf"{partition}: offset 0 is requested, and the brokers have removed all before 3"
        ):
            opened(topic=topic, start=start).beginning(partition, joined=True)
        assert opened(topic=topic, start=start, on_truncated="earliest").beginning(partition, joined=True) == 3
    assert logged(caplog, partition) == [f"{partition}: offsets 0 to 2 were removed, continuing at 3"] * 2
    assert opened(topic=topic).beginning(partition) == 3  # the partition existed before the run


@pytest.mark.kafka
@pytest.mark.parametrize("start", ["earliest", "latest", {"timestamp": "2026-01-01"}, {"offsets": {0: 1}}])
def test_many_partitions_need_one_request_of_each_kind(
    topics: TopicAdmin, broker: SharedBroker, opened: Any, monkeypatch: pytest.MonkeyPatch, start: Any
) -> None:
    monkeypatch.setattr(offset_cache, "_MAX_AGE_SECONDS", 1e9)
    topic = topics.create(broker.topic(), 30)
    topics.send(topic, numbered(3))
    log = opened(topic=topic, start=start)
    names = [partition.name for partition in log.partitions()]
    asked: list[str] = []
    ask = log._cluster._connection.ask

    def counted(kind: str, question: Any) -> Any:
        asked.append(kind)
        return ask(kind, question)

    monkeypatch.setattr(log._cluster._connection, "ask", counted)
    for name in names:
        log.beginning(name)
        log.resume(name, 0)
        log.end(name)
    assert {"beginnings", "ends"} <= {*asked}
    assert len(asked) <= 4  # with the start offsets, and the ends in place of times after the last message


def test_an_end_never_decreases() -> None:
    answers: list[dict[tuple[str, int], int] | None] = [{("a", 0): 3, ("a", 1): 9}, None, {("a", 0): 6, ("a", 1): 9}]
    now = 0.0
    ends = offset_cache.EndOffsetCache(
        lambda pairs: dict.fromkeys(pairs, 5), lambda pairs: answers.pop(0), clock=lambda: now
    )
    found = []
    for _ in range(4):
        found.append([ends.get(("a", number), among=[("a", 0), ("a", 1)]) for number in (0, 1)])
        now += 1
    assert found == [[5, 5], [5, 9], [5, 9], [6, 9]]


def test_an_end_is_not_current_while_no_broker_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[dict[tuple[str, int], int] | None] = [{("a", 0): 6}, None, None, {("a", 0): 9}]
    now = 0.0
    log = source(bootstrap="nowhere:9092", topic="a").open(OpenContext(tmp_path, tmp_path))
    monkeypatch.setattr(log._cluster, "ends", lambda pairs, isolation: dict.fromkeys(pairs, 5))
    monkeypatch.setattr(log._cluster, "ends_briefly", lambda pairs, isolation: answers.pop(0))
    monkeypatch.setattr(log._end_offsets, "_clock", lambda: now)
    found = []
    for now in range(5):  # noqa: B007 - the clock of the log
        found.append((log.end("a/0"), log.is_current("a/0")))
    assert found == [(5, True), (6, True), (6, False), (6, False), (9, True)]


@pytest.mark.kafka
def test_another_process_reads_with_only_the_config(topics: TopicAdmin, broker: SharedBroker, opened: Any) -> None:
    topic = topics.create(broker.topic())
    topics.send(topic, numbered(50))
    log = opened(topic=topic)
    assert len(texts(log, f"{topic}/0", 0, 50)) == 50  # this process is connected
    config = source(bootstrap=broker.bootstrap, topic=topic, format="text").model_dump_json()
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", READ, config, f"{topic}/0"]
    alone = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (alone.stdout, alone.stderr) == ("['7', '8']\n", "")
    forked = multiprocessing.get_context("fork")
    found = forked.Queue()
    child = forked.Process(target=lambda: found.put(texts(log, f"{topic}/0", 7, 9)))
    child.start()
    assert found.get(timeout=HANG_SECONDS) == {7: "7", 8: "8"}
    child.join()
    assert texts(log, f"{topic}/0", 3, 4) == {3: "3"}


READ = """
import sys
from pathlib import Path
from millstream.log.contracts import OpenContext
from millstream_connectors.kafka.source import KafkaSource

log = KafkaSource.model_validate_json(sys.argv[1]).open(OpenContext(Path(), Path()))
print([text for batch in log.read(sys.argv[2], 7, 9) for text in batch["text"].to_pylist()])
log.close()
"""


@pytest.mark.kafka
def test_aborted_messages_are_read_only_uncommitted(topics: TopicAdmin, broker: SharedBroker, opened: Any) -> None:
    topic = topics.create(broker.topic())
    topics.transaction(topic, [b"aborted"], commit=False)
    topics.transaction(topic, [b"committed"], commit=True)
    assert texts(opened(topic=topic), f"{topic}/0", 0, 4) == {2: "committed"}
    uncommitted = opened(topic=topic, isolation="read_uncommitted")
    assert texts(uncommitted, f"{topic}/0", 0, 4) == {0: "aborted", 2: "committed"}


@pytest.mark.kafka
def test_the_end_is_before_uncommitted_messages(
    topics: TopicAdmin, broker: SharedBroker, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.create(broker.topic())
    topics.send(topic, numbered(3))
    with topics.producer(transactional_id=topic) as theirs:
        theirs.init_transactions()
        theirs.begin_transaction()
        theirs.send(topic, b"open", partition=0).get(HANG_SECONDS)
        topics.send(topic, numbered(2))
        log = opened(topic=topic)
        assert log.end(f"{topic}/0") == 3
        asked = count_answers(log, monkeypatch)
        wait_until(lambda: log.end(f"{topic}/0") == 3 and bool(asked), "a later answer")
        assert log.end(f"{topic}/0") == 3
        assert opened(topic=topic, isolation="read_uncommitted").end(f"{topic}/0") == 6
        theirs.abort_transaction()


@pytest.mark.kafka
def test_a_topic_that_is_deleted_and_created_again_is_another_topic(
    topics: TopicAdmin, broker: SharedBroker, opened: Any
) -> None:
    topic = topics.create(broker.topic())
    log = opened(topic=topic)
    log.partitions()
    before = log.identity(f"{topic}/0", 0)
    topics.delete(topic)
    topics.create(topic)
    assert opened(topic=topic).identity(f"{topic}/0", 0) != before
    with pytest.raises(AlteredLog, match=f"topic {topic} was deleted and created again while it was read"):
        wait_until(
            lambda: not log.partitions(), "the refusal"
        )  # without an answer, the log returns the last partitions


@pytest.mark.kafka
def test_other_processes_refuse_a_topic_that_is_deleted_and_created_again(
    topics: TopicAdmin, broker: SharedBroker, opened: Any, tmp_path: Path
) -> None:
    topic = topics.create(broker.topic())
    topics.send(topic, numbered(5))
    opened(topic=topic).partitions()
    reader = opened(topic=topic)  # like another process, which lists no topics
    assert len(texts(reader, f"{topic}/0", 0, 5)) == 5
    topics.delete(topic)
    topics.create(topic)
    topics.send(topic, numbered(5))
    for log in (reader, opened(topic=topic)):
        with pytest.raises(AlteredLog, match=f"topic {topic} was deleted and created again while it was read"):
            texts(log, f"{topic}/0", 0, 5)
    [cached] = (tmp_path / "cache").iterdir()
    cached.write_bytes(cached.read_bytes()[:-9])
    assert len(texts(opened(topic=topic), f"{topic}/0", 0, 5)) == 5  # without the file, the id is not checked
    cached.unlink()
    assert len(texts(opened(topic=topic), f"{topic}/0", 0, 5)) == 5


@pytest.mark.kafka
def test_a_topic_that_was_read_and_deleted_is_not_created_again(
    topics: TopicAdmin, broker: SharedBroker, opened: Any
) -> None:
    topic = broker.topic()
    opened(topic=topic, create=True).partitions()
    topics.delete(topic)
    with pytest.raises(
        Contradiction, match=f"topic {topic} was read by this run and no longer exists at {broker.bootstrap}"
    ):
        opened(topic=topic, create=True).partitions()


@pytest.mark.kafka
def test_a_read_only_log_writes_no_file(topics: TopicAdmin, broker: SharedBroker, opened: Any, tmp_path: Path) -> None:
    topic = topics.create(broker.topic())
    assert len(opened(topic=topic, fail_fast=True).partitions()) == 1
    assert not list(tmp_path.iterdir())


def test_a_read_only_log_does_not_wait_long(tmp_path: Path) -> None:
    log = source(topic="a", timeout="10m").open(OpenContext(tmp_path, tmp_path, fail_fast=True))
    with pytest.raises(MillstreamError, match=r"gave up waiting for Kafka at 127.0.0.1:1 after 2 s"):
        log.partitions()
    log.close()
