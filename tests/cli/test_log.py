"""`millstream log`, as a user runs it."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from support.command_result import Millstream
from support.conditions import HANG_SECONDS, wait_until

from millstream.log.contracts import Progress
from millstream.log.epochs import EpochLog
from millstream.log.journal import Journal, JournalReader
from millstream_connectors.sink_journal import SinkJournal

COMMAND = [sys.executable, "-c", "from millstream.cli import main; main()", "log"]


def append_lines(url: object, lines: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, "append", str(url)], input=lines, capture_output=True, check=False)


def test_lines_that_were_appended_are_printed_again(tmp_path: Path) -> None:
    done = append_lines(tmp_path / "news", b'{"text": "a"}\r\n\n{"text": "b"}\n{"text": "c"}')
    assert (done.returncode, done.stderr) == (0, b"3 entries appended\n")
    url = f"journal://{tmp_path / 'news'}"
    printed = subprocess.run([*COMMAND, "cat", url], capture_output=True, check=True).stdout
    assert printed == b'{"text": "a"}\n{"text": "b"}\n{"text": "c"}\n'
    part = subprocess.run([*COMMAND, "cat", url, "--from", "1", "--max", "1"], capture_output=True, check=True).stdout
    assert part == b'{"text": "b"}\n'


def test_journals_below_a_folder_are_listed(tmp_path: Path, millstream: Millstream) -> None:
    for name in ("a", "b"):
        with Journal(tmp_path / name) as journal:
            journal.append_many([b"x"] * 3)
    shown = millstream("log", "ls", tmp_path)
    assert shown.code == 0
    first, second = shown.out.splitlines()
    assert first.startswith(f"{tmp_path / 'a'}  entries 0-3 (3), ")
    assert JournalReader(tmp_path / "b").id in second


def test_files_are_imported_plain_gzipped_or_as_parquet(tmp_path: Path, millstream: Millstream) -> None:
    lines = b"".join(b'{"text": "%d"}\n' % number for number in range(50_000))
    (tmp_path / "a.jsonl").write_bytes(lines)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines))
    pq.write_table(pa.table({"text": [str(number) for number in range(50_000)]}), tmp_path / "c.parquet")
    for name in ("a.jsonl", "b.jsonl.gz", "c.parquet"):
        done = millstream("log", "import", tmp_path / name, tmp_path / "all")
        assert (done.code, done.err) == (0, f"50000 entries imported from {tmp_path / name}\n")
    with JournalReader(tmp_path / "all") as reader:
        entries = [entry.payload for entry in reader.read(0)]
    assert entries == lines.split(b"\n")[:-1] * 3


def test_a_truncated_file_is_named_and_its_first_records_are_imported(tmp_path: Path, millstream: Millstream) -> None:
    packed = gzip.compress(os.urandom(3_000_000).hex().encode() + b"\nlast\n")
    (tmp_path / "a.jsonl.gz").write_bytes(packed[:-100])
    done = millstream("log", "import", tmp_path / "a.jsonl.gz", tmp_path / "all")
    assert done.code == 1
    assert "a.jsonl.gz is not a complete .gz file" in done.err


def test_following_prints_entries_that_are_appended_later(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(b"first")
        cat = subprocess.Popen(
            [*COMMAND, "cat", str(tmp_path), "--follow", "--max", "3"], stdout=subprocess.PIPE, bufsize=0
        )
        assert cat.stdout is not None
        assert cat.stdout.readline() == b"first\n"
        journal.append(b"second")
        assert cat.stdout.readline() == b"second\n"
        journal.roll()
        journal.append(b"third")
        assert cat.communicate(timeout=HANG_SECONDS)[0] == b"third\n"
    assert cat.returncode == 0


def test_lines_of_a_pipe_are_appended_as_they_arrive(tmp_path: Path) -> None:
    append = subprocess.Popen([*COMMAND, "append", str(tmp_path)], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert append.stdin is not None
    append.stdin.write(b"one\ntwo\nthr")
    append.stdin.flush()
    wait_until(lambda: any(tmp_path.glob("*.journal")) and JournalReader(tmp_path).end() >= 2, "the first two lines")
    second = append_lines(tmp_path, b"x\n")
    assert second.returncode == 4
    assert b"is appending to " in second.stderr
    assert append.communicate(b"ee\n", timeout=HANG_SECONDS)[1] == b"3 entries appended\n"
    assert [entry.payload for entry in JournalReader(tmp_path).read(0)] == [b"one", b"two", b"three"]


def test_a_wrong_url_is_refused_with_the_reason(tmp_path: Path, millstream: Millstream) -> None:
    for command in ("cat", "ls"):
        nothing = millstream("log", command, tmp_path / "nothing")
        assert nothing.code == 2
        assert f"there is no folder {tmp_path / 'nothing'}: neither a journal nor a run directory" in nothing.err
        assert "append" not in nothing.err
        assert "holds no journal" in millstream("log", command, tmp_path).err
    elsewhere = millstream("log", "ls", "pulsar://somewhere")
    assert elsewhere.code == 2
    assert "journal://" in elsewhere.err
    missing = millstream("log", "import", tmp_path / "no.jsonl", tmp_path / "all")
    assert missing.code == 2
    assert "no.jsonl" in missing.err


def test_a_run_directory_is_no_journal_and_its_epoch_log_is_named(tmp_path: Path, millstream: Millstream) -> None:
    EpochLog(tmp_path / "run/epochs").close()
    (tmp_path / "run/run.json").touch()
    refused = millstream("log", "cat", tmp_path / "run")
    assert refused.code == 2
    assert f"its epoch log is the journal {tmp_path / 'run/epochs'}" in refused.err
    assert str(tmp_path / "run/epochs") in millstream("log", "ls", tmp_path / "run").out


def test_the_journals_of_a_pipeline_are_neither_appended_to_nor_changed(tmp_path: Path) -> None:
    sink = SinkJournal(tmp_path / "sink")
    sink.append([b"row"], Progress("a log", 0))
    sink.close()
    EpochLog(tmp_path / "epochs").close()
    for name in ("sink", "epochs"):
        (tmp_path / name / "_making").write_bytes(b"MSJ")  # only the journal's own writer may remove it
        before = {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        refused = append_lines(tmp_path / name, b"x\n")
        assert refused.returncode == 2
        assert b"is the epoch log or a sink of a pipeline" in refused.stderr
        assert {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} == before


def test_a_reader_of_the_output_may_stop_at_any_time(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append_many([b"x" * 100] * 10_000)
    cat = subprocess.Popen([*COMMAND, "cat", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert cat.stdout is not None
    assert cat.stdout.readline() == b"x" * 100 + b"\n"
    cat.stdout.close()
    assert cat.stderr is not None
    assert cat.stderr.read() == b""
    assert cat.wait(timeout=HANG_SECONDS) == 0
    cat.stderr.close()
