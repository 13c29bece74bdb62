"""Forks of runs: where they begin, what they refuse, and what a crash of the fork leaves."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.documents import write_documents
from support.forked_runs import CHECKPOINTED, fork, interrupted, processed
from support.pipelines import InjectedCrash, Pipeline, results

import millstream as ms
from millstream.engines.local.engine import LocalEngine
from millstream.errors import AlteredLog, Contradiction, ForeignSink, MillstreamError
from millstream.log.epochs import EpochReader
from millstream.runs.directory import RunDirectory
from millstream.runs.fork import Fork


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    write_documents(tmp_path / "documents")
    made = Pipeline(tmp_path, LocalEngine(), sinks={})
    interrupted(made, "old")
    return made


@pytest.mark.parametrize("at", range(3, 8))
def test_a_fork_costs_the_epochs_after_its_checkpoint_and_no_others(pipeline: Pipeline, at: int) -> None:
    made = fork(pipeline, "old", "new", at=at)
    assert made.epoch == max(epoch for epoch in CHECKPOINTED if epoch <= at)
    assert made.epochs == at - made.epoch
    pipeline.run("new", records=1)  # those that are cut already, and one record more
    assert processed(pipeline, "new") == [*range(made.epoch + 1, at + 1), *([at + 1] if at < 7 else [])]


def test_the_cuts_of_the_old_run_are_those_of_the_fork(pipeline: Pipeline) -> None:
    fork(pipeline, "old", "new", at=6)
    pipeline.epoch_records = 5
    pipeline.run("new")
    old, new = (EpochReader(pipeline.folder / "runs" / name / "epochs") for name in ("old", "new"))
    assert old.id != new.id
    copied = [(epoch.number, epoch.cut, epoch.at) for epoch in new.epochs() if epoch.number <= 6]
    assert copied == [(epoch.number, epoch.cut, epoch.at) for epoch in old.epochs(4) if epoch.number <= 6]
    assert {epoch.size for epoch in new.epochs(7)} == {5, 4}


def test_a_fork_of_a_fork(pipeline: Pipeline) -> None:
    fork(pipeline, "old", "new", at=4)
    pipeline.run("new")
    fork(pipeline, "new", "newest")
    assert results(pipeline.run("newest"))[:2] == results(pipeline.run("old"))[:2]


def test_python_forks_a_run_too(pipeline: Pipeline) -> None:
    config = ms.Config.from_dict(pipeline.config("new"), folder=pipeline.folder)
    run = ms.open_run(pipeline.folder / "runs/old").fork(config, run=pipeline.folder / "runs/new", at=4)
    assert results(pipeline.run("new"))[:2] == results(pipeline.run("old"))[:2]
    assert run.summary is not None


@pytest.mark.parametrize("options", [{}, {"at": 5}, {"from_start": True}])
def test_a_run_that_goes_on_is_forked_at_an_epoch_that_is_durable(pipeline: Pipeline, options: dict[str, Any]) -> None:
    """The lines after the last commit may be lost with the power: no cut of them is in the fork."""
    (pipeline.folder / "documents/part9.jsonl").write_text('{"text": "harbour1", "label": "harbour"}\n' * 99)
    made: list[Fork] = []

    class Forking(LocalEngine):
        def run(self, job: Any) -> None:
            def advance(epochs: Any, take: Callable[..., None] = job.lifecycle.take) -> None:
                take(epochs)
                if not made:
                    made.append(fork(pipeline, "old", "new", **options))

            job.lifecycle.take = advance
            super().run(job)

    pipeline.engine = Forking()
    summary = pipeline.run("old")
    pipeline.engine = LocalEngine()
    [point] = made
    assert point.epoch + point.epochs < EpochReader(pipeline.folder / "runs/old/epochs").totals().next_epoch - 1
    assert results(pipeline.run("new"))[:2] == results(summary)[:2]


REFUSALS: dict[str, tuple[dict[str, Any], type[MillstreamError], str]] = {
    "an epoch before all checkpoints": (
        {"at": 2},
        Contradiction,
        "keeps no checkpoint at or before epoch 2: there are checkpoints after the epochs 3, 7, .* with --from-start",
    ),
    "an epoch that is not there": ({"at": 8}, Contradiction, "has no epoch 8 yet: epoch 7 is the last one"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_epochs_that_cannot_be_forked(pipeline: Pipeline, case: str) -> None:
    options, kind, message = REFUSALS[case]
    with pytest.raises(kind, match=message):
        fork(pipeline, "old", "new", **options)
    assert not (pipeline.folder / "runs/new").exists(), "a refused fork leaves no folder"
    assert results(pipeline.run("new")) == results(pipeline.run("other")), "a start may take the folder"


def test_the_start_of_a_run_whose_base_has_moved(pipeline: Pipeline) -> None:
    pipeline.keep = "1us"
    for name in ("a", "b"):
        (pipeline.folder / f"documents/part{name}.jsonl").write_text('{"text": "harbour1"}\n')
        pipeline.run("old")
    with pytest.raises(Contradiction, match=r"begins after epoch \d, its base, so its first cuts are gone .*`keep`"):
        fork(pipeline, "old", "new", from_start=True)
    with pytest.raises(
        Contradiction, match=r"no checkpoint at or before epoch 0, because it begins after epoch \d, its base"
    ):
        fork(pipeline, "old", "new", at=0)


def test_a_folder_that_holds_a_run_or_anything_else(pipeline: Pipeline) -> None:
    for name, message in (("old", "holds a run"), ("thesis", r"holds chapter1\.txt, which is not a file of a run")):
        (pipeline.folder / "runs" / name).mkdir(exist_ok=True)
        if name == "thesis":
            (pipeline.folder / "runs/thesis/chapter1.txt").touch()
        with pytest.raises(Contradiction, match=message):
            fork(pipeline, "old", name)
    assert results(pipeline.run("old"))


def test_a_sink_with_the_rows_of_the_old_run(pipeline: Pipeline) -> None:
    pipeline.sinks = {"predictions": {"type": "files", "path": "out"}}
    pipeline.run("with-sink")
    with pytest.raises(ForeignSink, match=r"'predictions' holds rows of another run .*give the sink another place"):
        fork(pipeline, "with-sink", "new")
    pipeline.sinks = {"predictions": {"type": "files", "path": "other"}}
    fork(pipeline, "with-sink", "new")
    pipeline.run("new")
    old, pipeline.sinks = pipeline.summary("with-sink"), {"predictions": {"type": "files", "path": "out"}}
    assert pipeline.run("with-sink").outputs == old.outputs


def test_a_log_that_was_altered_since(pipeline: Pipeline) -> None:
    file = pipeline.folder / "documents/part0.jsonl"
    file.write_text(file.read_text().replace("harbour", "herbour", 1))
    with pytest.raises(AlteredLog, match=r"part0\.jsonl was altered since .*/runs/old read it .*put it back"):
        fork(pipeline, "old", "new")


# ------------------------------------------------------------ crashes

EFFECTS = ("rename", "link", "fsync", "fdatasync", "unlink", "pwrite")


class Disk:
    """Counts the effects on the disk, and lets the process die before one of them."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.effects, self.last = 0, -1
        for name in EFFECTS:
            patched.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if self.effects == self.last:
                raise InjectedCrash
            self.effects += 1
            return real(*arguments, **options)

        return call


