"""The Kafka sink: what was appended is there once, whole epochs only, and its mark with it."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from connectors.kafka.producing import Producing
from connectors.kafka.running import eventually
from connectors.kafka.sinking import LOG, SCHEMA, Sinking, epoch, mark, offsets_of, read
from pydantic import ValidationError

from millstream.errors import ConfigError, Contradiction, ForeignSink, InUse, MillstreamError
from millstream.log.formats.rows import json_lines
from millstream_connectors.kafka.cluster import Cluster
from millstream_connectors.kafka.coordinators import Coordinators
from millstream_connectors.kafka.network import Broker
from millstream_connectors.kafka.sink import KafkaSink
from millstream_connectors.kafka.transactions import Transactions

guarded_or_not = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])


@pytest.mark.kafka
@guarded_or_not
def test_what_was_appended_is_read_in_order_by_the_run_and_beside_it(sinking: Sinking, guarded: bool) -> None:
    with sinking.opened(guarded=guarded) as sink:
        assert sink.mark() is None
        for number in range(5):
            sink.append(epoch(number), mark(number))
            assert sink.mark() == mark(number)
            wanted = offsets_of(*range(number + 1))
            assert read(sink.read())["_offset"].to_pylist() == wanted
            assert sinking.read()["_offset"].to_pylist() == wanted
            assert sinking.mark() == mark(number)
    assert sinking.read().slice(3, 3).equals(epoch(1))
    assert read(sink.read()).num_rows == 15  # asked after `close` too
    with sinking.opened(guarded=guarded) as again:
        assert again.mark() == mark(4)
        again.append(epoch(5), mark(5))
    assert sinking.offsets() == offsets_of(*range(6))


@pytest.mark.kafka
def test_what_was_appended_is_there_at_once_in_however_many_partitions(made: Callable[..., Sinking]) -> None:
    sinking = dataclasses.replace(made(), options={"partitions": 30})
    with sinking.opened() as sink:
        for number in range(3):
            sink.append(epoch(number, 1000), mark(number))
            assert read(sink.read()).num_rows == 1000 * (number + 1)
            assert sinking.mark() == mark(number)


@pytest.mark.kafka
def test_a_message_is_the_row_in_json_with_its_identity_as_key(sinking: Sinking) -> None:
    with sinking.opened() as sink:
        sink.append(epoch(7), mark(7))
    messages = sinking.messages()
    assert b"".join(message.value + b"\n" for message in messages) == json_lines(epoch(7))
    assert [message.key for message in messages] == [b"news/0/7000", b"news/0/7001", b"news/0/7002"]
    [header] = messages[0].headers
    assert (header[0], json.loads(header[1])) == ("millstream", ["conformance/predictions", LOG, 7])


@pytest.mark.kafka
@guarded_or_not
def test_an_epoch_may_come_again_and_a_lower_one_too(sinking: Sinking, guarded: bool) -> None:
    with sinking.opened(guarded=guarded) as sink:
        for number in (3, 4, 4, 1):
            sink.append(epoch(number), mark(number))
            assert sink.mark() == mark(number)
    assert sinking.offsets() == offsets_of(3, 4, 4, 1)


@pytest.mark.kafka
@guarded_or_not
def test_epochs_without_rows_ask_the_brokers_nothing(
    sinking: Sinking, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sinking.opened(guarded=guarded) as sink:
        with monkeypatch.context() as patched:
            patched.setattr(Broker, "send", lambda *_: pytest.fail("asked"))
            sink.append(SCHEMA.empty_table(), mark(0))
            assert sink.mark() == mark(0)
        sink.append(epoch(1), mark(1))
        sink.append(SCHEMA.empty_table(), mark(2))
    assert sinking.mark() == mark(1)  # the guard knows that epoch 2 had no rows
    with sinking.opened(guarded=guarded) as again:
        again.append(epoch(3), mark(3))
    assert sinking.offsets() == offsets_of(1, 3)


@pytest.mark.kafka
def test_rows_of_another_epoch_log_are_not_added_to_and_their_run_goes_on(sinking: Sinking) -> None:
    with sinking.opened() as ours, sinking.opened() as early:
        ours.append(epoch(0), mark(0))
        with sinking.opened() as late:
            for other in (late, early):  # `early` was opened when there were no rows yet
                with pytest.raises(ForeignSink, match=f"{sinking.topic} holds rows of the epoch log an epoch log"):
                    other.append(epoch(1), mark(1, "another log"))
        ours.append(epoch(1), mark(1))
    assert sinking.offsets() == offsets_of(0, 1)


@pytest.mark.kafka
def test_of_two_copies_of_a_run_the_older_stops_and_every_row_is_there_once(sinking: Sinking) -> None:
    with sinking.opened() as older:
        older.append(epoch(0), mark(0))
        older.append(epoch(1), mark(1))
        with sinking.opened() as newer:
            assert newer.mark() == mark(1)
            older.append(epoch(2), mark(2))  # nobody is shut out before rows come
            with pytest.raises(
                InUse, match="had rows up to epoch 1 when this run was started, and has rows up to epoch 2 now"
            ):
                newer.append(epoch(2), mark(2))
            older.append(epoch(3), mark(3))  # which that has not disturbed
        with sinking.opened() as newer:
            newer.append(epoch(4), mark(4))
            for _ in range(2):
                with pytest.raises(InUse, match="another run of pipeline conformance writes predictions to kafka://"):
                    older.append(epoch(4), mark(4))
            newer.append(epoch(5), mark(5))
    assert sinking.offsets() == offsets_of(*range(6))


@pytest.mark.kafka
def test_a_commit_that_was_done_unheard_counts_though_another_has_fenced_since(sinking: Sinking) -> None:
    with sinking.opened() as sink, sinking.opened() as other:
        sink.append(epoch(0), mark(0))
        other.finish(sink.prepare(epoch(1), mark(1)))
        fencing(sinking)
        sink.commit()
        assert sink.mark() == mark(1)
        with pytest.raises(InUse):
            sink.append(epoch(2), mark(2))
    assert sinking.offsets() == offsets_of(0, 1)


@pytest.mark.kafka
def test_a_commit_of_the_run_before_that_is_done_only_after_this_start_has_looked_stops_it_with_the_reason(
    sinking: Sinking,
) -> None:
    with sinking.opened() as dead:
        dead.prepare(epoch(0), mark(0))
        with sinking.opened() as sink:
            assert sink.mark() is None
            dead.commit()  # the request of a process that has died may be on its way for so long
            with pytest.raises(InUse, match=r"last transaction of the one before was completed only then.*start"):
                sink.append(epoch(0), mark(0))
    with sinking.opened() as again:
        assert again.mark() == mark(0)
    assert sinking.offsets() == offsets_of(0)


@pytest.mark.kafka
def test_a_commit_that_another_has_prevented_is_not_made_up_for(sinking: Sinking) -> None:
    with sinking.opened() as sink:
        sink.append(epoch(0), mark(0))
        sink.prepare(epoch(1), mark(1))
        fencing(sinking)
        with pytest.raises(InUse):
            sink.commit()
    assert sinking.offsets() == offsets_of(0)


@pytest.mark.kafka
def test_who_writes_between_the_look_and_the_fence_is_noticed(
    sinking: Sinking, monkeypatch: pytest.MonkeyPatch
) -> None:
    fence = Transactions.fence
    with sinking.opened() as sink, sinking.opened() as other:

        def late(transactions: Transactions) -> None:
            monkeypatch.setattr(Transactions, "fence", fence)
            other.append(epoch(0), mark(0))
            fence(transactions)

        monkeypatch.setattr(Transactions, "fence", late)
        with pytest.raises(InUse, match="had no rows when this run was started, and has rows up to epoch 0 now"):
            sink.append(epoch(0), mark(0))
    assert sinking.offsets() == offsets_of(0)


def fencing(sinking: Sinking) -> None:
    """Another copy takes over, and writes nothing."""
    cluster = Cluster(sinking.bootstrap)
    name = sinking.id
    Transactions(cluster, Coordinators(cluster), name=name, group=name, topic=sinking.topic).fence()
    cluster.close()


@pytest.mark.kafka
def test_outputs_and_pipelines_share_a_topic_and_read_their_own(sinking: Sinking) -> None:
    neighbour = dataclasses.replace(sinking, pipeline="neighbour")
    with sinking.opened() as ours, neighbour.opened() as theirs:
        with Producing(sinking.bootstrap).producer() as producer:
            producer.send(sinking.topic, b"not even JSON")
        ours.append(epoch(0), mark(0))
        theirs.append(epoch(5), mark(5, "their log"))
        ours.append(epoch(1), mark(1))
        assert read(ours.read())["_offset"].to_pylist() == offsets_of(0, 1)
        assert read(theirs.read())["_offset"].to_pylist() == offsets_of(5)
    assert (sinking.mark(), neighbour.mark()) == (mark(1), mark(5, "their log"))
    assert sinking.config.mark(sinking.place, "topics") is None
    assert read(sinking.config.read(sinking.place, "topics", SCHEMA)).num_rows == 0


@pytest.mark.kafka
@guarded_or_not
def test_rows_that_a_transaction_of_somebody_else_hides_are_waited_for_and_never_left_out(
    sinking: Sinking, guarded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    hasty = dataclasses.replace(sinking, options={"patience": "2s"})
    found: list[int] = []
    reader = threading.Thread(target=lambda: found.append(sinking.read().num_rows))
    with sinking.opened(guarded=guarded) as sink:
        sink.append(epoch(0), mark(0))
        with Producing(sinking.bootstrap).open_transaction(sinking.topic):
            assert sinking.read().num_rows == 3  # it hides none yet
            sink.append(epoch(1), mark(1))
            with pytest.raises(MillstreamError, match="a transaction of another producer is open there, and hides"):
                hasty.read()
            reader.start()
            eventually(lambda: "waiting for the end of topic" in caplog.text, "the word that somebody is waited for")
    reader.join(60)
    assert found == [6]


@pytest.mark.kafka
def test_a_topic_that_is_not_there_is_made_or_refused(made: Callable[..., Sinking]) -> None:
    with pytest.raises(Contradiction, match=r"there is no kafka://.*; make the topic, or say `create: true`"):
        made(create=False).open()
    several = dataclasses.replace(made(), options={"partitions": 3})
    with several.opened() as sink:
        sink.append(epoch(0, 200), mark(0))
        sink.append(epoch(1, 200), mark(1))
    messages = several.messages()
    assert {message.partition for message in messages} == {0, 1, 2}
    assert sorted(several.offsets()) == offsets_of(0, 1, count=200)
    by_partition = sorted(messages, key=lambda message: (message.partition, message.offset))
    wanted = [json.loads(message.value)["_offset"] for message in by_partition]
    assert several.read()["_offset"].to_pylist() == wanted
    assert several.mark() == mark(1)


@pytest.mark.kafka
@guarded_or_not
def test_a_row_larger_than_the_topic_allows_is_named_and_leaves_nothing_behind(
    made: Callable[..., Sinking], guarded: bool
) -> None:
    sinking = made(settings={"max_message_bytes": "2000"})
    with sinking.opened(guarded=guarded) as sink:
        sink.append(epoch(0, 100), mark(0))  # in many small batches
        large = epoch(1).to_pydict()
        large["label"][1] = "x" * 3000
        with pytest.raises(
            MillstreamError, match=r"_source news, _partition 0, _offset 1001 takes 3,\d\d\d bytes.*max"
        ):
            sink.append(epoch(1).from_pydict(large, SCHEMA), mark(1))
        if guarded:
            sink.append(epoch(2), mark(2))
            assert sinking.offsets() == [*offsets_of(0, count=100), *offsets_of(2)]
    assert sinking.mark() == mark(2 if guarded else 1)


@pytest.mark.kafka
def test_a_row_of_five_megabytes_is_the_brokers_to_allow(made: Callable[..., Sinking]) -> None:
    sinking = made(settings={"max_message_bytes": str(10 << 20)})
    with sinking.opened() as sink:
        sink.append(epoch(0, label="x" * (5 << 20)), mark(0))
    assert sinking.read().equals(epoch(0, label="x" * (5 << 20)))


def test_where_it_lies_is_told_without_asking() -> None:
    sinking = Sinking("one:9092,two:9092", "popular")
    assert sinking.config.location(sinking.place, "topics") == "kafka://one:9092,two:9092/popular"


def test_what_is_wrong_with_the_options_is_found_without_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH", raising=False)
    security = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "me", "password_env": "NO_SUCH"}
    sinking = Sinking("here:9092", "topic", options={"security": security})
    [(option, problem)] = sinking.config.problems(sinking.place)
    assert option == "security" and problem.startswith("password_env: the environment has no variable")
    for wrong in ({"bootstrap": "here"}, {"topic": "no spaces"}, {"partitions": 0}, {"patience": "2"}):
        with pytest.raises(ValidationError, match=next(iter(wrong))):
            KafkaSink(**{"bootstrap": "here:9092", "topic": "topic", **wrong})


@pytest.mark.kafka
def test_nothing_is_left_of_a_sink_that_was_abandoned_or_could_not_be_opened(made: Callable[..., Sinking]) -> None:
    sinking = made()
    with sinking.opened() as sink:
        sink.append(epoch(0), mark(0))
    threads, files = threading.enumerate(), sorted(os.listdir("/dev/fd"))
    for guarded in (True, False):
        sink = sinking.open(guarded=guarded)
        sink.append(epoch(1), mark(1))
        if guarded:
            sink.prepare(epoch(2), mark(2))
        sink.abandon()
        sink.abandon()
        assert threading.enumerate() == threads
    closed = sinking.open()
    closed.close()
    closed.abandon()
    away = Sinking("127.0.0.1:1", "topic", options={"patience": "200ms"})
    for wrong in (dataclasses.replace(sinking, options={"key": "colour"}), made(create=False), away):
        with pytest.raises(MillstreamError):
            wrong.open()
    assert threading.enumerate() == threads
    assert sorted(os.listdir("/dev/fd")) == files


@pytest.mark.kafka
def test_a_key_that_rows_do_not_have_is_refused(made: Callable[..., Sinking]) -> None:
    with pytest.raises(ConfigError, match="no column 'colour'"):
        made(key="colour").open()


def test_a_broker_that_is_away_is_not_waited_for_in_a_hurry() -> None:
    sinking = Sinking("127.0.0.1:1", "topic", options={"patience": "1h"})
    hurried = dataclasses.replace(sinking.place, hurry=True, base=Path("."))
    with pytest.raises(MillstreamError, match=r"waited for in vain for 2 s: .*connection refused"):
        sinking.config.mark(hurried, "predictions")
