"""Line blocks: entries that were appended together are as safe as entries that were appended one by one."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from millstream.errors import AlteredLog, UnknownFormat
from millstream.log.journal import Journal, JournalReader, LineBlock, are_lines, as_lines
from millstream.log.journal.segment import segment_head, segment_path

Appended = list[tuple[int, list[bytes]]]
"""For each append its tag and its entries."""


def some_entries(rng: random.Random) -> list[bytes]:
    kinds: Sequence[tuple[int, bytes]] = rng.choice(
        [((12, b"abc"), (0, b"")), ((12, b"abc"),), ((12, b"a\n\r\0"), (3, b"\n")), ((40, bytes(range(256))),)]
    )
    entries = []
    for _ in range(rng.choice((1, 1, 2, 3, 9))):
        longest, chars = rng.choice(kinds)
        entries.append(bytes(rng.choices(chars, k=rng.randint(0, longest))) if longest else b"")
    return entries


def fill(folder: Path, rng: random.Random, appends: int, *, segment_bytes: int = 8 << 20) -> Appended:
    """A journal of random appends: every form of append, tags without entries, several segments."""
    done: Appended = []
    with Journal(folder, segment_bytes=segment_bytes) as journal:
        for number in range(appends):
            entries, tag = some_entries(rng), rng.choice((-1, number))
            form = rng.choice(("many", "many", "lines", "one", "tag"))
            if form == "tag":
                entries = []
                journal.append_many(entries, tag)
            elif form == "one":
                entries = entries[:1]
                journal.append(entries[0], tag)
            elif form == "lines":
                entries = [entry.replace(b"\n", b" ") for entry in entries]
                journal.append_lines(b"".join(entry + b"\n" for entry in entries), tag)
            else:
                journal.append_many(entries, tag)
            done.append((tag, entries))
    return done


def entries_of(done: Appended) -> list[tuple[int, bytes]]:
    return [(tag, entry) for tag, entries in done for entry in entries]


def read(folder: Path, start: int = 0, stop: int | None = None) -> list[tuple[int, bytes]]:
    with JournalReader(folder) as reader:
        return [(entry.tag, entry.payload) for entry in reader.read(start, stop)]


def only_segment(folder: Path) -> Path:
    (segment,) = folder.glob("*.journal")
    return segment


@pytest.mark.parametrize("seed", range(4))
def test_reading_in_blocks_gives_the_same_entries_as_reading_one_by_one(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    written = entries_of(fill(tmp_path, rng, 300, segment_bytes=rng.choice((300, 5000, 1 << 20))))
    with JournalReader(tmp_path) as reader:
        for _ in range(300):
            start = rng.randint(0, len(written))
            stop = rng.choice((None, rng.randint(start, len(written) + 5), start + rng.randint(0, 3)))
            blocks = list(reader.blocks(start, stop))
            wanted = written[start:stop]
            assert [(block.tag, entry) for block in blocks for entry in block.payloads()] == wanted
            assert [index for block in blocks for index in range(block.first, block.stop)] == [
                *range(start, start + len(wanted))
            ]
            assert [(entry.tag, entry.payload) for entry in reader.read(start, stop)] == wanted
            assert as_lines(blocks) == b"".join(entry + b"\n" for _, entry in wanted)
            assert are_lines(blocks) == (not any(b"\n" in entry for _, entry in wanted))


@pytest.mark.parametrize("seed", range(3))
def test_a_journal_that_was_cut_anywhere_has_all_whole_appends_before_the_cut(tmp_path: Path, seed: int) -> None:
    done = fill(tmp_path, random.Random(seed), 25)
    data = only_segment(tmp_path).read_bytes()
    whole = [entries_of(done[:count]) for count in range(len(done) + 1)]
    found = set()
    for size in range(len(data), data.index(b"\n") + 50, -1):
        only_segment(tmp_path).write_bytes(data[:size])
        there = read(tmp_path)
        assert there in whole
        found.add(len(there))
        with JournalReader(tmp_path) as reader:
            assert reader.end() == len(there)
    assert found == {len(entries) for entries in whole}


def test_a_writer_of_a_journal_that_was_cut_continues_after_the_last_whole_append(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append_many([b"one", b"two"], tag=1)
        whole = only_segment(tmp_path).stat().st_size
        journal.append_lines(b"three\nfour\nfive\n", tag=2)
    data = only_segment(tmp_path).read_bytes()
    for size in range(whole, len(data)):
        only_segment(tmp_path).write_bytes(data[:size])
        with Journal(tmp_path) as journal:
            assert (journal.next_index, journal.last_tag) == (2, 1)
            journal.append_lines(b"3\n4\n", tag=3)
        assert read(tmp_path) == [(1, b"one"), (1, b"two"), (3, b"3"), (3, b"4")]


@pytest.mark.parametrize("seed", range(3))
def test_an_alteration_is_refused_and_one_in_the_last_append_removes_this_append(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    done = fill(tmp_path, rng, 25)
    before = only_segment(tmp_path).stat().st_size
    with Journal(tmp_path) as journal:
        journal.append_many([b"the", b"last", b"append"], tag=99)
    data = only_segment(tmp_path).read_bytes()
    for byte in [*rng.sample(range(before), 80), *range(before, len(data))]:
        changed = bytearray(data)
        changed[byte] ^= 1 << rng.randrange(8)
        only_segment(tmp_path).write_bytes(changed)
        if byte >= before:
            assert read(tmp_path) == entries_of(done)
        else:
            with pytest.raises(AlteredLog, match=r"journal "):
                read(tmp_path)
            with pytest.raises(AlteredLog, match=r"journal "):
                Journal(tmp_path)


def test_a_line_block_in_an_older_segment_that_was_altered_or_is_too_long_is_refused(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append_many([b"one", b"two", b"three"])
        journal.roll()
        journal.append_many([b"four", b"five"])
    older, newer = sorted(tmp_path.glob("*.journal"))
    data = older.read_bytes()
    older.write_bytes(data.replace(b"two", b"TWO"))
    with pytest.raises(AlteredLog, match=r"00\.journal was cut or damaged at byte .* entry 0 is missing"):
        read(tmp_path)
    older.write_bytes(data)
    newer.unlink()
    segment_path(tmp_path, 2).write_bytes(segment_head(journal.id, 2, -1, b""))
    with pytest.raises(AlteredLog, match=r"00\.journal has more entries, .*: the next segment begins with entry 2"):
        read(tmp_path, 0, 2)


def test_entries_that_were_appended_together_are_lines_in_the_file(tmp_path: Path) -> None:
    entries = [b'{"text": "t%d"}' % number for number in range(1000)]
    with Journal(tmp_path) as journal:
        journal.append_many(entries, tag=4)
        journal.append_lines(b"\n".join([*entries, b""]), tag=5)
    lines = b"\n".join([*entries, b""])
    assert only_segment(tmp_path).read_bytes().count(lines) == 2
    with JournalReader(tmp_path) as reader:
        assert list(reader.blocks(0)) == [
            LineBlock(0, 1000, 4, memoryview(lines), b""),
            LineBlock(1000, 2000, 5, memoryview(lines), b""),
        ]


def test_a_single_entry_has_the_same_frame_in_every_form_of_append(tmp_path: Path) -> None:
    sizes = []
    for form in ("append", "append_many", "append_lines"):
        with Journal(tmp_path / form) as journal:
            journal.append(b"before")
            path = only_segment(tmp_path / form)
            before = path.stat().st_size
            if form == "append":
                journal.append(b"one", 7)
            elif form == "append_many":
                journal.append_many([b"one"], 7)
            else:
                journal.append_lines(b"one\n", 7)
            sizes.append(path.stat().st_size - before)
        with JournalReader(tmp_path / form) as reader:
            assert list(reader.blocks(1)) == [LineBlock(1, 2, 7, None, b"one")]
    assert len(set(sizes)) == 1


def test_reading_one_entry_of_a_large_append_reads_little_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [b"%07d" % number * 20 for number in range(100_000)] + [b"x" * 600_000, b"the last"]
    with Journal(tmp_path, segment_bytes=1 << 30) as journal:
        journal.append_many(entries)
    read = 0
    real = os.pread

    def counted(file: int, size: int, at: int) -> bytes:
        nonlocal read
        data = real(file, size, at)
        read += len(data)
        return data

    with JournalReader(tmp_path) as reader:
        assert reader.end() == len(entries)
        monkeypatch.setattr(os, "pread", counted)
        for index in (99_999, 50_000, 12_345, 0):
            read = 0
            assert [entry.payload for entry in reader.read(index, index + 1)] == [entries[index]]
            assert read < 700_000
        monkeypatch.undo()
        assert b"".join(entry.payload for entry in reader.read(0)) == b"".join(entries)


def test_an_append_of_several_line_blocks_is_complete_or_missing(tmp_path: Path) -> None:
    entries = [b"%07d" % number * 20 for number in range(4000)] + [b"x" * 300_000, b"the last"]
    with Journal(tmp_path) as journal:
        journal.append(b"before", tag=1)
        journal.append_many(entries, tag=2)
    data = only_segment(tmp_path).read_bytes()
    with JournalReader(tmp_path) as reader:
        assert len(list(reader.blocks(1))) > 3
    for size in (*range(100, len(data), 50_000), len(data) - 8, len(data) - 1):
        only_segment(tmp_path).write_bytes(data[:size])
        with JournalReader(tmp_path) as reader:
            assert (reader.end(), reader.last_tag) == (1, 1)
    only_segment(tmp_path).write_bytes(data)
    assert read(tmp_path) == [(1, b"before"), *((2, entry) for entry in entries)]


def test_lines_without_a_final_newline_are_refused_and_nothing_is_appended(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append_lines(b"")
        for lines in (b"one", b"one\ntwo"):
            with pytest.raises(ValueError, match="does not end in a newline"):
                journal.append_lines(lines)
        assert journal.next_index == 0
        journal.append_lines(b"", tag=3)
        assert journal.last_tag == 3
    assert read(tmp_path) == []


# Formats


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("opening", [Journal, JournalReader])
def test_a_journal_of_another_format_is_refused(tmp_path: Path, opening: Any, number: int) -> None:
    with Journal(tmp_path) as journal:
        journal.append(b"one")
    path = only_segment(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"MSJRNL2", b"MSJRNL%d" % number))
    refusal = f"{path} is a journal of format {number}, and this version of Millstream reads format 2: use the version"
    with pytest.raises(UnknownFormat, match=re.escape(refusal)):
        opening(tmp_path)
