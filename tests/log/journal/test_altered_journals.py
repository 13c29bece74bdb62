"""Altered journals: an alteration is refused, or counts as an interrupted last append, and is never read."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.journals import payloads, segments, with_segments_of_five

from millstream.errors import AlteredLog
from millstream.log.journal import Journal, JournalReader


def test_a_journal_with_a_flipped_bit_before_the_last_append_is_refused(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        for payload in (b"first", b"", bytes(range(40)), b"fourth"):
            journal.append(payload)
        path = segments(tmp_path)[0]
        last = path.stat().st_size
        journal.append(b"the last one")
    data = path.read_bytes()
    for byte in range(last):
        path.write_bytes(data[:byte] + bytes([data[byte] ^ (1 << byte % 8)]) + data[byte + 1 :])
        with pytest.raises(AlteredLog, match=r"journal .*byte \d+"):
            Journal(tmp_path)
        with pytest.raises(AlteredLog, match=r"journal .*byte \d+"), JournalReader(tmp_path) as reader:
            list(reader.read(0))


def test_a_damaged_last_append_counts_as_interrupted(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(b"first")
        path = segments(tmp_path)[0]
        last = path.stat().st_size
        journal.append(b"the last one")
    data = path.read_bytes()
    for byte in range(last, len(data)):
        path.write_bytes(data[:byte] + bytes([data[byte] ^ 16]) + data[byte + 1 :])
        assert payloads(tmp_path) == [b"first"]
    path.write_bytes(data[:last] + bytes(5000))
    assert payloads(tmp_path) == [b"first"]


def test_entries_behind_a_removed_entry_are_not_read(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        path, sizes = segments(tmp_path)[0], []
        for _ in range(5):
            sizes.append(path.stat().st_size)
            journal.append(b"the same")
    data = path.read_bytes()
    path.write_bytes(data[: sizes[1]] + data[sizes[2] :])
    assert payloads(tmp_path) == [
        b"the same"
    ]  # no later frame is at its position: the same as after an interrupted write


def test_frames_of_a_journal_within_an_incomplete_entry_are_not_good_entries(tmp_path: Path) -> None:
    with Journal(tmp_path / "inner") as inner:
        inner.append_many([b"x"] * 10)
    with Journal(tmp_path / "outer") as outer:
        outer.append(b"before")
        outer.append(segments(tmp_path / "inner")[0].read_bytes())
    path = segments(tmp_path / "outer")[0]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert payloads(tmp_path / "outer") == [b"before"]


def test_a_journal_without_one_of_its_segments_is_refused(tmp_path: Path) -> None:
    with_segments_of_five(tmp_path, 20)
    segments(tmp_path)[1].unlink()
    with pytest.raises(AlteredLog, match=r"00000\.journal was cut or damaged at byte .* entry 5 is missing"):
        payloads(tmp_path)


def test_reading_refuses_an_older_segment_that_was_cut_or_extended_and_opening_does_not_read_it(tmp_path: Path) -> None:
    with_segments_of_five(tmp_path, 20)
    path = segments(tmp_path)[1]
    data = path.read_bytes()
    path.write_bytes(data[:-3])
    with Journal(tmp_path) as journal:
        assert journal.next_index == 20
    with pytest.raises(AlteredLog, match=r"05\.journal was cut or damaged at byte .* entry 9 is missing"):
        payloads(tmp_path)
    path.write_bytes(data + b"more")
    with pytest.raises(AlteredLog, match=r"05\.journal is damaged at byte"):
        payloads(tmp_path)


def test_a_segment_that_was_renamed_or_belongs_to_another_journal_is_refused(tmp_path: Path) -> None:
    with_segments_of_five(tmp_path / "a", 20)
    with_segments_of_five(tmp_path / "b", 20)
    segments(tmp_path / "b")[1].rename(segments(tmp_path / "a")[1])
    with pytest.raises(AlteredLog, match="is not a segment of the journal"):
        payloads(tmp_path / "a")
    segments(tmp_path / "a")[2].rename(segments(tmp_path / "a")[1])
    with pytest.raises(AlteredLog, match="was renamed"):
        payloads(tmp_path / "a", 5)


def test_a_reader_refuses_a_journal_that_was_replaced_by_a_new_one(tmp_path: Path) -> None:
    with_segments_of_five(tmp_path, 3)
    with JournalReader(tmp_path) as reader:
        segments(tmp_path)[0].unlink()
        with_segments_of_five(tmp_path, 3)
        with pytest.raises(AlteredLog, match="replaced by a new journal"):
            reader.end()
