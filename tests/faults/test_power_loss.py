"""A loss of power: what is relied on was made durable before, in the order that this needs."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from millstream.log.contracts import OpenContext, Progress
from millstream.log.journal import Journal
from millstream.log.journal.durability import write_whole
from millstream.runs.directory import RunDirectory
from millstream.state.checkpoints import CheckpointStore
from millstream_connectors.files.sink import FilesSink
from millstream_connectors.files.source import FilesSource

ROWS = pa.table({"_offset": [0, 1]})
Done = list[tuple[str, Path]]


class Died(BaseException):
    """The process, right here."""


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> Done:
    """The operations on files and folders from now on: sync, rename (to), unlink, mkdir."""
    found: Done = []

    def watch(name: str, path_of: Callable[..., Any]) -> None:
        real = getattr(os, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            path = Path(path_of(*arguments))
            result = real(*arguments, **options)
            found.append((name.removeprefix("fdata").removeprefix("f"), path))
            return result

        monkeypatch.setattr(os, name, watched)

    for sync in ("fsync", "fdatasync"):
        watch(sync, lambda file: os.readlink(f"/proc/self/fd/{file}"))
    watch("rename", lambda _, target: target)
    watch("unlink", lambda path, **_: path)
    watch("mkdir", lambda path, *_: path)
    return found


def dies(monkeypatch: pytest.MonkeyPatch, where: str, name: str) -> None:
    """Make a call of a module's function end the run."""

    def die(*_: Any) -> None:
        raise Died

    monkeypatch.setattr(f"{where}.{name}", die)


def test_a_part_that_was_closed_without_a_sync_is_made_durable_before_its_rows_leave_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: Done
) -> None:
    index, config = OpenContext(tmp_path, tmp_path), FilesSink(path="out", format="jsonl")
    sink = config.open(index, "predictions", ROWS.schema)
    sink.append(ROWS, Progress("a log", 0))
    with monkeypatch.context() as patched:
        dies(patched, "millstream_connectors.files.sink", "sync_folder")
        with pytest.raises(Died):
            sink.close()
    assert done[-1] == ("rename", tmp_path / "out/part-00000001.jsonl")
    done.clear()
    config.open(index, "predictions", ROWS.schema)
    removed = [path.parent for what, path in done if what == "unlink"].index(tmp_path / "out/_open")
    before = done[: [what for what, _ in done].index("rename") + removed]
    assert ("sync", tmp_path / "out") in before


def test_a_journals_part_that_was_made_without_a_sync_is_made_durable_before_more_is_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: Done
) -> None:
    with monkeypatch.context() as patched:
        dies(patched, "millstream.log.journal.journal", "sync_folder")
        with pytest.raises(Died):
            Journal(tmp_path)
    assert done[-1][0] == "rename"
    done.clear()
    with Journal(tmp_path):
        assert ("sync", tmp_path) in done


def test_folders_are_durable_before_something_is_kept_in_them(tmp_path: Path, done: Done) -> None:
    run = tmp_path / "runs/demo"
    directory = RunDirectory(run)
    directory.lock()
    CheckpointStore(run, {})
    directory.release()
    made = [path for what, path in done if what == "mkdir"]
    assert made == [run.parent, run, run / "checkpoints", run / "layers"]
    for path in made:
        assert ("sync", path.parent) in done[done.index(("mkdir", path)) :]


def test_an_unpacked_file_gets_its_name_once_it_is_durable(tmp_path: Path, done: Done) -> None:
    (tmp_path / "news.jsonl.gz").write_bytes(gzip.compress(b'{"text": "rain"}\n'))
    log = FilesSource(path="news.jsonl.gz").open(OpenContext(tmp_path, tmp_path / "cache"))
    assert log.end("news.jsonl.gz") == 1
    (named,) = (at for at, (what, path) in enumerate(done) if what == "rename" and path.suffix == ".jsonl")
    assert done[named - 1][0] == "sync" and done[named - 1][1].name.startswith(done[named][1].name)


def test_a_file_is_written_whole_then_named_then_its_name_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: Done
) -> None:
    path = tmp_path / "note"
    write_whole(path, "before")
    assert [what for what, _ in done] == ["sync", "rename", "sync"]
    assert done[1:] == [("rename", path), ("sync", tmp_path)]
    dies(monkeypatch, "os", "fsync")
    with pytest.raises(Died):
        write_whole(path, "after")
    assert [(left.name, left.read_text()) for left in tmp_path.iterdir()] == [("note", "before")]
