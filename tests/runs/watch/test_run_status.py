"""The status of a run whose epoch log is compacted, and whose base moves meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.log.epochs import Base, Epoch, EpochLog, EpochReader, EpochReceipt, Totals
from millstream.runs.directory import RunDirectory
from millstream.runs.watch.run_status import _epoch_log

EPOCHS = 60


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path)


@pytest.fixture
def log(directory: RunDirectory) -> EpochLog:
    """A log of small segments; all epochs are processed and committed."""
    log = EpochLog(directory.epochs, segment_bytes=5000)
    for number in range(EPOCHS):
        log.cut(Epoch(number, {}))
        log.receipt(EpochReceipt(number, 1, 1, 0, {}, {}, {}))
        log.commit(number)
    return log


def test_the_last_processed_epoch_is_the_last_one_of_a_merged_receipt(directory: RunDirectory, log: EpochLog) -> None:
    log.move_base(Base(20, 1))
    for _ in log.compact(EPOCHS, {20, EPOCHS - 1}):
        pass
    assert any(receipt.merged for receipt in log.reader().receipts())
    assert _epoch_log(directory)[1] == EPOCHS - 1


def test_the_status_is_read_while_the_base_moves(
    directory: RunDirectory, log: EpochLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, moved = EpochReader.totals, False
    for number in (EPOCHS, EPOCHS + 1):
        log.cut(Epoch(number, {}))

    def read_and_move(reader: EpochReader) -> Totals:
        nonlocal moved
        found = read(reader)
        if not moved:
            moved = True
            log.commit(EPOCHS + 1)
            log.move_base(Base(EPOCHS + 1, 1))
            while log.drop_oldest():
                pass
        return found

    monkeypatch.setattr(EpochReader, "totals", read_and_move)
    totals, processed, _ = _epoch_log(directory)
    assert (totals.base, processed) == (Base(EPOCHS + 1, 1), EPOCHS + 1)
