"""The writer of a journal: there is one at a time, and its lock."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.journals import payloads, segments

from millstream.errors import AlteredLog, InUse
from millstream.log.journal import Journal
from millstream.log.journal.lock import FolderLock

WRITING = """
import sys
from pathlib import Path
from millstream.log.journal import Journal

with Journal(Path(sys.argv[1])) as journal:
    journal.append(b"theirs")
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has the journal open for writing."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", WRITING, str(tmp_path)], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_and_changes_nothing(tmp_path: Path, writing: subprocess.Popen[bytes]) -> None:
    with segments(tmp_path)[0].open("ab") as segment:
        segment.write(b"half an append")
    (tmp_path / "_making").write_bytes(b"MSJ")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InUse, match=f"is appending to {tmp_path}.*; wait for it, stop it"):
        Journal(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    writing.kill()
    writing.wait()
    with Journal(tmp_path) as journal:
        journal.append(b"ours")
    assert payloads(tmp_path) == [b"theirs", b"ours"]


def test_in_one_process_a_second_writer_is_refused_and_does_not_disturb_the_first(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    first.append(b"before")
    with pytest.raises(InUse, match=f"in this process or another, is appending to {tmp_path}"):
        Journal(tmp_path)
    first.append(b"and on")
    first.close()
    with Journal(tmp_path) as second:
        second.append(b"after")
        for change in (lambda: first.append(b"too late"), first.roll, lambda: first.drop_before(1)):
            with pytest.raises(InUse, match=f"{tmp_path} was closed"):
                change()
        first.close()
        second.append(b"the end")
    assert payloads(tmp_path) == [b"before", b"and on", b"after", b"the end"]


def test_a_lock_is_released_once_by_all_threads_that_release_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, closing, closed = FolderLock(tmp_path), os.close, list[int]()
    others = [threading.Thread(target=lock.release)]

    def close_slowly(file: int) -> None:
        closed.append(file)
        while others:  # another thread releases the lock in the middle of this call
            other = others.pop()
            other.start()
            other.join()
        closing(file)

    monkeypatch.setattr(os, "close", close_slowly)
    lock.release()
    monkeypatch.undo()
    assert len(closed) == 1 and not lock.held


def test_a_journal_is_unlocked_after_its_writer_was_closed_or_failed_to_open_it(tmp_path: Path) -> None:
    Journal(tmp_path).close()
    assert append_in_another_process(tmp_path) == 0
    data = segments(tmp_path)[0].read_bytes()
    segments(tmp_path)[0].write_bytes(b"x" + data[1:])
    with pytest.raises(AlteredLog) as refusal:
        Journal(tmp_path)
    assert refusal.tb is not None
    segments(tmp_path)[0].write_bytes(data)
    assert append_in_another_process(tmp_path) == 0


def append_in_another_process(folder: Path) -> int:
    done = subprocess.run([sys.executable, "-c", WRITING, str(folder)], input=b"", capture_output=True, check=False)
    return done.returncode
