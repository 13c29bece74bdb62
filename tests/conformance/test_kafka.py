"""Pipelines from a topic to topics, with a real broker: the same results as from files, and across engines."""

from __future__ import annotations

import pytest
from support.brokers import SharedBroker
from support.engines import Engines, on_engines
from support.golden import GoldenRuns
from support.pipelines import Pipeline, results, sinks_of
from support.topics import seen

from millstream.engines.local.engine import LocalEngine
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point

pytestmark = pytest.mark.kafka


def test_the_same_documents_give_the_same_results_from_topics_and_from_files(golden_runs: GoldenRuns) -> None:
    golden = golden_runs["topics"]
    files = Pipeline(golden.pipeline.folder, LocalEngine(), model=golden.pipeline.model).run("files")
    assert results(files) == results(golden.summary)


@on_engines("simulated", "local-3", "spark")
def test_after_several_crashes_across_engines_every_row_is_there_once(
    golden_runs: GoldenRuns, engines: Engines, engine_name: str, broker: SharedBroker
) -> None:
    golden = golden_runs["topics"]
    here, other = golden.on(engines, engine_name), golden.pipeline
    name = f"several-{engine_name}"
    here.crash(name, CrashPoint(Point.DELIVER, 2, "predictions"))
    other.crash(name, CrashPoint(Point.DELIVER, 2))
    other.crash(name, CrashPoint(Point.CHECKPOINT, 5))
    summary = here.run(name)
    assert results(summary) == results(golden.summary)
    assert sinks_of(summary) == sinks_of(golden.summary)
    rows = seen(broker.bootstrap, here.sinks["topics"]["topic"].replace("{run}", name))
    assert len(rows) == golden.summary.delivered["topics"]
