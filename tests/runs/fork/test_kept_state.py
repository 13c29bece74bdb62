"""The steps that keep their state in a fork, and the reasons of those that start over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.documents import sign_documents, write_documents
from support.forked_runs import fork, interrupted
from support.pipelines import Pipeline

from millstream.engines.local.engine import LocalEngine
from millstream.state.checkpoints import CheckpointReader

FIELDS = {name: name for name in ("text", "label", "time", "author")}
FEATURES = {"type": "hashed_text", "name": "features", "dimensions": 256}
CLASSIFY = {"type": "classify", "model": {"type": "complement_nb", "batch_size": 16}}
WINDOW = {"type": "tumbling", "size": "10m", "lateness": "1m"}
POPULARITY = {"type": "popularity", "window": WINDOW, "threshold": 0.3}
FIRST = {"type": "dedupe", "name": "first", "by": "author", "within": "1h"}
JOIN = {"type": "join", "name": "pairs", "from": ["source", "first"], "by": "author", "within": "5m"}


def steps(**changes: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of a graph, with other options in some of them."""
    known: dict[str, dict[str, Any]] = {
        "first": FIRST,
        "pairs": JOIN,
        "features": {**FEATURES, "from": "source"},
        "classify": CLASSIFY,
        "popularity": POPULARITY,
    }
    return [{**step, **changes.get(name, {})} for name, step in known.items()]


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    write_documents(tmp_path / "documents")
    sign_documents(tmp_path / "documents")
    sinks = {"pairs": {"type": "files"}}
    made = Pipeline(tmp_path, LocalEngine(), steps=steps(), source={"fields": FIELDS}, sinks=sinks)
    interrupted(made, "old")
    return made


CHANGES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "nothing": ({}, {}),
    "a threshold": ({"popularity": {"threshold": 0.5}}, {}),
    "options of the model that its counts do not depend on": (
        {"classify": {"model": {"type": "complement_nb", "batch_size": 4, "alpha": 0.5}}},
        {},
    ),
    "another model": (
        {"classify": {"model": {"type": "multinomial_nb", "batch_size": 16}}},
        {"classify": 'model.type was "complement_nb", is "multinomial_nb"'},
    ),
    "other features": (
        {"features": {"dimensions": 512}},
        {"classify": "it learns from step features, which changed: dimensions was 256, is 512"},
    ),
    "another window": (
        {"popularity": {"window": {**WINDOW, "size": "20m"}}},
        {"popularity": 'window.size was "10m", is "20m"'},
    ),
    "another key before a join": (
        {"first": {"by": "label"}},
        {"first": 'by was "author", is "label"', "pairs": "it stores records of step first, which changed"},
    ),
    "a step of another name": (
        {"popularity": {"name": "topics"}},
        {"topics": "the old config has no such step", "popularity": "is dropped: the new config has no such step"},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_step_keeps_its_state_unless_a_change_gives_it_another_meaning(pipeline: Pipeline, change: str) -> None:
    changes, over = CHANGES[change]
    pipeline.steps = steps(**changes)
    made = fork(pipeline, "old", "new")
    reasons = {step.step: step.reason for step in made.steps if not step.kept}
    assert reasons.keys() == over.keys()
    assert all(over[step] in reason for step, reason in reasons.items())
    assert made.checkpoint is not None
    old, new = (CheckpointReader(pipeline.folder / "runs" / name, made.checkpoint) for name in ("old", "new"))
    kept = {step.step for step in made.steps if step.kept} | {"event time"}
    before, after = old.numbered(made.checkpoint).sections, new.numbered(made.checkpoint).sections
    assert after == {step: chain for step, chain in before.items() if step in kept}
    assert pipeline.run("new").ended == "idle"


def test_state_by_key_begins_anew_with_another_number_of_shards(pipeline: Pipeline) -> None:
    loaded = pipeline.config("new")
    loaded["guarantee"]["shards"] = 8
    pipeline.config = lambda name: loaded  # type: ignore[method-assign]
    made = fork(pipeline, "old", "new")
    assert {step.step for step in made.steps if not step.kept} == {"first", "pairs"}
    assert pipeline.run("new").ended == "idle"


def test_a_smaller_mini_batch_learns_the_records_that_wait(pipeline: Pipeline) -> None:
    """With mini-batches of 1, 2, 4, 8 and then 500 records, more wait in the state than the new size."""
    model = {"type": "complement_nb", "batch_size": 500}
    pipeline.steps = steps(classify={"model": model})
    interrupted(pipeline, "large")
    pipeline.steps = steps(classify={"model": {**model, "batch_size": 8}})
    made = fork(pipeline, "large", "small")
    assert all(step.kept for step in made.steps)
    (pipeline.folder / "documents/part9.jsonl").write_text('{"text": "harbour1", "label": "harbour"}\n' * 9)
    summary = pipeline.run("small")
    assert (summary.records, summary.accuracy) == (9, 1.0)
