"""The Kafka sink: every appended row is readable once, together with its whole epoch and the progress."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import ValidationError
from support.conditions import HANG_SECONDS, wait_until
from support.kafka.sink_topic import LOG, OUTPUT, SCHEMA, SinkTopic, epoch, offsets_of, progress, read
from support.kafka.topic_admin import TopicAdmin

from millstream.digests import Digest
from millstream.errors import ConfigError, Contradiction, ForeignSink, InUse, MillstreamError
from millstream.log.formats.rows import json_lines
from millstream_connectors.kafka.client.cluster import Cluster
from millstream_connectors.kafka.client.coordinators import KafkaCoordinators
from millstream_connectors.kafka.client.network import Nodes
from millstream_connectors.kafka.client.transactions import Transactions
from millstream_connectors.kafka.errors import millstream_errors
from millstream_connectors.kafka.output_topic import OutputTopic
from millstream_connectors.kafka.progress import Signature
from millstream_connectors.kafka.sink import KafkaSink

guarded_or_not = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])


@pytest.mark.kafka
@guarded_or_not
def test_appended_rows_are_read_in_order_by_the_run_and_by_others(sink_topic: SinkTopic, guarded: bool) -> None:
    with sink_topic.opened(guarded=guarded) as sink:
        assert sink.progress() is None
        for number in range(5):
            sink.append(epoch(number), progress(number))
            assert sink.progress() == progress(number)
            wanted = offsets_of(*range(number + 1))
            assert read(sink.read())["_offset"].to_pylist() == wanted
            assert sink_topic.read()["_offset"].to_pylist() == wanted
            assert sink_topic.progress() == progress(number)
    assert sink_topic.read().slice(3, 3).equals(epoch(1))
    assert read(sink.read()).num_rows == 15  # `read` is also called after `close`
    with sink_topic.opened(guarded=guarded) as again:
        assert again.progress() == progress(4)
        again.append(epoch(5), progress(5))
    assert sink_topic.offsets() == offsets_of(*range(6))


@pytest.mark.kafka
def test_appended_rows_are_readable_at_once_in_all_of_many_partitions(created: Callable[..., SinkTopic]) -> None:
    sink_topic = dataclasses.replace(created(), options={"partitions": 30})
    with sink_topic.opened() as sink:
        for number in range(3):
            sink.append(epoch(number, 1000), progress(number))
            assert read(sink.read()).num_rows == 1000 * (number + 1)
            assert sink_topic.progress() == progress(number)


@pytest.mark.kafka
def test_a_message_is_the_row_in_json_with_its_identity_as_key(sink_topic: SinkTopic) -> None:
    with sink_topic.opened() as sink:
        sink.append(epoch(7), progress(7))
    messages = sink_topic.messages()
    assert b"".join(message.value + b"\n" for message in messages) == json_lines(epoch(7))
    assert [message.key for message in messages] == [b"news/0/7000", b"news/0/7001", b"news/0/7002"]
    [header] = messages[0].headers
    sums = [0, 0, progress(7).digest]
    assert (header[0], json.loads(header[1])) == ("millstream", ["conformance/predictions", LOG, 7, *sums])


@pytest.mark.kafka
@guarded_or_not
def test_the_progress_has_the_sums_of_all_appended_rows_also_without_the_group(
    sink_topic: SinkTopic, guarded: bool
) -> None:
    with sink_topic.opened(guarded=guarded) as sink:
        for number in range(3):
            total = dataclasses.replace(progress(number), rows=3 * number + 3, digest=str(Digest(3 * number + 3, 7, 9)))
            sink.append(epoch(number), total)
            assert sink.progress() == sink_topic.progress() == total
    if guarded:
        sink_topic.forget_group()
    with sink_topic.opened(guarded=guarded) as again:
        assert again.progress() == total


@pytest.mark.kafka
@guarded_or_not
def test_an_epoch_may_be_repeated_and_a_lower_one_too(sink_topic: SinkTopic, guarded: bool) -> None:
    with sink_topic.opened(guarded=guarded) as sink:
        for number in (3, 4, 4, 1):
            sink.append(epoch(number), progress(number))
            assert sink.progress() == progress(number)
    assert sink_topic.offsets() == offsets_of(3, 4, 4, 1)


@pytest.mark.kafka
@guarded_or_not
def test_epochs_without_rows_send_no_request(
    sink_topic: SinkTopic, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sink_topic.opened(guarded=guarded) as sink:
        with monkeypatch.context() as patched:
            patched.setattr(Nodes, "send", lambda *_: pytest.fail("a request was sent"))
            sink.append(SCHEMA.empty_table(), progress(0))
            assert sink.progress() == progress(0)
        sink.append(epoch(1), progress(1))
        sink.append(SCHEMA.empty_table(), progress(2))
    assert sink_topic.progress() == progress(1)  # the guard knows that epoch 2 has no rows
    with sink_topic.opened(guarded=guarded) as again:
        again.append(epoch(3), progress(3))
    assert sink_topic.offsets() == offsets_of(1, 3)


@pytest.mark.kafka
def test_rows_of_another_epoch_log_are_refused_and_their_run_continues(sink_topic: SinkTopic) -> None:
    with sink_topic.opened() as ours:
        ours.append(epoch(0), progress(0))
        with sink_topic.opened(fenced=False) as other:
            assert other.progress() == progress(0)  # a guard sees that they are foreign, and fences nobody
            with pytest.raises(ForeignSink, match=f"{sink_topic.topic} holds rows of the epoch log an epoch log"):
                other.append(epoch(1), progress(1, "another log"))
        ours.append(epoch(1), progress(1))
    assert sink_topic.offsets() == offsets_of(0, 1)


@pytest.mark.kafka
def test_of_two_copies_of_a_run_the_older_stops_and_every_row_is_written_once(sink_topic: SinkTopic) -> None:
    with sink_topic.opened() as older:
        older.append(epoch(0), progress(0))
        older.append(epoch(1), progress(1))
        with sink_topic.opened(fenced=False) as newer:
            older.append(epoch(2), progress(2))  # opening fences nobody
            assert newer.progress() == progress(1)
            assert newer.fence(0) == progress(2)  # the progress after fencing counts
            for _ in range(2):
                with pytest.raises(InUse, match="another run of pipeline conformance writes predictions to kafka://"):
                    older.append(epoch(3), progress(3))
            newer.append(epoch(3), progress(3))
    assert sink_topic.offsets() == offsets_of(*range(4))


@pytest.mark.kafka
def test_a_commit_without_an_answer_counts_although_another_run_has_fenced_since(sink_topic: SinkTopic) -> None:
    with sink_topic.opened() as sink, sink_topic.opened(fenced=False) as other:
        sink.append(epoch(0), progress(0))
        other.finish(sink.prepare(epoch(1), progress(1)))
        fence(sink_topic)
        sink.commit()
        assert sink.progress() == progress(1)
        with pytest.raises(InUse):
            sink.append(epoch(2), progress(2))
    assert sink_topic.offsets() == offsets_of(0, 1)


@pytest.mark.kafka
@pytest.mark.parametrize("late", [False, True])
def test_a_commit_of_the_previous_run_counts_if_it_comes_before_fencing_and_changes_nothing_after(
    sink_topic: SinkTopic, late: bool
) -> None:
    with sink_topic.opened() as dead, sink_topic.opened(fenced=False) as sink:
        dead.prepare(epoch(0), progress(0))
        assert sink.progress() is None
        if late:  # a dead process's request may arrive so late
            assert sink.fence(0) is None
            with pytest.raises(InUse):
                dead.commit()
            sink.append(epoch(0), progress(0))
        else:
            dead.commit()
            assert sink.fence(0) == progress(0)
    assert sink_topic.offsets() == offsets_of(0)


@pytest.mark.kafka
def test_a_commit_that_fencing_has_prevented_is_not_repeated(sink_topic: SinkTopic) -> None:
    with sink_topic.opened() as sink:
        sink.append(epoch(0), progress(0))
        sink.prepare(epoch(1), progress(1))
        fence(sink_topic)
        with pytest.raises(InUse):
            sink.commit()
    assert sink_topic.offsets() == offsets_of(0)


def fence(sink_topic: SinkTopic) -> None:
    """Fence as another copy of the run, without writing."""
    cluster = Cluster(sink_topic.bootstrap)
    name = sink_topic.id
    Transactions(cluster, KafkaCoordinators(cluster), name=name, group=name, topic=sink_topic.topic).fence()
    cluster.close()


@pytest.mark.kafka
def test_outputs_and_pipelines_may_share_a_topic_and_read_their_own_rows(sink_topic: SinkTopic) -> None:
    neighbour = dataclasses.replace(sink_topic, pipeline="neighbour")
    with sink_topic.opened() as ours, neighbour.opened() as theirs:
        with TopicAdmin(sink_topic.bootstrap).producer() as producer:
            producer.send(sink_topic.topic, b"not even JSON")
        ours.append(epoch(0), progress(0))
        theirs.append(epoch(5), progress(5, "their log"))
        ours.append(epoch(1), progress(1))
        assert read(ours.read())["_offset"].to_pylist() == offsets_of(0, 1)
        assert read(theirs.read())["_offset"].to_pylist() == offsets_of(5)
    assert (sink_topic.progress(), neighbour.progress()) == (progress(1), progress(5, "their log"))
    assert sink_topic.config.progress(sink_topic.context, "topics") is None
    assert read(sink_topic.config.read(sink_topic.context, "topics", SCHEMA)).num_rows == 0


@pytest.mark.kafka
@guarded_or_not
def test_rows_hidden_by_another_producers_transaction_are_waited_for_and_never_skipped(
    sink_topic: SinkTopic, guarded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    found: list[int] = []
    reader = threading.Thread(target=lambda: found.append(sink_topic.read().num_rows))
    with sink_topic.opened(guarded=guarded) as sink:
        sink.append(epoch(0), progress(0))
        with TopicAdmin(sink_topic.bootstrap).open_transaction(sink_topic.topic):
            assert sink_topic.read().num_rows == 3  # the transaction hides no rows yet
            sink.append(epoch(1), progress(1))
            with pytest.raises(MillstreamError, match="an open transaction of another producer hides later messages"):
                read_hastily(sink_topic)
            caplog.clear()
            reader.start()
            wait_until(lambda: f"waiting for topic {sink_topic.topic}" in caplog.text, "the warning")
    reader.join(HANG_SECONDS)
    assert found == [6]


def read_hastily(sink_topic: SinkTopic) -> None:
    """Read rows, with a short timeout only for other producers' transactions."""
    cluster = Cluster(sink_topic.bootstrap, timeout=HANG_SECONDS)
    signature = Signature(sink_topic.pipeline, OUTPUT, sink_topic.topic)
    with millstream_errors(), closing(OutputTopic(cluster, signature, "here", timeout=0.5)) as topic:
        list(topic.rows(SCHEMA))


