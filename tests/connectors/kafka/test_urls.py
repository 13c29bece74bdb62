"""The command `millstream log` with topics."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.brokers import SharedBroker
from support.conditions import HANG_SECONDS
from support.kafka.clients import connect_producer
from support.kafka.topic_admin import wait_until_complete
from support.topics import create_topic

import millstream.log
from millstream.errors import MillstreamError
from millstream_connectors.kafka import log as kafka_log
from millstream_connectors.kafka import urls

pytestmark = pytest.mark.kafka

COMMAND = [sys.executable, "-m", "millstream", "log"]
LINES = b"".join(b'{"text": "%d"}\n' % number for number in range(2_500))


def run(*arguments: str, lines: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *arguments], input=lines, capture_output=True, check=False, timeout=HANG_SECONDS)


def url(broker: SharedBroker, topic: str) -> str:
    return f"kafka://{broker.bootstrap}/{topic}"


def test_appended_lines_are_printed(broker: SharedBroker) -> None:
    topic = broker.topic("lines")
    done = run("append", url(broker, topic), lines=LINES)
    assert (done.returncode, done.stderr) == (0, b"2500 entries appended\n")
    assert run("cat", url(broker, topic)).stdout == LINES
    assert run("cat", url(broker, topic), "--from", "3", "--max", "1").stdout == b'{"text": "3"}\n'


def test_an_import_creates_the_given_number_of_partitions(broker: SharedBroker, tmp_path: Path) -> None:
    topic = broker.topic("imported")
    (tmp_path / "a.jsonl").write_bytes(LINES)
    done = run("import", str(tmp_path / "a.jsonl"), url(broker, topic), "--partitions", "3")
    assert (done.returncode, done.stderr) == (0, b"2500 entries imported from %s\n" % bytes(tmp_path / "a.jsonl"))
    listed = run("ls", url(broker, topic)).stdout.decode().splitlines()
    ends = enumerate((834, 833, 833))
    assert [f"partition {number}  offsets 0-{end} " in listed[number] for number, end in ends] == [True] * 3
    assert sorted(run("cat", url(broker, topic)).stdout.splitlines()) == sorted(LINES.splitlines())
    assert topic in run("ls", f"kafka://{broker.bootstrap}").stdout.decode()
    again = run("append", url(broker, topic), "--partitions", "2", lines=b"a\n")
    assert (again.returncode, b"with 3 partitions and not 2" in again.stderr) == (2, True)


def test_entries_are_written_to_the_partitions_record_by_record_and_printed_by_partition(broker: SharedBroker) -> None:
    topic = broker.topic("turns")
    opened = millstream.log.open(url(broker, topic))
    with opened.appender(2) as append:
        for entries in ([b"0"], [], [b"1", b"2"], [b"3", b"4", b"5"]):
            append(entries)
    assert list(opened.entries()) == [b"0", b"2", b"4", b"1", b"3", b"5"]


def test_an_entry_that_is_too_large_is_shown(broker: SharedBroker) -> None:
    topic = broker.topic("large")
    create_topic(broker.bootstrap, topic)
    done = run("append", url(broker, topic), lines=b"small\n" + b"large" * 4_000_000 + b"\n")
    assert done.returncode == 1
    assert re.search(rb"an entry of 20,000,\d+ bytes is larger than topic large-\w+ allows", done.stderr)
    assert b"'largelarge" in done.stderr and len(done.stderr) < 300


def test_an_unavailable_broker_is_reported_after_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urls, "_TIMEOUT_SECONDS", 0.2)
    with (
        pytest.raises(MillstreamError, match=r"gave up waiting for Kafka at 127.0.0.1:1"),
        millstream.log.open("kafka://127.0.0.1:1/documents").appender(),
    ):
        pass


def test_uncommitted_messages_are_not_printed_and_a_tombstone_is_null(broker: SharedBroker) -> None:
    topic = broker.topic("uncommitted")
    create_topic(broker.bootstrap, topic)
    producer = connect_producer(broker.bootstrap, transactional_id=topic)
    producer.init_transactions()
    for value, commit in ((b"kept", True), (b"dropped", False), (None, True)):
        producer.begin_transaction()
        producer.send(topic, value, key=b"key")
        (producer.commit_transaction if commit else producer.abort_transaction)()
    producer.close()
    wait_until_complete(broker.bootstrap, topic)
    assert run("cat", url(broker, topic)).stdout == b"kept\nnull\n"


def test_cat_follows_appended_messages(broker: SharedBroker) -> None:
    topic = broker.topic("followed")
    run("append", url(broker, topic), lines=b"one\n")
    with subprocess.Popen([*COMMAND, "cat", url(broker, topic), "--follow"], stdout=subprocess.PIPE) as cat:
        assert cat.stdout is not None
        assert cat.stdout.readline() == b"one\n"
        run("append", url(broker, topic), lines=b"two\n")
        assert cat.stdout.readline() == b"two\n"
        cat.terminate()


def test_a_missing_topic_is_named_with_the_existing_ones(broker: SharedBroker) -> None:
    topic = broker.topic("there")
    create_topic(broker.bootstrap, topic)
    done = run("cat", url(broker, "absent"))
    assert done.returncode == 1
    assert b"there is no topic absent at" in done.stderr
    assert topic.encode() in done.stderr


def test_a_notebook_reads_records_as_a_pipeline_does(broker: SharedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_log, "FAIL_FAST_SECONDS", HANG_SECONDS)  # the broker is up, and the machine may be busy
    topic = broker.topic("records")
    opened = millstream.log.open(url(broker, topic))
    with opened.appender() as append:
        append([b'{"text": "rain", "label": "weather"}', b"broken"])
    log = opened.log()
    [partition] = log.partitions()
    rows = [row for batch in log.read(partition.name, 0, log.end(partition.name)) for row in batch.to_pylist()]
    log.close()
    assert [(row["text"], row["label"], row["_reject"] is None) for row in rows] == [
        ("rain", "weather", True),
        (None, None, False),
    ]
