"""`--fresh` starts over, and deletes only rows that runs in the same directory wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.documents import write_documents
from support.pipelines import InjectedCrash, Pipeline

import millstream as ms
from millstream.engines.local.engine import LocalEngine
from millstream.errors import ConfigError, Contradiction, ForeignSink
from millstream.log.journal import Journal
from millstream.runs.directory import RunDirectory


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    write_documents(tmp_path / "documents")
    sinks = {"predictions": {"type": "files", "path": "out"}, "topics": {"type": "journal", "path": "topics"}}
    return Pipeline(tmp_path, LocalEngine(), sinks=sinks)


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("sink", ["predictions", "topics"])
def test_rows_of_another_run_are_not_deleted_and_nothing_is_archived(pipeline: Pipeline, sink: str) -> None:
    everything, pipeline.sinks = pipeline.sinks, {}
    pipeline.run("two")
    pipeline.sinks = {sink: everything[sink]}
    pipeline.run("one")
    before = contents(pipeline.folder)
    with pytest.raises(
        ForeignSink,
        match=f"sink '{sink}' holds rows of another run's epoch log .*, not of .*two: .*move these rows away",
    ):
        pipeline.run("two", fresh=True)
    after = contents(pipeline.folder)
    assert after == before
    assert not (pipeline.folder / "runs/two.1").exists()


def test_a_journal_that_no_run_wrote_is_not_deleted(pipeline: Pipeline) -> None:
    with Journal(pipeline.folder / "topics") as journal:
        journal.append(b'{"text": "somebody\'s only copy"}')
    before = contents(pipeline.folder / "topics")
    with pytest.raises(ForeignSink, match="no run has written"):
        pipeline.run("run", fresh=True)
    assert contents(pipeline.folder / "topics") == before


def test_the_rows_of_the_same_run_are_deleted(pipeline: Pipeline) -> None:
    first = pipeline.run("run")
    assert pipeline.run("run", fresh=True).outputs == first.outputs
    assert pipeline.run("run", fresh=True).delivered == first.delivered


def test_a_fresh_start_that_died_before_it_cleared_the_sinks_is_completed_by_the_next(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = pipeline.run("run")
    archive = RunDirectory.archive

    def archive_and_crash(directory: RunDirectory) -> None:
        archive(directory)
        raise InjectedCrash

    with monkeypatch.context() as patched:
        patched.setattr(RunDirectory, "archive", archive_and_crash)
        with pytest.raises(InjectedCrash):
            pipeline.run("run", fresh=True)
    with pytest.raises(ForeignSink, match="another run's epoch log"):
        pipeline.run("run")  # without --fresh: a new epoch log
    assert pipeline.run("run", fresh=True).outputs == first.outputs


def test_a_run_with_the_name_of_an_archive_keeps_its_rows(pipeline: Pipeline) -> None:
    pipeline.run("run.1")
    with pytest.raises(ForeignSink, match="--fresh deletes no other run's rows"):
        pipeline.run("run", fresh=True)


def test_a_run_with_a_damaged_epoch_log_can_start_over(pipeline: Pipeline) -> None:
    pipeline.sinks = {"predictions": {"type": "files"}}
    first = pipeline.run("run")
    [segment] = (pipeline.folder / "runs/run/epochs").glob("*.journal")
    segment.write_bytes(b"not a journal")
    assert pipeline.run("run", fresh=True).outputs == first.outputs


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("files", [("thesis.txt",), ("thesis.txt", "run.json"), ("outputs/a", "thesis.txt")])
def test_a_folder_that_is_no_run_directory_stays_as_it_is(
    pipeline: Pipeline, fresh: bool, files: tuple[str, ...]
) -> None:
    folder = pipeline.folder / "runs/project"
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text('{"scripts": {}}')
    with pytest.raises(Contradiction, match=r"project holds thesis\.txt, which is not a file of a run"):
        pipeline.run("project", fresh=fresh)
    found = [str(path.relative_to(folder.parent)) for path in folder.parent.rglob("*") if path.is_file()]
    assert sorted(found) == sorted(f"project/{name}" for name in files)


@pytest.mark.parametrize("there", [".", "..", "documents/..", "../.."])
def test_the_current_folder_and_its_parents_are_not_moved(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    (pipeline.folder / "a/b/documents").mkdir(parents=True)
    monkeypatch.chdir(pipeline.folder / "a/b")
    for run in (there, Path(there).resolve()):
        with pytest.raises(ConfigError, match="is the current folder or holds it; give another `run`"):
            ms.run(pipeline.config("run"), run=run, fresh=True)
    assert [path.name for path in pipeline.folder.rglob("lock")] == []


def test_a_run_directory_may_have_a_path_with_dots(pipeline: Pipeline) -> None:
    first = pipeline.run("run")
    assert pipeline.run("run/epochs/..", fresh=True).outputs == first.outputs
    assert sorted(path.name for path in (pipeline.folder / "runs").iterdir()) == ["run", "run.1"]
