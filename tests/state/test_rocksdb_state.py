"""Values in RocksDB: their folder belongs to one process, and is deleted when the process ends."""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millstream.state.rocksdb_state import in_rocksdb

PROGRAM = """
import sys
from millstream.state.rocksdb_state import in_rocksdb
values = in_rocksdb(1)[0]
values.put("ann", b"1")
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of this test and of the processes that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def other_process() -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has values in RocksDB until its input ends."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def test_no_folder_is_made_before_the_first_value(folder: Path) -> None:
    values = in_rocksdb(1)[0]
    assert (values.get("ann"), list(values.entries())) == (None, [])
    values.put_all({})
    assert list(folder.iterdir()) == []


def test_the_folder_is_deleted_with_the_values(folder: Path) -> None:
    values = in_rocksdb(1)[0]
    values.put("ann", b"1")
    assert len(list(folder.iterdir())) == 1
    del values
    gc.collect()
    assert list(folder.iterdir()) == []


def test_the_folder_is_deleted_when_its_process_ends(folder: Path) -> None:
    with other_process() as process:
        assert len(list(folder.iterdir())) == 1
        process.communicate()
        assert process.returncode == 0
    assert list(folder.iterdir()) == []


def test_the_folder_of_a_killed_process_is_deleted_and_a_folder_in_use_is_not(folder: Path) -> None:
    with other_process() as process:
        used = list(folder.iterdir())
        mine = in_rocksdb(1)[0]
        mine.put("bob", b"1")
        assert used[0].exists() and len(list(folder.iterdir())) == 2
        process.kill()
        process.wait()
        other = in_rocksdb(1)[0]
        other.put("cleo", b"1")
        assert not used[0].exists() and len(list(folder.iterdir())) == 2
    assert mine.get("bob") == b"1" and mine.get("ann") is None


def test_entries_are_those_at_the_time_of_the_call() -> None:
    values = in_rocksdb(1)[0]
    values.put_all({f"key {number}": b"%d" % number for number in range(5)})
    entries = values.entries()
    values.put_all({"key 3": None, "key 4": b"changed", "key 5": b"new"})
    assert list(entries) == [(f"key {number}", b"%d" % number) for number in range(5)]
    assert dict(values.in_order()) == {
        "key 0": b"0",
        "key 1": b"1",
        "key 2": b"2",
        "key 4": b"changed",
        "key 5": b"new",
    }


def test_keys_are_in_the_order_of_their_text() -> None:
    values = in_rocksdb(1)[0]
    names = ["b", "", "ü", "a", "a\x00", "ab", "\U0001f600", "\uffff", "z"]
    values.put_all(dict.fromkeys(names, b""))
    assert [key for key, _ in values.in_order()] == sorted(names)


LIMITED = """
import resource
from millstream.errors import MillstreamError
from millstream.state.rocksdb_state import in_rocksdb
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
values = in_rocksdb(1)[0]
try:
    for number in range(2_000_000):
        values.put(f"key {number}", b"x" * 200)
except MillstreamError as error:
    print(error)
"""


def test_a_full_disk_is_reported_and_leaves_no_folder(folder: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("state by key in RocksDB: IO error: ") and not ran.stderr
    assert "free disk space there, or set TMPDIR" in ran.stdout
    assert list(folder.iterdir()) == []
