"""Whole pipelines into topics: what a crash, an expiry, a stranger and a second run do to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from conformance.harness import EPOCHS, Pipeline, write_documents
from conformance.test_deliveries import expect
from connectors.kafka.producing import Producing
from connectors.kafka.sinking import Sinking
from kafka_broker import SharedBroker

from millstream.engines.local.engine import LocalEngine
from millstream.errors import ForeignSink
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point
from millstream.runs.summary import Summary

pytestmark = pytest.mark.kafka

RECORDS = 191
"""Of those written, one is broken, and makes no prediction."""


class Run:
    """A pipeline of a name of its own, its predictions in a topic of its own."""

    def __init__(self, folder: Path, broker: SharedBroker, delivery: Delivery = Delivery.EXACTLY_ONCE) -> None:
        self.sinking = Sinking(broker.bootstrap, broker.topic("runs"))
        write_documents(folder / "documents")
        sink = {"type": "kafka", "bootstrap": broker.bootstrap, "topic": self.sinking.topic, "patience": "60s"}
        self.pipeline = Pipeline(folder, LocalEngine(), delivery, sinks={"predictions": sink})

    def crash(self, point: Point, epoch: int, sink: str | None = None, name: str = "run") -> None:
        self.pipeline.crash(name, CrashPoint(point, epoch, sink))

    def rows(self) -> Counter[int]:
        """How often what number of rows is there."""
        return Counter(Counter(message.key for message in self.sinking.messages()).values())

    def golden(self) -> Summary:
        """The same without Kafka, and without a crash."""
        return Pipeline(self.pipeline.folder, LocalEngine(), self.pipeline.delivery).run("golden")


@pytest.fixture
def made(tmp_path: Path, broker: SharedBroker) -> Callable[..., Run]:
    return lambda delivery=Delivery.EXACTLY_ONCE: Run(tmp_path, broker, delivery)


POINTS = [
    (Point.PROCESS, None),
    (Point.DELIVER, "predictions"),
    (Point.DELIVER, None),
    (Point.SAVE, None),
]


def test_crashes_at_every_point_leave_each_prediction_in_the_topic_once(made: Callable[..., Run]) -> None:
    run = made()
    for epoch, (point, sink) in enumerate(POINTS, 1):
        run.crash(point, epoch, sink)
    summary, golden = run.pipeline.run("run"), run.golden()
    assert (summary.model, summary.state, summary.outputs) == (golden.model, golden.state, golden.outputs)
    assert run.rows() == {1: RECORDS}


@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE])
def test_the_other_deliveries_do_what_they_say_and_no_more(made: Callable[..., Run], delivery: Delivery) -> None:
    run = made(delivery)
    points = [CrashPoint(Point.DELIVER, 2), CrashPoint(Point.SAVE, 5)]
    for point in points:
        run.pipeline.crash("run", point)
    run.golden()
    expect(run.pipeline, "run", points, "golden")
    assert set(run.rows()) == ({1, 2} if delivery is Delivery.AT_LEAST_ONCE else {1})


def test_a_group_that_has_expired_repeats_nothing(made: Callable[..., Run]) -> None:
    run = made()
    run.crash(Point.DELIVER, 3)
    run.sinking.forget_group()
    run.pipeline.run("run")
    assert run.rows() == {1: RECORDS}


def test_with_group_and_rows_gone_a_run_is_refused_rather_than_repeated(made: Callable[..., Run]) -> None:
    run = made()
    run.crash(Point.DELIVER, 3)
    run.sinking.forget_group()
    run.sinking.remove_rows()
    with pytest.raises(ForeignSink, match="sink 'predictions' got rows of epoch 0 and others from this run") as raised:
        run.pipeline.run("run")
    assert raised.value.exit_code == 3
    assert run.rows() == {}


def test_another_run_directory_is_refused_and_the_run_that_writes_is_not_disturbed(made: Callable[..., Run]) -> None:
    run = made()
    run.crash(Point.DELIVER, 3)
    with pytest.raises(ForeignSink, match="sink 'predictions' holds rows of another run's epoch log") as raised:
        run.pipeline.run("another")
    assert raised.value.exit_code == 3
    run.pipeline.run("run")
    assert run.rows() == {1: RECORDS}


def test_fresh_starts_over_in_an_empty_topic(made: Callable[..., Run]) -> None:
    run = made()
    run.crash(Point.DELIVER, 3)
    assert run.pipeline.run("run", fresh=True).epochs == EPOCHS
    assert run.rows() == {1: RECORDS}


def test_fresh_deletes_neither_rows_of_another_run_nor_messages_of_others(made: Callable[..., Run]) -> None:
    run = made()
    run.pipeline.run("run")
    with pytest.raises(ForeignSink, match="--fresh deletes no other run's rows"):
        run.pipeline.run("another", fresh=True)
    with Producing(run.sinking.bootstrap).producer() as producer:
        producer.send(run.sinking.topic, b"{}", key=b"theirs")
    with pytest.raises(ForeignSink, match="--fresh deletes no messages of others"):
        run.pipeline.run("run", fresh=True)
    assert run.rows() == {1: RECORDS + 1}