@pytest.mark.kafka
def test_a_missing_topic_is_created_or_refused(created: Callable[..., SinkTopic]) -> None:
    with pytest.raises(Contradiction, match=r"there is no kafka://.*; create the topic, or set `create: true`"):
        created(create=False).open()
    several = dataclasses.replace(created(), options={"partitions": 3})
    with several.opened() as sink:
        sink.append(epoch(0, 200), progress(0))
        sink.append(epoch(1, 200), progress(1))
    messages = several.messages()
    assert {message.partition for message in messages} == {0, 1, 2}
    assert sorted(several.offsets()) == offsets_of(0, 1, count=200)
    by_partition = sorted(messages, key=lambda message: (message.partition, message.offset))
    wanted = [json.loads(message.value)["_offset"] for message in by_partition]
    assert several.read()["_offset"].to_pylist() == wanted
    assert several.progress() == progress(1)


@pytest.mark.kafka
@guarded_or_not
def test_a_row_larger_than_the_topic_allows_is_named_and_writes_nothing(
    created: Callable[..., SinkTopic], guarded: bool
) -> None:
    sink_topic = created(settings={"max_message_bytes": "2000"})
    with sink_topic.opened(guarded=guarded) as sink:
        sink.append(epoch(0, 100), progress(0))  # in many small batches
        large = epoch(1).to_pydict()
        large["label"][1] = "x" * 3000
        with pytest.raises(
            MillstreamError, match=r"_source news, _partition 0, _offset 1001 takes 3,\d\d\d bytes.*max"
        ):
            sink.append(epoch(1).from_pydict(large, SCHEMA), progress(1))
        if guarded:
            sink.append(epoch(2), progress(2))
            assert sink_topic.offsets() == [*offsets_of(0, count=100), *offsets_of(2)]
    assert sink_topic.progress() == progress(2 if guarded else 1)


