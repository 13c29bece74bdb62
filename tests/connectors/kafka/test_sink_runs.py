"""Pipelines that write to topics, with crashes, expired groups, other producers and a second run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support.brokers import SharedBroker
from support.conditions import HANG_SECONDS
from support.documents import EPOCHS, write_documents
from support.kafka.sink_topic import SinkTopic
from support.kafka.topic_admin import TopicAdmin
from support.pipelines import Pipeline, assert_promise

from millstream.engines.local.engine import LocalEngine
from millstream.errors import ForeignSink
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point
from millstream.runs.summary import Summary

pytestmark = pytest.mark.kafka

RECORDS = 191
"""The records with a prediction: one of those written is invalid."""


class Run:
    """A pipeline whose predictions are in a topic of its own."""

    def __init__(self, folder: Path, broker: SharedBroker, delivery: Delivery = Delivery.EXACTLY_ONCE) -> None:
        self.sink_topic = SinkTopic(broker.bootstrap, broker.topic("runs"))
        write_documents(folder / "documents")
        sink = {
            "type": "kafka",
            "bootstrap": broker.bootstrap,
            "topic": self.sink_topic.topic,
            "timeout": f"{HANG_SECONDS}s",
        }
        self.pipeline = Pipeline(folder, LocalEngine(), delivery, sinks={"predictions": sink})

    def crash(self, point: Point, epoch: int, sink: str | None = None, name: str = "run") -> None:
        self.pipeline.crash(name, CrashPoint(point, epoch, sink))

    def rows(self) -> Counter[int]:
        """The numbers of rows that are in the topic once, twice and so on."""
        return Counter(Counter(message.key for message in self.sink_topic.messages()).values())

    def golden(self) -> Summary:
        """The summary of a run without Kafka and without a crash."""
        return Pipeline(self.pipeline.folder, LocalEngine(), self.pipeline.delivery).run("golden")


@pytest.fixture
def created(tmp_path: Path, broker: SharedBroker) -> Callable[..., Run]:
    return lambda delivery=Delivery.EXACTLY_ONCE: Run(tmp_path, broker, delivery)


POINTS = [
    (Point.PROCESS, None),
    (Point.DELIVER, "predictions"),
    (Point.DELIVER, None),
    (Point.CHECKPOINT, None),
]


def test_after_crashes_at_every_point_each_prediction_is_in_the_topic_once(created: Callable[..., Run]) -> None:
    run = created()
    for epoch, (point, sink) in enumerate(POINTS, 1):
        run.crash(point, epoch, sink)
    summary, golden = run.pipeline.run("run"), run.golden()
    assert (summary.model, summary.state, summary.outputs) == (golden.model, golden.state, golden.outputs)
    assert run.rows() == {1: RECORDS}


@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE])
def test_the_other_deliveries_repeat_or_lose_exactly_the_predicted_rows(
    created: Callable[..., Run], delivery: Delivery
) -> None:
    run = created(delivery)
    points = [CrashPoint(Point.DELIVER, 2), CrashPoint(Point.CHECKPOINT, 5)]
    for point in points:
        run.pipeline.crash("run", point)
    run.golden()
    assert_promise(run.pipeline, "run", points, "golden")
    assert set(run.rows()) == ({1, 2} if delivery is Delivery.AT_LEAST_ONCE else {1})


def test_a_group_that_has_expired_repeats_nothing(created: Callable[..., Run]) -> None:
    run = created()
    run.crash(Point.DELIVER, 3)
    run.sink_topic.forget_group()
    run.pipeline.run("run")
    assert run.rows() == {1: RECORDS}


def test_a_run_whose_group_and_rows_are_gone_is_refused(created: Callable[..., Run]) -> None:
    run = created()
    run.crash(Point.DELIVER, 3)
    run.sink_topic.forget_group()
    run.sink_topic.remove_rows()
    with pytest.raises(ForeignSink, match="sink 'predictions' got rows from this run") as raised:
        run.pipeline.run("run")
    assert raised.value.exit_code == 3
    assert run.rows() == {}


def test_another_run_directory_is_refused_and_does_not_disturb_the_writing_run(created: Callable[..., Run]) -> None:
    run = created()
    run.crash(Point.DELIVER, 3)
    with pytest.raises(ForeignSink, match="sink 'predictions' holds rows of another run's epoch log") as raised:
        run.pipeline.run("another")
    assert raised.value.exit_code == 3
    run.pipeline.run("run")
    assert run.rows() == {1: RECORDS}


def test_fresh_starts_over_in_an_empty_topic(created: Callable[..., Run]) -> None:
    run = created()
    run.crash(Point.DELIVER, 3)
    assert run.pipeline.run("run", fresh=True).epochs == EPOCHS
    assert run.rows() == {1: RECORDS}


def test_fresh_deletes_neither_rows_of_another_run_nor_messages_of_others(created: Callable[..., Run]) -> None:
    run = created()
    run.pipeline.run("run")
    with pytest.raises(ForeignSink, match="--fresh deletes no other run's rows"):
        run.pipeline.run("another", fresh=True)
    with TopicAdmin(run.sink_topic.bootstrap).producer() as producer:
        producer.send(run.sink_topic.topic, b"{}", key=b"theirs")
    with pytest.raises(ForeignSink, match="--fresh deletes no messages of others"):
        run.pipeline.run("run", fresh=True)
    assert run.rows() == {1: RECORDS + 1}
