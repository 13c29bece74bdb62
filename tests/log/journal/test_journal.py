"""The journal: readers get what was appended, at the same time as the writer appends and after crashes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.conditions import HANG_SECONDS
from support.journals import payloads, segments, with_segments_of_five

from millstream.errors import ConfigError, Truncated
from millstream.log.journal import Entry, Journal, JournalReader

BINARY = bytes(range(256)) + b"\n\0\r\n"


def test_a_reader_gets_entries_of_any_bytes_in_order_with_their_tags(tmp_path: Path) -> None:
    with Journal(tmp_path / "deep" / "journal") as journal:
        assert (journal.next_index, journal.last_tag) == (0, -1)
        assert journal.append(BINARY, tag=3) == 0
        assert journal.append(b"") == 1
        journal.append_many([b"a", BINARY * 5000], tag=7)
        journal.sync()
        assert (journal.next_index, journal.last_tag) == (4, 7)
        assert list(journal.entries(2)) == [Entry(2, 7, b"a"), Entry(3, 7, BINARY * 5000)]
    with JournalReader(tmp_path / "deep" / "journal") as reader:
        assert list(reader.read(0)) == [
            Entry(0, 3, BINARY),
            Entry(1, -1, b""),
            Entry(2, 7, b"a"),
            Entry(3, 7, BINARY * 5000),
        ]


def test_every_segment_has_the_id_that_the_journal_got_when_it_was_created(tmp_path: Path) -> None:
    with Journal(tmp_path / "a") as journal:
        journal.append(b"x")
        journal.roll()
        first = journal.id
    with Journal(tmp_path / "a") as again, Journal(tmp_path / "b") as other:
        assert again.id == first != other.id
    segments(tmp_path / "a")[0].unlink()
    assert JournalReader(tmp_path / "a").id == first


def test_a_tag_may_be_lower_than_the_one_before_and_may_be_appended_without_entries(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(b"x", tag=9)
        journal.append(b"y", tag=4)
        journal.append_many([], tag=2)
        journal.append(b"z")
    with Journal(tmp_path) as journal:
        assert (journal.last_tag, journal.next_index) == (2, 3)
    assert payloads(tmp_path) == [b"x", b"y", b"z"]


def test_the_last_tag_and_the_header_remain_when_older_segments_are_dropped(tmp_path: Path) -> None:
    headers = iter([b"at the start", b"after one", b"after two"])
    with Journal(tmp_path, header=lambda: next(headers)) as journal:
        journal.append(b"one", tag=5)
        journal.roll()
        journal.append(b"two")
        journal.append_many([], tag=6)
        journal.roll()
        journal.drop_before(2)
        assert journal.first_index == 2
    assert len(segments(tmp_path)) == 1
    with Journal(tmp_path) as journal:
        assert (journal.last_tag, journal.next_index, journal.header) == (6, 2, b"after two")


def test_only_whole_segments_are_dropped_and_reading_a_dropped_entry_names_the_first_one_left(tmp_path: Path) -> None:
    written = with_segments_of_five(tmp_path, 17)
    with Journal(tmp_path) as journal:
        journal.drop_before(9)
        assert journal.first_index == 5
        journal.drop_before(100)
        assert journal.first_index == 15
    assert payloads(tmp_path, 15) == written[15:]
    with pytest.raises(Truncated, match="entry 14 was dropped; the first entry that is left is 15"):
        payloads(tmp_path, 14)


def test_a_new_segment_begins_when_the_last_one_is_full(tmp_path: Path) -> None:
    with Journal(tmp_path, segment_bytes=1000) as journal:
        for number in range(100):
            journal.append(b"%100d" % number)
    assert len(segments(tmp_path)) == pytest.approx(13, abs=2)
    assert [int(payload) for payload in payloads(tmp_path)] == list(range(100))
    with JournalReader(tmp_path) as reader:
        first, _ = reader.segment_start(50)
        assert first <= 50
        assert (tmp_path / f"{first:020d}.journal").exists()
        assert reader.segment_start(100)[0] == int(segments(tmp_path)[-1].stem)


def test_reading_from_any_entry_gives_the_same_entries_as_reading_all(tmp_path: Path) -> None:
    with Journal(tmp_path, segment_bytes=20_000) as journal:
        for number in range(0, 3000, 3):
            journal.append_many([b"%d" % (number + index) for index in range(3)])
    with JournalReader(tmp_path) as reader:
        for start in (0, 1, 255, 256, 257, 1000, 2999, 3000):
            for stop in (start, start + 1, start + 10, start + 700, 5000):
                read = [int(entry.payload) for entry in reader.read(start, stop)]
                assert read == list(range(start, min(stop, 3000)))
        halves = reader.read(100), reader.read(2000)
        assert [(int(next(halves[0]).payload), int(next(halves[1]).payload)) for _ in range(900)] == [
            (100 + step, 2000 + step) for step in range(900)
        ]


def test_the_error_for_a_folder_without_a_journal_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no journal"):
        JournalReader(tmp_path)
    with pytest.raises(ConfigError, match="nothing here"):
        JournalReader(tmp_path / "nothing here")


# Crashes


def test_opening_cuts_off_an_interrupted_write_wherever_it_stopped(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        path = segments(tmp_path)[0]
        sizes = [(path.stat().st_size, 0)]
        for payload, tag in ((b"first", 1), (BINARY, 2)):
            journal.append(payload, tag)
            sizes.append((path.stat().st_size, journal.next_index))
        journal.append_many([b"second", b"", b"third"], 3)
        sizes.append((path.stat().st_size, journal.next_index))
    data = path.read_bytes()
    tags = {0: -1, 1: 1, 2: 2, 5: 3}
    for size in range(sizes[0][0], len(data)):
        path.write_bytes(data[:size])
        there = max(index for end, index in sizes if end <= size)
        with JournalReader(tmp_path) as reader:
            assert reader.end() == len(list(reader.read(0))) == there
        with Journal(tmp_path) as journal:
            assert (journal.next_index, journal.last_tag) == (there, tags[there])
            journal.append(b"next", tag=8)
        assert payloads(tmp_path)[there:] == [b"next"]


def test_a_journal_whose_creation_was_interrupted_is_created_again(tmp_path: Path) -> None:
    Journal(tmp_path).close()
    path = segments(tmp_path)[0]
    head = path.read_bytes()
    for size in range(len(head)):
        path.write_bytes(head[:size])
        with pytest.raises(ConfigError):
            JournalReader(tmp_path)
        with Journal(tmp_path) as journal:
            journal.append(b"x")
        assert payloads(tmp_path) == [b"x"]


def test_a_segment_whose_creation_was_interrupted_is_created_again(tmp_path: Path) -> None:
    written = with_segments_of_five(tmp_path, 10)
    (tmp_path / f"{10:020d}.journal").write_bytes(b"MSJ")
    (tmp_path / "_making").write_bytes(b"MSJ")
    assert payloads(tmp_path) == written
    with Journal(tmp_path) as journal:
        assert journal.next_index == 10
        journal.roll()
        journal.append(b"on")
    assert payloads(tmp_path) == [*written, b"on"]


CRASHING = """
import os, signal, sys
from pathlib import Path
from millstream.log.journal import Journal

