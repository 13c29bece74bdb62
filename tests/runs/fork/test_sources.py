"""Forks with other sources: positions carry over only to the same log, and no model is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.documents import write_documents
from support.engines import Engines
from support.forked_runs import fork, interrupted
from support.pipelines import Pipeline, results

from millstream.engines.local.engine import LocalEngine
from millstream.errors import Contradiction
from millstream.guarantees.audit import OutputClass
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point
from millstream.log.epochs import EpochReader

TWO = {"first": {"type": "files", "path": "documents"}, "second": {"type": "files", "path": "more"}}
THIRD = {"type": "files", "path": "third"}


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    write_documents(tmp_path / "documents", records=96)
    write_documents(tmp_path / "more", records=96, seed=4)
    write_documents(tmp_path / "third", files=1, records=48, seed=5)
    made = Pipeline(tmp_path, LocalEngine(), sinks={}, sources=TWO)
    interrupted(made, "old")
    return made


CHANGES: dict[str, tuple[dict[str, Any], dict[str, str], int]] = {
    "one is added": (
        {**TWO, "third": THIRD},
        {"third": "begins at its start: the old config has no such source"},
        48,
    ),
    "one leaves": ({"first": TWO["first"]}, {"second": "is dropped: the new config has no such source"}, 0),
    "one is another log": (
        {**TWO, "second": THIRD},
        {"second": 'begins at its start: it is another log (path was "more", is "third")'},
        48,
    ),
    "all are others": ({"other": THIRD}, {"first": "is dropped", "second": "is dropped", "other": "begins"}, 48),
}


@pytest.mark.parametrize("workers", ["local", "local-3"])
@pytest.mark.parametrize("change", CHANGES)
def test_the_model_stays_when_sources_change(pipeline: Pipeline, change: str, workers: str) -> None:
    sources, described, records = CHANGES[change]
    pipeline.sources, pipeline.engine_name = sources, workers
    made = fork(pipeline, "old", "new")
    assert all(step.kept for step in made.steps)
    found = {source.source: source.describe() for source in made.sources if not source.continues}
    assert found.keys() == described.keys()
    assert all(found[source].startswith(text) for source, text in described.items())
    if records:
        pipeline.crash("new", CrashPoint(Point.DELIVER, 9))
    assert pipeline.run("new").records == records
    assert pipeline.run("new").records == records, "a second start finds nothing new"
    audit = pipeline.audit("new")
    assert (audit.state, audit.output) == (OutputClass.PRECISE, OutputClass.PRECISE)


def test_a_source_that_left_does_not_hold_the_watermark(pipeline: Pipeline) -> None:
    """Its last records are older than those of the other source, so only its end lets the windows close."""
    pipeline.sources = {name: {**source, "idle": None} for name, source in TWO.items()}
    interrupted(pipeline, "waiting")
    late = [{"text": "harbour1", "label": "harbour", "time": 1_700_900_000 + number} for number in range(9)]
    for path in (pipeline.folder / "documents").iterdir():
        path.write_text(path.read_text() + "".join(json.dumps(each) + "\n" for each in late))
    pipeline.sources = {"first": pipeline.sources["first"]}
    fork(pipeline, "waiting", "new")
    pipeline.run("new")
    totals = EpochReader(pipeline.folder / "runs/new/epochs").totals()
    assert totals.ended >= {rank for rank, each in enumerate(totals.partitions) if each.source == "second@7"}
    assert totals.held_by is not None
    assert totals.partitions[totals.held_by].source == "first"


def test_the_records_of_another_log_that_no_checkpoint_has_are_reported(pipeline: Pipeline) -> None:
    pipeline.sources = {**TWO, "second": THIRD}
    made = fork(pipeline, "old", "new", at=6)
    assert [source.unread for source in made.sources] == [0, 36]
    assert (made.epochs, made.records) == (3, 36)
    assert pipeline.run("new").records == 12 + 36 + 48


def test_the_cuts_of_a_run_cannot_be_replayed_from_the_start_with_another_log(pipeline: Pipeline) -> None:
    pipeline.sources = {**TWO, "second": THIRD}
    with pytest.raises(
        Contradiction, match=r"cannot be replayed from the start without its source 'second': .*path was"
    ):
        fork(pipeline, "old", "new", from_start=True)


def test_an_option_that_names_the_same_log_in_another_way_keeps_the_positions(pipeline: Pipeline) -> None:
    pipeline.sources = {"first": {**TWO["first"], "ahead": "2d"}, "second": {**TWO["second"], "path": "./more/*.jsonl"}}
    made = fork(pipeline, "old", "new", at=5)
    assert all(source.continues for source in made.sources)
    assert results(pipeline.run("new"))[:2] == results(Pipeline.run(pipeline_of_old(pipeline), "old"))[:2]


def pipeline_of_old(pipeline: Pipeline) -> Pipeline:
    return Pipeline(pipeline.folder, LocalEngine(), sinks={}, sources=TWO, checkpoint_every=4)


def test_the_engines_are_the_same(pipeline: Pipeline) -> None:
    engines = Engines()
    pipeline.sources = {**TWO, "second": THIRD}
    made = []
    for name in ("local", "local-3"):
        pipeline.engine, pipeline.engine_name = engines[name], name
        fork(pipeline, "old", name, at=5)
        made.append(results(pipeline.run(name)))
    assert made[0] == made[1]
