"""A fork from files with the past to a topic: the model stays, and the topic is read from its start."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.brokers import SharedBroker
from support.documents import write_documents
from support.forked_runs import fork, interrupted
from support.pipelines import Pipeline, results
from support.topics import produce_documents

from millstream.engines.local.engine import LocalEngine
from millstream.errors import ForeignSink
from millstream.guarantees.audit import OutputClass
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point
from millstream.log.epochs import EpochReader

pytestmark = pytest.mark.kafka


def test_history_files_then_a_topic(broker: SharedBroker, tmp_path: Path) -> None:
    write_documents(tmp_path / "documents")
    write_documents(tmp_path / "later", records=48, seed=8)
    topic = broker.topic("later")
    produce_documents(broker.bootstrap, topic, tmp_path / "later")
    kafka = {"type": "kafka", "bootstrap": broker.bootstrap}
    pipeline = Pipeline(tmp_path, LocalEngine(), sinks={})
    interrupted(pipeline, "files")
    learned = pipeline.run("files")
    pipeline.source = {**kafka, "topic": topic}
    pipeline.sinks = {"predictions": {**kafka, "topic": f"{topic}-predictions"}}
    made = fork(pipeline, "files", "topic")
    assert all(step.kept for step in made.steps)
    [source] = made.sources
    assert source.describe().startswith("begins at its start: it is another log (")
    pipeline.crash("topic", CrashPoint(Point.DELIVER, 8))
    summary = pipeline.run("topic")
    assert (summary.records, summary.model != learned.model) == (48, True)
    audit = pipeline.audit("topic")
    assert (audit.state, audit.output) == (OutputClass.PRECISE, OutputClass.PRECISE)
    partitions = EpochReader(tmp_path / "runs/topic/epochs").totals().partitions
    assert {each.source for each in partitions} == {"source@7", "source"}
    with pytest.raises(ForeignSink, match="'predictions' holds rows of another run"):
        fork(pipeline, "topic", "second")
    pipeline.sinks = {}
    second = fork(pipeline, "topic", "second")
    assert all(each.continues for each in second.sources)
    assert results(pipeline.run("second"))[:2] == results(summary)[:2]
