"""Compaction of the epoch log: the same epochs, merged receipts, and a whole log after a crash at any step."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pytest
from support.epoch_logs import EPOCHS, compact, epoch, filled, receipt

from millstream.digests import Digest
from millstream.errors import Truncated
from millstream.log.epochs import (
    Base,
    Epoch,
    EpochLog,
    EpochReader,
    EpochReceipt,
    SinkAdded,
    SinkRemoved,
    Totals,
)
from millstream.log.journal import journal, packed_segment
from millstream.log.journal.segment import first_indexes
from millstream_connectors.journal_url import JournalUrl


def test_a_compacted_log_has_the_same_epochs_totals_and_sums(tmp_path: Path) -> None:
    log = filled(tmp_path)
    before, receipts, totals = list(log.reader().epochs()), list(log.reader().receipts()), log.reader().totals()
    size = sum(path.stat().st_size for path in tmp_path.glob("*.journal"))
    compact(log)
    reader = log.reader()
    assert sum(path.stat().st_size for path in tmp_path.glob("*.journal")) < size / 8
    assert list(reader.epochs()) == before and list(reader.epochs(1500)) == before[1500:]
    assert reader.totals() == totals == log.totals
    merged = list(reader.receipts())
    assert len(merged) < 200
    added = Totals()
    for each in merged:
        added.add_receipt(each)
    whole = Totals()
    for each in receipts:
        whole.add_receipt(each)
    assert added == whole
    assert [e for each in merged if each.attempt == 1 for e in each.counts] == list(range(EPOCHS))
    assert not any(each.epoch <= bound < each.last for each in merged for bound in (500, 999, 1234, 1999))
    assert reader.last_rows(1999) == {"predictions": 1999, "rejects": 3}
    log.close()
    again = EpochLog(tmp_path)
    assert again.totals == totals
    again.cut(epoch(EPOCHS))


def test_a_segment_is_compacted_only_when_all_its_epochs_are_settled(tmp_path: Path) -> None:
    log = filled(tmp_path)
    compact(log, settled=-1)
    assert all(each.merged is None for each in log.reader().receipts())
    compact(log, settled=1000)
    assert all(each.merged is None for each in log.reader().receipts(1001))
    assert any(each.merged for each in log.reader().receipts(0))


def test_the_base_drops_segments_and_older_epochs_are_refused(tmp_path: Path) -> None:
    log = filled(tmp_path)
    compact(log, boundaries=frozenset({1234}))
    segments = len(first_indexes(tmp_path))
    log.move_base(Base(1234, 7))
    while log.drop_oldest():
        pass
    assert len(first_indexes(tmp_path)) < segments
    for reader in (log.reader(), EpochReader(tmp_path)):
        assert reader.base == Base(1234, 7)
        assert [each.number for each in reader.epochs()] == list(range(1235, EPOCHS))
        assert reader.last_rows(1234) == {"predictions": 1234, "rejects": 3}
        assert reader.rows_before_base()["rejects"].count == 1
        assert reader.rows_before_base()["predictions"].count == 2 * 1235
        for first in (0, 3, 1234):
            with pytest.raises(
                Truncated, match=f"epoch {first} was dropped: the log begins after epoch 1234, its base"
            ):
                reader.epochs(first)
    begin = log.reader().base_totals()
    assert (begin.next_epoch, begin.positions, begin.records, begin.sinks) == (1235, {0: 2470}, 0, {})
    copy = EpochLog(tmp_path / "copy", begin)
    copy.cut(epoch(1235))
    assert [each.number for each in copy.reader().epochs()] == [1235]


def test_a_reader_beside_the_writer_sees_every_epoch_once(tmp_path: Path) -> None:
    log = filled(tmp_path)
    reader, followed, seen = log.reader(), log.reader(), list[int]()
    lines = reader.epochs()
    first = [next(lines).number for _ in range(10)]
    for step, _ in enumerate(log.compact(EPOCHS, ())):
        if step % 10 == 0:
            seen += [each.number for each in followed.follow(0)]
            assert [each.number for each in log.reader().epochs(900)] == list(range(900, EPOCHS))
    assert first + [each.number for each in lines] == list(range(EPOCHS))
    assert seen == list(range(EPOCHS))


class Crash(BaseException):
    """The process has died: nothing that it does afterwards reaches the disk."""


def crashing(patch: pytest.MonkeyPatch, count: int, *, after: bool) -> None:
    """Die before or after the `count`th file operation."""
    calls = 0

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > count or (calls == count and not after):
                raise Crash
            made = real(*args, **options)
            if calls == count:
                raise Crash
            return made

        return operation

    for name in ("pwrite", "fsync", "rename", "unlink"):
        patch.setattr(os, name, dying(getattr(os, name)))


@pytest.mark.parametrize("after", [False, True])
def test_after_a_crash_at_any_file_operation_the_log_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    done, count = False, 0
    while not done:
        count += 1
        folder = tmp_path / str(count)
        log = filled(folder, 120, segment_bytes=8_000)
        wanted = list(log.reader().epochs())
        with monkeypatch.context() as patched:
            crashing(patched, count, after=after)
            try:
                for _ in log.compact(120, {60}):
                    pass
                log.move_base(Base(60, 1))
                while log.drop_oldest():
                    pass
                done = True
            except Crash:
                pass
        log.close()
        again = EpochLog(folder)
        reader = again.reader()
        assert list(reader.epochs()) == wanted[reader.base.epoch + 1 :]
        assert again.totals.records == 240
        compact(again, 120, frozenset({60}))
        again.cut(epoch(120))
        assert list(again.reader().epochs(61)) == [*wanted[61:], epoch(120)]
        again.close()
    assert count > 20


def drop_upto(log: EpochLog, base: Base) -> None:
    """Move the base and drop all segments before it."""
    log.move_base(base)
    while log.drop_oldest():
        pass


def moving_the_base(log: EpochLog, patch: pytest.MonkeyPatch, base: Base) -> None:
    """Move the base of the log just after a reader has read the present one for the first time."""
    read, moved = cast(property, EpochReader.base).fget, list[Base]()
    assert read is not None

    def read_and_move(reader: EpochReader) -> Base:
        found: Base = read(reader)
        if not moved:
            moved.append(base)
            drop_upto(log, base)
        return found

    patch.setattr(EpochReader, "base", property(read_and_move))


def test_the_totals_at_the_base_are_of_one_base_while_it_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path)
    log.move_base(Base(400, 1))
    reader = log.reader()
    moving_the_base(log, monkeypatch, Base(1234, 2))
    begin = reader.base_totals()
    assert (begin.base, begin.next_epoch, begin.positions) == (Base(1234, 2), 1235, {0: 2470})


@pytest.mark.parametrize("first", [None, 1500])
def test_epochs_that_are_left_are_read_while_the_base_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int | None
) -> None:
    log = filled(tmp_path)
    reader = log.reader()
    moving_the_base(log, monkeypatch, Base(1234, 2))
    assert [each.number for each in reader.epochs(first)] == list(range(first or 1235, EPOCHS))


@pytest.mark.parametrize("following", [False, True])
def test_a_reader_whose_epochs_are_dropped_names_the_base(tmp_path: Path, following: bool) -> None:
    log = filled(tmp_path)
    reader = log.reader()
    epochs = reader.follow(0) if following else reader.epochs(0)
    seen = [next(epochs).number]
    drop_upto(log, Base(2500, 2))
    with pytest.raises(Truncated) as raised:
        seen.extend(each.number for each in epochs)
    assert f"epoch {seen[-1] + 1} was dropped: the log begins after epoch 2500, its base" in str(raised.value)
    assert "--fresh" not in str(raised.value)


def test_a_segment_that_is_packed_while_a_reader_opens_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path)
    wanted, reader, real = list(log.reader().epochs()), log.reader(), os.pread
    packed = False

    def pread(file: int, length: int, offset: int) -> bytes:
        nonlocal packed
        data = real(file, length, offset)
        if not packed and offset == 0:
            packed = True
            compact(log)
        return data

    epochs = reader.epochs()
    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", pread)
        assert list(epochs) == wanted
    assert packed


def test_rows_of_a_sink_that_begins_within_a_merged_receipt_are_counted(tmp_path: Path) -> None:
    events: dict[int, tuple[SinkAdded | SinkRemoved, ...]] = {
        0: (SinkAdded("predictions"),),
        7: (SinkAdded("predictions again"),),
        20: (SinkRemoved("predictions"),),
        31: (SinkAdded("predictions"),),
    }
    log = EpochLog(tmp_path)
    for number in range(60):
        log.cut(Epoch(number, {}, events.get(number, ())))
        log.receipt(EpochReceipt(number, 1, 1, 0, {}, {}, {"predictions": Digest(1, number, 1)}))
        log.commit(number)
    log.move_base(Base(40, 1))
    before = log.reader().rows_before_base()
    assert before["predictions"].count == 20 + 10 and before["predictions again"].count == 34
    compact(log, 60, frozenset({40}))
    assert log.reader().rows_before_base() == before
    assert any(each.merged for each in log.reader().receipts())


def test_the_last_rows_are_not_those_of_a_repeated_earlier_epoch(tmp_path: Path) -> None:
    log = filled(tmp_path, 11, range(0, 0), segment_bytes=1 << 20)
    for number in (6, 7):
        log.receipt(receipt(number, 2))
    assert log.reader().last_rows(10) == log.totals.last_rows == {"predictions": 10, "rejects": 3}


@pytest.mark.parametrize("failing", ["rename", "fsync"])
def test_a_base_that_cannot_be_written_does_not_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    log = filled(tmp_path, 600)
    with monkeypatch.context() as patched:
        patched.setattr(os, failing, mock.Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space left"):
            log.move_base(Base(500, 1))
    assert log.totals.base == log.reader().base == Base()
    assert not log.drop_oldest()
    log.cut(epoch(600))
    assert len(list(log.reader().epochs())) == 601


def test_a_base_whose_name_cannot_be_synced_is_the_same_in_memory_and_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path, 600)
    with monkeypatch.context() as patched:
        patched.setattr(journal, "sync_folder", mock.Mock(side_effect=OSError(5, "Input/output error")))
        with pytest.raises(OSError, match="Input/output error"):
            log.move_base(Base(500, 1))
    assert log.totals.base == log.reader().base == Base(500, 1)
    log.cut(epoch(600))
    assert [each.number for each in log.reader().epochs()] == list(range(501, 601))


def test_compaction_with_nothing_to_do_lists_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path)
    compact(log)
    compact(log)
    with monkeypatch.context() as patched:
        patched.setattr(os, "listdir", mock.Mock(side_effect=AssertionError("a list of the folder")))
        opened = mock.Mock(wraps=packed_segment.open_segment)
        patched.setattr(journal, "open_segment", opened)
        compact(log)
        assert not log.drop_oldest()
    assert opened.call_count <= 2


def test_the_lines_of_a_merged_receipt(tmp_path: Path) -> None:
    log = filled(tmp_path, 600, range(0, 0))
    compact(log, 600, frozenset())
    line = next(line for line in log.reader().lines() if "receipt" in line)
    first, last = line["receipt"]
    total = sum((receipt(n).outputs["predictions"] for n in range(first, last + 1)), Digest())
    assert first == 0 and line["outputs"]["predictions"] == [total.count, total.lanes]
    assert line["rows"] == {"predictions": [0, last], "rejects": [3, 3]}
    assert line["each"] == [[2, last + 1]]
    assert json.loads(json.dumps(line)) == line


def test_a_compacted_log_is_printed_as_lines(tmp_path: Path) -> None:
    log = filled(tmp_path, 600)
    compact(log, 600)
    printed = [json.loads(entry) for entry in JournalUrl(str(tmp_path)).entries()]
    assert [line["epoch"] for line in printed if "epoch" in line] == list(range(600))
    assert printed == list(log.reader().lines())