@pytest.mark.kafka
def test_a_row_may_have_five_megabytes_if_the_topic_allows(created: Callable[..., SinkTopic]) -> None:
    sink_topic = created(settings={"max_message_bytes": str(10 << 20)})
    with sink_topic.opened() as sink:
        sink.append(epoch(0, label="x" * (5 << 20)), progress(0))
    assert sink_topic.read().equals(epoch(0, label="x" * (5 << 20)))


def test_the_location_is_known_without_a_connection() -> None:
    sink_topic = SinkTopic("one:9092,two:9092", "popular")
    assert sink_topic.config.location(sink_topic.context, "topics") == "kafka://one:9092,two:9092/popular"


def test_mistakes_in_the_options_are_found_without_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH", raising=False)
    security = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "me", "password_env": "NO_SUCH"}
    sink_topic = SinkTopic("here:9092", "topic", options={"security": security})
    [(option, problem)] = sink_topic.config.problems(sink_topic.context)
    assert option == "security" and problem.startswith("password_env: the environment has no variable")
    for wrong in ({"bootstrap": "here"}, {"topic": "no spaces"}, {"partitions": 0}, {"timeout": "2"}):
        with pytest.raises(ValidationError, match=next(iter(wrong))):
            KafkaSink(**{"bootstrap": "here:9092", "topic": "topic", **wrong})


