"""Topics that people change while no run looks, and the sentence that the next run prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.brokers import SharedBroker
from support.documents import EPOCH_RECORDS, EPOCHS, write_documents
from support.kafka.clients import connect_admin
from support.pipelines import Pipeline
from support.topics import produce_documents

from millstream.engines.local.engine import LocalEngine
from millstream.errors import Contradiction, ForeignSink

pytestmark = pytest.mark.kafka


@pytest.fixture
def pipeline(tmp_path: Path, broker: SharedBroker) -> Pipeline:
    write_documents(tmp_path / "documents")
    topic = broker.topic("documents")
    produce_documents(broker.bootstrap, topic, tmp_path / "documents")
    kafka = {"type": "kafka", "bootstrap": broker.bootstrap}
    return Pipeline(
        tmp_path,
        LocalEngine(),
        source={**kafka, "topic": topic},
        sinks={"predictions": {**kafka, "topic": f"{topic}-{{run}}"}},
    )


def test_an_output_topic_that_was_deleted_is_not_taken_for_one_that_retention_has_emptied(
    pipeline: Pipeline, broker: SharedBroker
) -> None:
    pipeline.run("run", records=4 * EPOCH_RECORDS)
    admin = connect_admin(broker.bootstrap)
    admin.delete_topics([pipeline.sinks["predictions"]["topic"].replace("{run}", "run")])
    admin.close()
    with pytest.raises(ForeignSink, match="sink 'predictions' got rows from this run"):
        pipeline.run("run")


def test_a_topic_that_was_mistyped_is_mended_in_the_same_run_directory(pipeline: Pipeline) -> None:
    right = pipeline.source
    pipeline.source = {**right, "topic": right["topic"] + "s"}
    with pytest.raises(Contradiction, match=f"did you mean `{right['topic']}`"):
        pipeline.run("run")
    pipeline.source = right
    assert pipeline.run("run").epochs == EPOCHS
