"""The journal and files sinks keep appended epochs, whole and in order, after a crash at any file operation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from support.conditions import HANG_SECONDS
from support.file_sinks import KINDS, LOG, SCHEMA, at, deliver, epoch, of_epochs, rows

from millstream.digests import Digest
from millstream.errors import ForeignSink
from millstream.log.contracts import Progress, Sink
from millstream.log.formats.rows import json_lines
from millstream.log.journal import Journal, JournalReader
from millstream_connectors.files.sink import FilesSink, PartFiles

every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_appended_rows_are_read_in_order_by_the_run_and_by_others(tmp_path: Path, kind: str) -> None:
    config = KINDS[kind]
    assert rows(config.read(at(tmp_path), "predictions", SCHEMA)).num_rows == 0
    sink = config.open(at(tmp_path), "predictions", SCHEMA)
    assert sink.progress() is None
    for number in range(12):
        sink.append(epoch(number), Progress(LOG, number))
        assert sink.progress() == Progress(LOG, number)
        assert rows(sink.read()).equals(of_epochs(*range(number + 1)))
        assert rows(config.read(at(tmp_path), "predictions", SCHEMA)).equals(of_epochs(*range(number + 1)))
    sink.close()
    again = config.open(at(tmp_path), "predictions", SCHEMA)
    assert again.progress() == Progress(LOG, 11)
    assert rows(again.read()).equals(of_epochs(*range(12)))


@every_kind
def test_an_epoch_may_be_appended_again_and_a_lower_one_too(tmp_path: Path, kind: str) -> None:
    sink = KINDS[kind].open(at(tmp_path), "predictions", SCHEMA)
    for number in (3, 4, 4, 1):
        sink.append(epoch(number), Progress(LOG, number))
    assert sink.progress() == Progress(LOG, 1)
    sink.close()
    again = KINDS[kind].open(at(tmp_path), "predictions", SCHEMA)
    assert again.progress() == Progress(LOG, 1)
    assert rows(again.read()).equals(of_epochs(3, 4, 4, 1))


@every_kind
def test_epochs_without_rows_write_nothing_until_the_sink_is_closed(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = KINDS[kind].open(at(tmp_path), "rejects", SCHEMA)
    sink.append(epoch(0), Progress(LOG, 0))
    with monkeypatch.context() as patched:
        for name in ("pwrite", "fsync", "fdatasync"):
            patched.setattr(os, name, lambda *_: pytest.fail("the sink wrote"))
        for number in range(1, 50):
            sink.append(SCHEMA.empty_table(), Progress(LOG, number))
            assert sink.progress() == Progress(LOG, number)
    assert KINDS[kind].progress(at(tmp_path), "rejects") == Progress(LOG, 0)
    sink.close()
    assert KINDS[kind].open(at(tmp_path), "rejects", SCHEMA).progress() == Progress(LOG, 49)
    assert rows(sink.read()).equals(epoch(0))


@every_kind
def test_the_progress_has_the_sums_of_all_appended_rows(tmp_path: Path, kind: str) -> None:
    sink, config = KINDS[kind].open(at(tmp_path), "predictions", SCHEMA), KINDS[kind]
    for number in range(12):
        progress = Progress(LOG, number, 0, 3 * number + 3, str(Digest(3 * number + 3, number, 7)))
        sink.append(epoch(number), progress)
        assert sink.progress() == config.progress(at(tmp_path), "predictions") == progress
    sink.close()
    assert config.open(at(tmp_path), "predictions", SCHEMA).fence(0) == progress


@every_kind
def test_a_sink_that_never_got_a_row_still_has_its_progress(tmp_path: Path, kind: str) -> None:
    sink = KINDS[kind].open(at(tmp_path), "rejects", SCHEMA)
    sink.append(SCHEMA.empty_table(), Progress(LOG, 0))
    sink.append(SCHEMA.empty_table(), Progress(LOG, 7))
    sink.close()
    again = KINDS[kind].open(at(tmp_path), "rejects", SCHEMA)
    assert again.progress() == Progress(LOG, 7)
    assert rows(again.read()).num_rows == 0


@every_kind
def test_rows_are_not_appended_to_those_of_another_epoch_log(tmp_path: Path, kind: str) -> None:
    sink = KINDS[kind].open(at(tmp_path), "predictions", SCHEMA)
    sink.append(epoch(0), Progress(LOG, 0))
    with pytest.raises(ForeignSink, match="an epoch log"):
        sink.append(epoch(1), Progress("another one", 1))
    assert rows(sink.read()).equals(epoch(0))


@every_kind
def test_clearing_leaves_only_the_files_of_others(tmp_path: Path, kind: str) -> None:
    config = KINDS[kind]
    config.clear(at(tmp_path), "predictions")
    sink = config.open(at(tmp_path), "predictions", SCHEMA)
    for number in range(12):
        sink.append(epoch(number), Progress(LOG, number))
    foreign = ["part-00000099.parquet", "notes.txt", "part-1.parquet"]
    for name in foreign:
        (tmp_path / "out" / name).write_text("mine")
    sink.abandon()
    config.clear(at(tmp_path), "predictions")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(foreign)
    assert rows(config.read(at(tmp_path), "predictions", SCHEMA)).num_rows == 0
    if kind == "journal":
        assert config.open(at(tmp_path), "predictions", SCHEMA).progress() is None


CLEARING = """
import sys
from pathlib import Path
from millstream.log.contracts import OpenContext
from millstream_connectors.files.sink import FilesSink
from millstream_connectors.journal import JournalSink

