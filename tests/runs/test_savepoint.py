"""Savepoints: a checkpoint with a name is kept, and a fork begins there also when the epochs around it are gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.documents import write_documents
from support.forked_runs import fork, processed
from support.pipelines import Pipeline, results

import millstream as ms
from millstream.engines.local.engine import LocalEngine
from millstream.errors import AlteredLog, ConfigError, Contradiction, MillstreamError
from millstream.guarantees.delivery import Delivery
from millstream.log.epochs import EpochReader
from millstream.runs.directory import RunDirectory
from millstream.runs.savepoint import delete_savepoint, make_savepoint
from millstream.state.checkpoints import Checkpoint


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """A run of which only the newest checkpoints and epochs are kept, stopped after its third epoch."""
    write_documents(tmp_path / "documents")
    made = Pipeline(tmp_path, LocalEngine(), sinks={}, keep="1us", epoch_records=8)
    made.run("old", records=24)
    return made


def old(pipeline: Pipeline) -> RunDirectory:
    return RunDirectory.find(pipeline.folder / "runs/old")


def go_on(pipeline: Pipeline) -> None:
    """Go on until the base has passed the first checkpoints."""
    for _ in range(5):
        pipeline.run("old", records=24)


def test_a_savepoint_outlives_the_base_and_a_fork_begins_there(pipeline: Pipeline) -> None:
    made = make_savepoint(old(pipeline), "before-the-change")
    go_on(pipeline)
    assert EpochReader(pipeline.folder / "runs/old/epochs").base.epoch > made.epoch
    assert ms.open_run(pipeline.folder / "runs/old").status().savepoints == {"before-the-change": made.number}
    forked = fork(pipeline, "old", "new", at="before-the-change")
    assert (forked.epoch, forked.checkpoint, forked.epochs) == (made.epoch, made.number, 0)
    whole = pipeline.run("old")
    assert results(pipeline.run("new", records=192 - 24))[:2] == results(whole)[:2]
    assert processed(pipeline, "new")[0] >= made.epoch + 1


def test_a_savepoint_that_is_deleted_is_no_longer_kept(pipeline: Pipeline) -> None:
    made = make_savepoint(old(pipeline), "one")
    go_on(pipeline)
    assert made.number in [each.number for each in checkpoints(pipeline)]
    delete_savepoint(old(pipeline), "one")
    go_on(pipeline)
    assert made.number not in [each.number for each in checkpoints(pipeline)]
    with pytest.raises(MillstreamError, match="has no savepoint 'one'; it has none"):
        fork(pipeline, "old", "new", at="one")


def test_two_names_of_one_checkpoint(pipeline: Pipeline) -> None:
    made = make_savepoint(old(pipeline), "one")
    assert make_savepoint(old(pipeline), "two").number == made.number
    delete_savepoint(old(pipeline), "one")
    go_on(pipeline)
    assert fork(pipeline, "old", "new", at="two").checkpoint == made.number


def test_a_savepoint_of_a_run_that_goes_on(pipeline: Pipeline) -> None:
    """The newest checkpoint may be replaced and dropped while it is pinned."""
    made: list[Checkpoint] = []

    class Pinning(LocalEngine):
        def run(self, job: Any) -> None:
            take = job.lifecycle.take

            def advance(epochs: Any) -> None:
                take(epochs)
                made.append(make_savepoint(old(pipeline), f"at-{len(made)}"))

            job.lifecycle.take = advance
            super().run(job)

    pipeline.delivery = Delivery.AT_LEAST_ONCE  # it has a checkpoint after each epoch
    pipeline.engine = Pinning()
    summary = pipeline.run("old", fresh=True)
    pipeline.engine = LocalEngine()
    assert len({each.number for each in made}) > 1
    for name in ("at-0", f"at-{len(made) - 1}"):
        fork(pipeline, "old", name, at=name)
        assert results(pipeline.run(name))[:2] == results(summary)[:2]


def test_the_refusals(pipeline: Pipeline) -> None:
    make_savepoint(old(pipeline), "one")
    with pytest.raises(Contradiction, match=r"has a savepoint 'one', checkpoint \d; give another name, or delete it"):
        make_savepoint(old(pipeline), "one")
    for name in ("7", "", "../one", "a b", "-"):
        with pytest.raises(ConfigError, match="is no name of a savepoint"):
            make_savepoint(old(pipeline), name)
    with pytest.raises(MillstreamError, match="has no savepoint 'on'; did you mean `one`"):
        fork(pipeline, "old", "new", at="on")
    with pytest.raises(ConfigError, match="leave out one of the two"):
        fork(pipeline, "old", "new", at="one", from_start=True)
    [file] = (pipeline.folder / "runs/old/savepoints").iterdir()
    file.write_text("{")
    with pytest.raises(AlteredLog, match=r"-one\.json was altered: .*; delete the savepoint"):
        fork(pipeline, "old", "new", at="one")


def checkpoints(pipeline: Pipeline) -> list[Checkpoint]:
    return ms.open_run(pipeline.folder / "runs/old").checkpoints()
