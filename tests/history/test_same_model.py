"""A model trained on a history is that of the run with the same cuts, for every pipeline of the conformance suite."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.golden import GoldenRuns
from support.histories import HereSession, state_in
from support.suite import GRAPHS, PIPELINES

from millstream.errors import ConfigError
from millstream.history.train import train

REFUSED = {"cycle": "is in a cycle"}
MODELS = {"fork": ["bayes", "batches"], "documents": ["tf_idf", "plain"], "libraries": ["river", "scikit_learn"]}
WITHOUT = {"counts_by_author", "sessions_by_author", "windows_of_all_kinds"}
CHOSEN = {"functions", "keyed_rocksdb", *GRAPHS}
"""The pipelines that stand for the others, unless the whole matrix runs."""


def cases() -> list[object]:
    return [
        pytest.param(name, step, marks=_marks(name))
        for name in PIPELINES
        if name not in WITHOUT and name not in REFUSED
        for step in MODELS.get(name, [None])
    ]


def _marks(name: str) -> list[pytest.MarkDecorator]:
    topics = [pytest.mark.kafka] if PIPELINES[name].topics else []
    return topics if name in CHOSEN else [*topics, pytest.mark.matrix]


@pytest.mark.parametrize(("name", "step"), cases())
def test_the_model_is_that_of_the_run(golden_runs: GoldenRuns, tmp_path: Path, name: str, step: str | None) -> None:
    golden = golden_runs[name]
    run = golden.pipeline.folder / "runs" / golden.run
    loaded = golden.pipeline.loaded(golden.run)
    found = train(loaded, tmp_path / "out", replay=run, step=step, block_records=50, sessions=HereSession)
    assert found.result["same_as_run"]
    assert found.version.digest == state_in(run, step or "classify")
    assert found.result["records"] == golden.summary.records
    if step is None:
        assert found.result["correct"] / found.result["labelled"] == golden.summary.accuracy


@pytest.mark.parametrize("name", REFUSED)
def test_steps_that_are_not_supported_are_refused(golden_runs: GoldenRuns, tmp_path: Path, name: str) -> None:
    loaded = golden_runs[name].pipeline.loaded("golden")
    with pytest.raises(ConfigError, match=REFUSED[name]):
        train(loaded, tmp_path / "out", sessions=HereSession)
    assert not (tmp_path / "out").exists()
