"""The sink guard: where a sink continues whose rows were lost, in part or as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from millstream.digests import Digest
from millstream.guarantees.sink_guard import SinkGuard
from millstream.log.contracts import Progress, Sink
from millstream.log.epochs import Epoch, EpochLog, EpochReceipt, SinkAdded

ROW = Digest(1, 1, 1)


def compacted_log(folder: Path) -> EpochLog:
    """A log of sixty epochs with a row each, whose older receipts are merged."""
    log = EpochLog(folder, segment_bytes=4000)
    for number in range(60):
        log.cut(Epoch(number, {}, (SinkAdded("predictions"),) if number == 0 else ()))
        log.receipt(EpochReceipt(number, 1, 1, 0, {"source": ROW}, {}, {"predictions": ROW}))
        log.commit(number)
    for _ in log.compact(50, {50}):
        pass
    return log


@dataclass
class RestoredSink:
    """A sink that was put back from a copy with the rows of the epochs up to `held`."""

    log: str
    held: int
    keeps: bool = True

    def progress(self) -> Progress:
        return Progress(self.log, self.held, 0, self.held + 1, str(Digest(self.held + 1, self.held + 1, self.held + 1)))

    def fence(self, term: int) -> Progress:
        return self.progress()


def test_a_sink_put_back_from_a_copy_lacks_exactly_the_epochs_after_the_copy(tmp_path: Path) -> None:
    log = compacted_log(tmp_path)
    assert any(receipt.epoch <= 5 < receipt.last for receipt in log.reader().receipts())
    for held in (0, 5, 20, 49):
        sink = cast(Sink, RestoredSink(log.id, held))
        guard = SinkGuard(log, {"predictions": sink}, {"predictions": "predictions"})
        guard.catch_up(50)
        assert [epoch for epoch in range(60) if guard.lacks("predictions", epoch)] == list(range(held + 1, 60))