folder, operation, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
real = getattr(os, operation)
calls = 0

def crash(*args):
    global calls
    calls += 1
    if calls == count:
        if operation == "pwrite":
            real(args[0], args[1][: len(args[1]) // 2], args[2])
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args)

setattr(os, operation, crash)
with Journal(folder, segment_bytes=300) as journal:
    for number in range(40):
        journal.append_many([b"%d.%d" % (number, index) for index in range(4)], tag=number)
        journal.sync()
"""


@pytest.mark.parametrize(
    ("operation", "count"),
    [
        ("pwrite", 1),
        ("pwrite", 2),
        ("pwrite", 9),
        ("rename", 1),
        ("rename", 4),
        ("fsync", 1),
        ("fsync", 7),
        ("fdatasync", 8),
    ],
)
def test_after_a_kill_each_append_is_complete_or_missing(tmp_path: Path, operation: str, count: int) -> None:
    folder = tmp_path / "journal"
    done = subprocess.run([sys.executable, "-c", CRASHING, str(folder), operation, str(count)], check=False)
    assert done.returncode == -signal.SIGKILL
    with Journal(folder, segment_bytes=300) as journal:
        appends, rest = divmod(journal.next_index, 4)
        assert rest == 0
        assert journal.last_tag == appends - 1
        journal.append_many([b"on", b"and on"], tag=99)
    expected = [b"%d.%d" % (number, index) for number in range(appends) for index in range(4)]
    assert payloads(folder) == [*expected, b"on", b"and on"]


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Limit the size of files for a moment: with a permanent limit the test run could not write its own output."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_an_error_that_names_the_file_and_leaves_no_incomplete_entry(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path) as journal:
        journal.append(b"before", tag=1)
        limit = segments(tmp_path)[0].stat().st_size + 500
        with file_size_limit(limit), pytest.raises(OSError, match="cannot append") as raised:
            journal.append_many([b"x" * 200] * 5, tag=2)
        assert raised.value.filename == str(segments(tmp_path)[0])
        assert (journal.next_index, journal.last_tag) == (1, 1)
        journal.append(b"small", tag=3)
    assert payloads(tmp_path) == [b"before", b"small"]


# Readers and a writer at the same time


def test_a_reader_sees_each_append_at_once_also_in_new_segments(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal, JournalReader(tmp_path) as reader, JournalReader(tmp_path) as slow:
        for number in range(50):
            journal.append(b"%d" % number)
            if number % 7 == 0:
                journal.roll()
            if number % 21 == 0:
                journal.roll()
            assert reader.end() == number + 1
            assert [int(entry.payload) for entry in reader.read(max(0, number - 9))][-1] == number
            journal.drop_before(number - 20)
        assert slow.end() == 50
        with pytest.raises(Truncated):
            list(slow.read(0))


READING = """
import sys
from pathlib import Path
from millstream.log.journal import JournalReader

reader = JournalReader(Path(sys.argv[1]))
print("ready", flush=True)
at = 0
while at < int(sys.argv[2]):
    before = at
    end = reader.end()
    assert end % 10 == 0, f"half an append is visible at {end}"
    for entry in reader.read(at, end):
        assert entry.index == at == int(entry.payload[:10]), (entry.index, at)
        assert len(entry.payload) == 10 + at % 3000
        at += 1
    if at > before:
        print(at, flush=True)
"""


def test_two_readers_in_other_processes_see_only_whole_appends(tmp_path: Path) -> None:
    with Journal(tmp_path, segment_bytes=200_000) as journal:
        command = [sys.executable, "-c", READING, str(tmp_path), "10000"]
        readers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n"
        for number in range(0, 10000, 10):
            journal.append_many(b"%010d" % index + bytes(index % 3000) for index in range(number, number + 10))
            if number % 1000 == 500:  # so that the readers read between the appends
                for reader in readers:
                    assert reader.stdout is not None
                    assert any(int(line) == number + 10 for line in reader.stdout)
    for reader in readers:
        reader.communicate(timeout=HANG_SECONDS)
        assert reader.returncode == 0
    assert len(os.listdir(tmp_path)) > 50