@pytest.mark.kafka
def test_a_sink_that_was_abandoned_or_could_not_be_opened_leaves_no_thread_or_file_open(
    created: Callable[..., SinkTopic],
) -> None:
    sink_topic = created()
    with sink_topic.opened() as sink:
        sink.append(epoch(0), progress(0))
    gc.collect()  # sockets that other tests' clients have left open
    threads, files = set(threading.enumerate()), set(os.listdir("/dev/fd"))
    for guarded in (True, False):
        sink = sink_topic.open(guarded=guarded)
        sink.fence(0)
        sink.append(epoch(1), progress(1))
        if guarded:
            sink.prepare(epoch(2), progress(2))
        sink.abandon()
        sink.abandon()
        assert set(threading.enumerate()) <= threads
    closed = sink_topic.open()
    closed.close()
    closed.abandon()
    away = SinkTopic("127.0.0.1:1", "topic", options={"timeout": "200ms"})
    for wrong in (dataclasses.replace(sink_topic, options={"key": "colour"}), created(create=False), away):
        with pytest.raises(MillstreamError):
            wrong.open()
    assert set(threading.enumerate()) <= threads
    assert set(os.listdir("/dev/fd")) <= files


@pytest.mark.kafka
def test_a_key_that_rows_do_not_have_is_refused(created: Callable[..., SinkTopic]) -> None:
    with pytest.raises(ConfigError, match="no column 'colour'"):
        created(key="colour").open()


@pytest.mark.usefixtures("every_answer")
def test_a_read_only_command_does_not_wait_long_for_a_broker() -> None:
    sink_topic = SinkTopic("127.0.0.1:1", "topic", options={"timeout": "1h"})
    read_only = dataclasses.replace(sink_topic.context, fail_fast=True, folder=Path("."))
    with pytest.raises(
        MillstreamError, match=r"gave up waiting for Kafka at 127.0.0.1:1 after 2 s: .*connection refused"
    ):
        sink_topic.config.progress(read_only, "predictions")
