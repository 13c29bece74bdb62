"""Topics as a log that any process can read, through the options of a source."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from connectors.kafka.producing import Producing
from connectors.kafka.running import eventually
from connectors.kafka.sourcing import source
from kafka_broker import SharedBroker

from millstream.errors import AlteredLog, Contradiction, MillstreamError, Truncated
from millstream.log.contracts import Partition, Place
from millstream.records import log_schema
from millstream_connectors.kafka import edges
from millstream_connectors.kafka.log import KafkaLog


@pytest.fixture
def opened(broker: SharedBroker, tmp_path: Path) -> Iterator[Any]:
    """Opens logs on the broker, and closes them."""
    logs: list[KafkaLog] = []

    def opened(*, hurry: bool = False, **options: Any) -> KafkaLog:
        place = Place(tmp_path, tmp_path / "cache", "news", hurry=hurry)
        config = source(**{"bootstrap": broker.bootstrap, "format": "text", "patience": "30s", **options})
        logs.append(config.open(place))
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


def numbered(count: int) -> list[bytes | None]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.kafka
def test_a_topic_is_a_log(producing: Producing, broker: SharedBroker, opened: Any) -> None:
    topic = producing.topic(broker.topic(), 2)
    producing.send(topic, numbered(5), partition=1)
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
def test_the_end_follows_what_comes(producing: Producing, broker: SharedBroker, opened: Any) -> None:
    topic = producing.topic(broker.topic())
    log = opened(topic=topic)
    assert log.end(f"{topic}/0") == 0
    producing.send(topic, numbered(3))
    eventually(lambda: log.end(f"{topic}/0") > 0, "the end")
    assert log.end(f"{topic}/0") == 3


@pytest.mark.kafka
def test_partitions_of_several_topics_are_in_order_and_count_by_appearance(
    producing: Producing, broker: SharedBroker, opened: Any
) -> None:
    second, first = producing.topic(broker.topic("b"), 2), producing.topic(broker.topic("a"), 11)
    log = opened(topics=[second, first])
    names = [f"{first}/{number}" for number in range(11)] + [f"{second}/0", f"{second}/1"]
    assert log.partitions() == [Partition(name, None) for name in names]


@pytest.mark.kafka
def test_from_says_where_a_partition_begins(producing: Producing, broker: SharedBroker, opened: Any) -> None:
    topic = producing.topic(broker.topic(), 2)
    for number in range(5):
        producing.send(topic, [b"x"], timestamp_ms=1_700_000_000_000 + number * 1000)
    begins: list[tuple[Any, int]] = [
        ("earliest", 0),
        ("latest", 5),
        ({"timestamp": "2023-11-14T22:13:22Z"}, 2),
        ({"timestamp": "2023-11-14T22:13:22.000001Z"}, 3),
        ({"timestamp": "2030-01-01"}, 5),
        ({"offsets": {0: 4}}, 4),
        ({"offsets": {0: 5}}, 5),
        ({"offsets": {1: 0}}, 0),
    ]
    for begin, offset in begins:
        log = opened(topic=topic, begin=begin)
        log.partitions()
        assert log.beginning(f"{topic}/0") == offset, begin
        assert log.beginning(f"{topic}/0", joined=True) == 0


@pytest.mark.kafka
def test_offsets_that_are_not_there_are_refused(producing: Producing, broker: SharedBroker, opened: Any) -> None:
    topic = producing.topic(broker.topic(), 2)
    producing.send(topic, numbered(5))
    producing.remove(topic, before=2)
    log = opened(topic=topic, begin={"offsets": {0: 6}})
    log.partitions()
    with pytest.raises(Contradiction, match=rf"`from` says offset 6 of {topic}/0, which ends at 5"):
        log.beginning(f"{topic}/0")
    with pytest.raises(Truncated, match=rf"{topic}/0: offset 1 is wanted, and what is left begins at 2"):
        opened(topic=topic, begin={"offsets": {0: 1}}).beginning(f"{topic}/0")
    assert opened(topic=topic, begin={"offsets": {0: 1}}, on_truncated="earliest").beginning(f"{topic}/0") == 2
    with pytest.raises(Contradiction, match=rf"an offset for partition 2 of {topic}, whose partitions are 0 to 1"):
        opened(topic=topic, begin={"offsets": {2: 0}}).partitions()


@pytest.mark.kafka
def test_a_topic_that_is_not_there_is_refused_with_what_to_do(
    producing: Producing, broker: SharedBroker, opened: Any
) -> None:
    topic = producing.topic(broker.topic("documents"))
    wrong = f"{topic}x"
    with pytest.raises(Contradiction) as refused:
        opened(topic=wrong).partitions()
    assert str(refused.value) == (
        f"there is no topic {wrong} at {broker.bootstrap}; `create: true` makes it, and so does "
        f"`millstream log append kafka://{broker.bootstrap}/{wrong}`; did you mean `{topic}`?"
    )


@pytest.mark.kafka
def test_a_topic_that_is_not_there_is_made(broker: SharedBroker, opened: Any) -> None:
    topic = broker.topic()
    with pytest.raises(Contradiction, match="there is no topic"):
        opened(topic=topic, create=True, partitions=3, hurry=True).partitions()  # who only looks changes nothing
    assert len(opened(topic=topic, create=True, partitions=3).partitions()) == 3
    assert len(opened(topic=topic, create=True, partitions=5).partitions()) == 3


@pytest.mark.kafka
def test_a_pattern_that_matches_nothing_waits(
    producing: Producing, broker: SharedBroker, opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    prefix = broker.topic("pattern")
    log = opened(pattern=f"{prefix}-.*")
    producing.topic(f"other-{prefix}-1")
    producing.topic(f"{prefix}+1".replace("+", "_"))
    assert log.partitions() == [] and log.partitions() == []
    assert caplog.messages == [f"no topic matches {prefix}-.* yet; waiting for one"]
    topic = producing.topic(f"{prefix}-1", 2)
    eventually(lambda: log.partitions() != [], "the topic")
    assert log.partitions() == [Partition(f"{topic}/0"), Partition(f"{topic}/1")]
    assert log.beginning(f"{topic}/0", joined=True) == log.end(f"{topic}/0") == 0


@pytest.mark.kafka
def test_what_was_removed_is_refused_or_left_out(
    producing: Producing, broker: SharedBroker, opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    topic = producing.topic(broker.topic())
    producing.send(topic, numbered(9))
    producing.remove(topic, before=6)
    partition = f"{topic}/0"
    with pytest.raises(Truncated, match=rf"{partition}: offset 2 is wanted, and what is left begins at 6"):
        opened(topic=topic).resume(partition, 2)
    lenient = opened(topic=topic, on_truncated="earliest")
    assert lenient.resume(partition, 2) == 6
    assert caplog.messages == [f"{partition}: offsets 2 to 5 were removed, going on at 6"]
    assert texts(lenient, partition, 2, 8) == {6: "6", 7: "7"}


@pytest.mark.kafka
def test_what_was_removed_of_a_partition_that_joins_is_refused_or_left_out(
    producing: Producing, broker: SharedBroker, opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    topic = producing.topic(broker.topic())
    producing.send(topic, numbered(5))
    producing.remove(topic, before=3)
    partition = f"{topic}/0"
    for begin in ("earliest", "latest"):
        with pytest.raises(Truncated, match=rf"{partition}: offset 0 is wanted, and what is left begins at 3"):
            opened(topic=topic, begin=begin).beginning(partition, joined=True)
        assert opened(topic=topic, begin=begin, on_truncated="earliest").beginning(partition, joined=True) == 3
    assert caplog.messages == [f"{partition}: offsets 0 to 2 were removed, going on at 3"] * 2
    assert opened(topic=topic).beginning(partition) == 3  # it was there before the run


@pytest.mark.kafka
@pytest.mark.parametrize("begin", ["earliest", "latest", {"timestamp": "2026-01-01"}, {"offsets": {0: 1}}])
def test_many_partitions_cost_a_question_of_each_kind(
    producing: Producing, broker: SharedBroker, opened: Any, monkeypatch: pytest.MonkeyPatch, begin: Any
) -> None:
    monkeypatch.setattr(edges, "_RECENT_SECONDS", 1e9)
    topic = producing.topic(broker.topic(), 30)
    producing.send(topic, numbered(3))
    log = opened(topic=topic, begin=begin)
    names = [partition.name for partition in log.partitions()]
    asked: list[str] = []
    ask = log._cluster._connection.ask

    def counted(what: str, question: Any) -> Any:
        asked.append(what)
        return ask(what, question)

    monkeypatch.setattr(log._cluster._connection, "ask", counted)
    for name in names:
        log.beginning(name)
        log.resume(name, 0)
        log.end(name)
    assert {"beginnings", "ends"} <= {*asked}
    assert len(asked) <= 4  # with those of where it begins, and the ends instead of times that never were


def test_an_end_that_was_told_is_never_taken_back() -> None:
    answers: list[dict[tuple[str, int], int] | None] = [{("a", 0): 3, ("a", 1): 9}, None, {("a", 0): 6, ("a", 1): 9}]
    ends = edges.Ends(lambda pairs: dict.fromkeys(pairs, 5), lambda pairs: answers.pop(0))
    told = []
    for _ in range(4):
        told.append([ends.of(("a", number), among=[("a", 0), ("a", 1)]) for number in (0, 1)])
        ends._due = 0.0
    assert told == [[5, 5], [5, 9], [5, 9], [6, 9]]


@pytest.mark.kafka
def test_another_process_reads_with_nothing_but_the_config(
    producing: Producing, broker: SharedBroker, opened: Any
) -> None:
    topic = producing.topic(broker.topic())
    producing.send(topic, numbered(50))
    log = opened(topic=topic)
    assert len(texts(log, f"{topic}/0", 0, 50)) == 50  # connected, here
    config = source(bootstrap=broker.bootstrap, topic=topic, format="text").model_dump_json()
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", READ, config, f"{topic}/0"]
    alone = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (alone.stdout, alone.stderr) == ("['7', '8']\n", "")
    forked = multiprocessing.get_context("fork")
    found = forked.Queue()
    child = forked.Process(target=lambda: found.put(texts(log, f"{topic}/0", 7, 9)))
    child.start()
    assert found.get(timeout=60) == {7: "7", 8: "8"}
    child.join()
    assert texts(log, f"{topic}/0", 3, 4) == {3: "3"}


READ = """
import sys
from pathlib import Path
from millstream.log.contracts import Place
from millstream_connectors.kafka.source import KafkaSource