config = {"files": FilesSink, "journal": JournalSink}[sys.argv[1]](path="out")
config.clear(OpenContext(folder=Path(sys.argv[2]), cache=Path(sys.argv[2])), "predictions")
"""


@every_kind
def test_a_sink_that_another_process_writes_is_not_cleared(tmp_path: Path, kind: str) -> None:
    sink = KINDS[kind].open(at(tmp_path), "predictions", SCHEMA)
    for number in range(12):
        sink.append(epoch(number), Progress(LOG, number))
    command = [sys.executable, "-c", CLEARING, KINDS[kind].type, str(tmp_path)]
    refused = subprocess.run(command, capture_output=True, check=False)
    assert b"is appending to" in refused.stderr
    assert rows(sink.read()).equals(of_epochs(*range(12)))
    sink.close()
    subprocess.run(command, check=True)
    assert list((tmp_path / "out").iterdir()) == []


# Crashes


class Crash(BaseException):
    """The process has died: nothing that it does afterwards reaches the disk."""


OPERATIONS = ("pwrite", "fsync", "fdatasync", "rename", "unlink", "ftruncate", "mkdir")


@contextmanager
def crashing(monkeypatch: pytest.MonkeyPatch, count: int, how: str) -> Iterator[Callable[[], int]]:
    """Die at the `count`th file operation: `before` it, `after` it, or when a write is `half` done."""
    calls = 0

    def dying(real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def operation(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls < count:
                return real(*args, **options)
            if calls == count and how == "after":
                real(*args, **options)
            elif calls == count and how == "half" and name == "pwrite":
                real(args[0], args[1][: len(args[1]) // 2], args[2])
            raise Crash

        return operation

    with monkeypatch.context() as patched:
        for name in OPERATIONS:
            patched.setattr(os, name, dying(getattr(os, name), name))
        yield lambda: calls


@pytest.mark.parametrize("how", ["before", "after", "half"])
@every_kind
def test_after_a_crash_at_any_file_operation_the_rows_are_those_of_the_progress(
    tmp_path: Path, kind: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = KINDS[kind]
    with_rows = [number for number in range(8) if number % 5 != 4]
    survived, count = False, 0
    while not survived:
        count += 1
        context = at(tmp_path / str(count))
        context.folder.mkdir()
        opened: list[Sink] = []
        appended: list[int] = []
        with crashing(monkeypatch, count, how) as calls:
            try:
                opened.append(config.open(context, "predictions", SCHEMA))
                deliver(opened[0], 0, 8, appended)
                survived = True
            except Crash:
                pass
        assert survived or calls() >= count
        for dead in opened:
            dead.abandon()
        read = rows(config.read(context, "predictions", SCHEMA))
        closed = {part: part.read_bytes() for part in context.folder.glob("out/part-*")}
        sink = config.open(context, "predictions", SCHEMA)
        progress = sink.progress()
        last = -1 if progress is None else progress.epoch
        assert last >= max(appended, default=-1)
        expected = of_epochs(*(number for number in with_rows if number <= last))
        assert rows(sink.read()).equals(expected)
        assert read.equals(expected)
        deliver(sink, last + 1, 8, appended)
        assert rows(config.read(context, "predictions", SCHEMA)).equals(of_epochs(*with_rows))
        assert all(part.read_bytes() == contents for part, contents in closed.items())
    assert count > 20


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from support import file_sinks as t

operation, count = sys.argv[4], int(sys.argv[5])
real, calls = getattr(os, operation), 0

def kill(*args, **options):
    global calls
    calls += 1
    if calls == count:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **options)

setattr(os, operation, kill)
t.deliver(t.KINDS[sys.argv[3]].open(t.at(Path(sys.argv[2])), "predictions", t.SCHEMA), 0, 12, [])
"""