def test_a_fork_that_dies_at_any_moment_leaves_no_run_or_one_that_works(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    whole = results(pipeline.run("old"))[:2]
    runs, outcomes = pipeline.folder / "runs", []
    for last in range(100):
        disk.effects, disk.last = 0, last
        with suppress(InjectedCrash):
            fork(pipeline, "old", "new", at=5)
        died, disk.last = disk.effects == last, -1
        outcomes.append(RunDirectory(runs / "new").initialized)
        if (runs / "new/forking").exists() and not outcomes[-1]:
            with pytest.raises(Contradiction, match="a fork into it was interrupted: repeat"):
                pipeline.run("new")
        if not outcomes[-1]:
            fork(pipeline, "old", "new", at=5)
        if last % 8 == 0 or outcomes[-1]:
            assert results(pipeline.run("new"))[:2] == whole
        assert sorted(path.name for path in runs.iterdir()) == ["new", "old"]
        shutil.rmtree(runs / "new")
        if not died:
            break
    assert outcomes == sorted(outcomes), "once the folder is a run directory, it stays one"
    assert outcomes.count(False) > 20
    assert outcomes.count(True) > 1


def test_a_fork_that_is_killed(pipeline: Pipeline) -> None:
    """The process ends by SIGKILL when state and cuts are written; the same command then makes the fork."""
    killed = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path;"
        "from support.forked_runs import fork; from support.pipelines import Pipeline;"
        "from millstream.engines.local.engine import LocalEngine;"
        "pipeline = Pipeline(Path(sys.argv[2]), LocalEngine(), sinks={});"
        "fork(pipeline, 'old', 'new', passed=lambda part: part == 'cuts' and os.kill(os.getpid(), signal.SIGKILL))"
    )
    tests = Path(__file__).parents[2]
    ended = subprocess.run([sys.executable, "-c", killed, tests, pipeline.folder], check=False, env={**os.environ})
    assert ended.returncode == -signal.SIGKILL
    assert not RunDirectory(pipeline.folder / "runs/new").initialized
    fork(pipeline, "old", "new")
    assert results(pipeline.run("new"))[:2] == results(pipeline.run("old"))[:2]
