"""The content of a simulated disk after a loss of power."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.engines.simulated.world.disk import Disk, SimulatedEpochLog
from millstream.engines.simulated.world.scheduler import Scheduler
from millstream.engines.simulated.world.sinks import SinkContent
from millstream.engines.simulated.world.world import World
from millstream.log.contracts import Progress
from millstream.log.epochs import Epoch, EpochReader

ROWS = pa.table({"_offset": [0, 1]})


def world() -> World:
    return World(Scheduler(random.Random(0)))


@pytest.mark.parametrize("seed", range(12))
def test_synced_lines_survive_and_a_prefix_of_the_others_may_survive(tmp_path: Path, seed: int) -> None:
    disk = Disk(tmp_path)
    with_power = SimulatedEpochLog(disk, world(), lambda line: None)
    for number in range(3):
        with_power.cut(Epoch(number, {}))
    with_power.sync()
    for number in range(3, 6):
        with_power.cut(Epoch(number, {}))
    with_power.close()
    disk.lose_power(random.Random(seed))
    again = SimulatedEpochLog(disk, world(), lambda line: None)
    assert 3 <= again.totals.next_epoch <= 6
    again.cut(Epoch(again.totals.next_epoch, {}))
    assert EpochReader(disk.epochs).totals() == again.totals
    again.close()


def test_lines_that_an_earlier_process_did_not_sync_may_be_lost_in_a_later_loss_of_power(tmp_path: Path) -> None:
    left = set()
    for seed in range(12):
        disk = Disk(tmp_path / str(seed))
        dies = SimulatedEpochLog(disk, world(), lambda line: None)
        dies.cut(Epoch(0, {}))
        dies.close()
        SimulatedEpochLog(disk, world(), lambda line: None).close()
        disk.lose_power(random.Random(seed))
        left.add(EpochReader(disk.epochs).totals().next_epoch)
    assert left == {0, 1}


def test_progress_without_rows_may_be_lost_and_rows_are_never_lost() -> None:
    epochs = set()
    for seed in range(8):
        content = SinkContent(ROWS.schema)
        content.add(ROWS, Progress("a log", 0))
        content.add(ROWS.slice(0, 0), Progress("a log", 1))
        content.crash(random.Random(seed))
        assert content.rows().equals(ROWS)
        assert content.progress is not None
        epochs.add(content.progress.epoch)
    assert epochs == {0, 1}
