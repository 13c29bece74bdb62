"""The promises of each delivery from topic to topics, with a real broker, on every engine."""

from __future__ import annotations

from collections import Counter

import pytest
from conformance.harness import EPOCHS, Pipeline, sinks_of, write_documents
from conformance.kafka_documents import produce_documents, seen
from conformance.test_deliveries import POINTS, expect
from kafka_broker import SharedBroker

from millstream.engines.job import Engine
from millstream.engines.local.engine import LocalEngine
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def pipeline(
    tmp_path_factory: pytest.TempPathFactory, engine: Engine, engine_name: str, broker: SharedBroker
) -> Pipeline:
    folder = tmp_path_factory.mktemp("pipeline")
    write_documents(folder / "documents")
    topic = broker.topic("documents")
    produce_documents(broker.bootstrap, topic, folder / "documents")
    out = {"type": "kafka", "bootstrap": broker.bootstrap}
    made = Pipeline(
        folder,
        engine,
        model={"type": "sgd", "block": 16},
        engine_name=engine_name,
        source={"type": "kafka", "bootstrap": broker.bootstrap, "topic": topic},
        sinks={name: {**out, "topic": f"{topic}-{{run}}-{name}"} for name in ("predictions", "topics", "rejects")},
    )
    made.run("golden")
    return made


def test_the_same_documents_give_the_same_from_topics_and_from_files(pipeline: Pipeline) -> None:
    files = Pipeline(pipeline.folder, LocalEngine(), model=pipeline.model)
    there, here = files.run("files"), pipeline.summary("golden")
    assert here.epochs == EPOCHS
    assert (here.model, here.state, here.outputs) == (there.model, there.state, there.outputs)


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_exactly_once_from_topic_to_topics(pipeline: Pipeline, point: CrashPoint, broker: SharedBroker) -> None:
    pipeline.delivery, pipeline.save_every = Delivery.EXACTLY_ONCE, 4
    name = f"exactly-{point}".replace("@", "-")
    pipeline.crash(name, point)
    summary, golden = pipeline.run(name), pipeline.summary("golden")
    assert (summary.model, summary.state, summary.outputs) == (golden.model, golden.state, golden.outputs)
    rows = seen(broker.bootstrap, pipeline.sinks["predictions"]["topic"].replace("{run}", name))
    counted = Counter((row["_partition"], row["_offset"]) for row in rows)
    assert len(counted) == golden.delivered["predictions"] and set(counted.values()) == {1}


@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE])
@pytest.mark.parametrize("point", [Point.DELIVER, Point.SAVE])
def test_the_other_deliveries_from_topic_to_topics(pipeline: Pipeline, point: Point, delivery: Delivery) -> None:
    pipeline.delivery, pipeline.save_every = delivery, 4
    pipeline.crash(f"{delivery}-{point}", CrashPoint(point, 5))
    expect(pipeline, f"{delivery}-{point}", [CrashPoint(point, 5)], "golden")


def test_several_crashes_between_engines_leave_every_result_once(pipeline: Pipeline, broker: SharedBroker) -> None:
    pipeline.delivery, pipeline.save_every = Delivery.EXACTLY_ONCE, 1
    other = Pipeline(pipeline.folder, LocalEngine(), model=pipeline.model, source=pipeline.source, sinks=pipeline.sinks)
    pipeline.crash("several", CrashPoint(Point.DELIVER, 2, "predictions"))
    other.crash("several", CrashPoint(Point.DELIVER, 2))
    other.crash("several", CrashPoint(Point.SAVE, 5))
    summary, golden = pipeline.run("several"), pipeline.summary("golden")
    assert (summary.model, summary.state, summary.outputs) == (golden.model, golden.state, golden.outputs)
    assert sinks_of(summary) == sinks_of(golden)
    assert (
        len(seen(broker.bootstrap, pipeline.sinks["topics"]["topic"].replace("{run}", "several")))
        == golden.delivered["topics"]
    )