@pytest.mark.parametrize(
    ("kind", "operation", "count"),
    [("parquet", "rename", 4), ("jsonl", "unlink", 1), ("journal", "fdatasync", 5), ("parquet", "pwrite", 7)],
)
def test_after_a_kill_the_rows_are_those_of_the_progress(tmp_path: Path, kind: str, operation: str, count: int) -> None:
    here = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", KILLED, here, str(tmp_path), kind, operation, str(count)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    sink = KINDS[kind].open(at(tmp_path), "predictions", SCHEMA)
    progress = sink.progress()
    last = -1 if progress is None else progress.epoch
    assert rows(sink.read()).equals(of_epochs(*(number for number in range(last + 1) if number % 5 != 4)))


# Files


def fill(folder: Path, form: str, epochs: int = 12) -> PartFiles:
    sink = KINDS[form].open(at(folder), "predictions", SCHEMA)
    assert isinstance(sink, PartFiles)
    for number in range(epochs):
        sink.append(epoch(number), Progress(LOG, number))
    return sink


def test_closed_parquet_files_can_be_read_without_millstream(tmp_path: Path) -> None:
    sink = fill(tmp_path, "parquet", 13)
    parts = sorted((tmp_path / "out").glob("part-*.parquet"))
    assert len(parts) >= 2
    closed = pyarrow.dataset.dataset(tmp_path / "out").to_table()
    assert closed.replace_schema_metadata(None).equals(of_epochs(*range(13)).slice(0, closed.num_rows))
    assert 0 < closed.num_rows < 39
    sink.close()
    whole = pd.read_parquet(tmp_path / "out")
    assert whole["_offset"].tolist() == of_epochs(*range(13))["_offset"].to_pylist()
    found = [json.loads(pq.read_metadata(part).metadata[b"millstream"]) for part in sorted(parts)]
    assert all(progress["log"] == LOG for progress in found)
    ends = [pq.read_table(part)["_offset"][-1].as_py() // 10 for part in sorted(parts)]
    assert [progress["epoch"] for progress in found] == ends


def test_closed_json_lines_files_have_the_rows_of_read(tmp_path: Path) -> None:
    fill(tmp_path, "jsonl").close()
    parts = sorted((tmp_path / "out").glob("part-*.jsonl"))
    assert len(parts) > 2
    assert b"".join(part.read_bytes() for part in parts) == json_lines(of_epochs(*range(12)))


def test_a_part_file_is_closed_when_its_first_rows_are_old(tmp_path: Path) -> None:
    now = [0.0]
    config = FilesSink.model_validate({"roll_after": "10m"})
    sink = PartFiles(config, tmp_path / "out", SCHEMA, clock=lambda: now[0])
    sink.append(epoch(0), Progress(LOG, 0))
    now[0] = 599.0
    sink.append(epoch(1), Progress(LOG, 1))
    assert not list((tmp_path / "out").glob("part-*"))
    now[0] = 600.0
    sink.append(SCHEMA.empty_table(), Progress(LOG, 2))
    (part,) = (tmp_path / "out").glob("part-*")
    assert pq.read_table(part).num_rows == 6


def test_by_default_files_are_kept_with_the_run(tmp_path: Path) -> None:
    config = FilesSink()
    assert config.location(at(tmp_path), "topics") == str(tmp_path / "run" / "outputs" / "topics")
    config.open(at(tmp_path), "topics", SCHEMA).close()
    assert (tmp_path / "run" / "outputs" / "topics").is_dir()


def test_part_files_of_others_are_neither_read_nor_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-00000001.parquet").write_text("mine")
    with pytest.raises(ForeignSink, match="has not written"):
        KINDS["parquet"].open(at(tmp_path), "predictions", SCHEMA)
    (tmp_path / "out" / "part-00000001.parquet").unlink()
    fill(tmp_path, "parquet").close()
    following = len(list((tmp_path / "out").glob("part-*"))) + 1
    (tmp_path / "out" / f"part-{following:08d}.parquet").write_text("mine")
    with pytest.raises(ForeignSink, match=f"has not written .*{following:08d}"):
        KINDS["parquet"].open(at(tmp_path), "predictions", SCHEMA)


READING = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from support import file_sinks as t

print("ready", flush=True)
seen = 0
while seen < 150:
    found = t.rows(t.KINDS[sys.argv[3]].read(t.at(Path(sys.argv[2])), "predictions", t.SCHEMA))["_offset"].to_pylist()
    assert found == [number * 10 + row for number in range(len(found) // 3) for row in range(3)], found
    assert len(found) >= seen
    seen = len(found)
"""


@every_kind
def test_a_reader_sees_whole_epochs_in_order_while_a_run_closes_files(tmp_path: Path, kind: str) -> None:
    command = [sys.executable, "-c", READING, str(Path(__file__).parents[1]), str(tmp_path), kind]
    reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    sink = KINDS[kind].open(at(tmp_path), "predictions", SCHEMA)
    for number in range(50):
        sink.append(epoch(number), Progress(LOG, number))
    assert reader.wait(timeout=HANG_SECONDS) == 0
    reader.stdout.close()


# The journal sink


def test_a_journal_sink_is_a_log_of_its_rows_for_others(tmp_path: Path) -> None:
    sink = KINDS["journal"].open(at(tmp_path), "predictions", SCHEMA)
    sink.append(epoch(0), Progress(LOG, 0))
    sink.append(SCHEMA.empty_table(), Progress(LOG, 1))
    sink.append(epoch(2), Progress(LOG, 2))
    with JournalReader(tmp_path / "out") as reader:
        entries = list(reader.read(0))
    assert b"".join(entry.payload + b"\n" for entry in entries) == json_lines(of_epochs(0, 2))
    assert [entry.tag for entry in entries] == [0, 0, 0, 2, 2, 2]


def test_a_journal_that_no_run_has_written_is_not_a_sink(tmp_path: Path) -> None:
    with Journal(tmp_path / "out") as journal:
        journal.append(b"{}")
    with pytest.raises(ForeignSink, match="no run has written"):
        KINDS["journal"].open(at(tmp_path), "predictions", SCHEMA)