log = KafkaSource.model_validate_json(sys.argv[1]).open(Place(Path(), Path()))
print([text for batch in log.read(sys.argv[2], 7, 9) for text in batch["text"].to_pylist()])
log.close()
"""


@pytest.mark.kafka
def test_aborted_messages_are_seen_only_if_that_is_asked_for(
    producing: Producing, broker: SharedBroker, opened: Any
) -> None:
    topic = producing.topic(broker.topic())
    producing.transaction(topic, [b"aborted"], commit=False)
    producing.transaction(topic, [b"committed"], commit=True)
    assert texts(opened(topic=topic), f"{topic}/0", 0, 4) == {2: "committed"}
    uncommitted = opened(topic=topic, isolation="read_uncommitted")
    assert texts(uncommitted, f"{topic}/0", 0, 4) == {0: "aborted", 2: "committed"}


@pytest.mark.kafka
def test_the_end_is_before_what_is_not_committed(producing: Producing, broker: SharedBroker, opened: Any) -> None:
    topic = producing.topic(broker.topic())
    producing.send(topic, numbered(3))
    with producing.producer(transactional_id=topic) as theirs:
        theirs.init_transactions()
        theirs.begin_transaction()
        theirs.send(topic, b"open", partition=0).get(10)
        producing.send(topic, numbered(2))
        log = opened(topic=topic)
        assert log.end(f"{topic}/0") == 3
        time.sleep(2 * edges._RECENT_SECONDS)
        assert log.end(f"{topic}/0") == 3  # the first answer, and later ones
        assert opened(topic=topic, isolation="read_uncommitted").end(f"{topic}/0") == 6
        theirs.abort_transaction()


@pytest.mark.kafka
def test_a_topic_that_is_made_again_is_another_one(producing: Producing, broker: SharedBroker, opened: Any) -> None:
    topic = producing.topic(broker.topic())
    log = opened(topic=topic)
    log.partitions()
    before = log.identity(f"{topic}/0", 0)
    producing.delete(topic)
    producing.topic(topic)
    assert opened(topic=topic).identity(f"{topic}/0", 0) != before
    with pytest.raises(AlteredLog, match=f"topic {topic} was deleted and made again while it was read"):
        log.partitions()


@pytest.mark.kafka
def test_a_topic_that_is_made_again_is_refused_by_other_processes_that_read(
    producing: Producing, broker: SharedBroker, opened: Any, tmp_path: Path
) -> None:
    topic = producing.topic(broker.topic())
    producing.send(topic, numbered(5))
    opened(topic=topic).partitions()
    reader = opened(topic=topic)  # as another process opens it, which asks for no topics
    assert len(texts(reader, f"{topic}/0", 0, 5)) == 5
    producing.delete(topic)
    producing.topic(topic)
    producing.send(topic, numbered(5))
    for log in (reader, opened(topic=topic)):
        with pytest.raises(AlteredLog, match=f"topic {topic} was deleted and made again while it was read"):
            texts(log, f"{topic}/0", 0, 5)
    [cached] = (tmp_path / "cache").iterdir()
    cached.write_bytes(cached.read_bytes()[:-9])
    assert len(texts(opened(topic=topic), f"{topic}/0", 0, 5)) == 5  # what is not known is not checked
    cached.unlink()
    assert len(texts(opened(topic=topic), f"{topic}/0", 0, 5)) == 5


@pytest.mark.kafka
def test_a_topic_that_was_read_and_is_gone_is_not_made_anew(
    producing: Producing, broker: SharedBroker, opened: Any
) -> None:
    topic = broker.topic()
    opened(topic=topic, create=True).partitions()
    producing.delete(topic)
    with pytest.raises(Contradiction, match=f"topic {topic} was read by this run and is not at {broker.bootstrap}"):
        opened(topic=topic, create=True).partitions()


@pytest.mark.kafka
def test_whoever_only_looks_writes_nothing(
    producing: Producing, broker: SharedBroker, opened: Any, tmp_path: Path
) -> None:
    topic = producing.topic(broker.topic())
    assert len(opened(topic=topic, hurry=True).partitions()) == 1
    assert not list(tmp_path.iterdir())


def test_whoever_is_in_a_hurry_does_not_wait_long(tmp_path: Path) -> None:
    log = source(topic="a", patience="10m").open(Place(tmp_path, tmp_path, hurry=True))
    with pytest.raises(MillstreamError, match="was waited for in vain for 2 s"):
        log.partitions()
    log.close()
