"""What a loss of power leaves of a simulated disk."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.engines.simulated.world.disk import Disk, SimulatedEpochLog
from millstream.engines.simulated.world.scheduler import Scheduler
from millstream.engines.simulated.world.sinks import Kept
from millstream.engines.simulated.world.world import World
from millstream.log.contracts import Progress
from millstream.log.epochs import Epoch, EpochReader

ROWS = pa.table({"_offset": [0, 1]})


def world() -> World:
    return World(Scheduler(random.Random(0)))


@pytest.mark.parametrize("seed", range(12))
def test_synced_lines_are_there_and_of_the_others_the_first_at_most(tmp_path: Path, seed: int) -> None:
    disk = Disk(tmp_path)
    with_power = SimulatedEpochLog(disk, world(), lambda epoch: None)
    for number in range(3):
        with_power.cut(Epoch(number, {}))
    with_power.sync()
    for number in range(3, 6):
        with_power.cut(Epoch(number, {}))
    with_power.close()
    disk.lose_power(random.Random(seed))
    again = SimulatedEpochLog(disk, world(), lambda epoch: None)
    assert 3 <= again.totals.next_epoch <= 6
    again.cut(Epoch(again.totals.next_epoch, {}))
    assert EpochReader(disk.epochs).totals() == again.totals
    again.close()


def test_what_a_process_left_unsynced_is_lost_with_the_power_of_the_next(tmp_path: Path) -> None:
    left = set()
    for seed in range(12):
        disk = Disk(tmp_path / str(seed))
        dies = SimulatedEpochLog(disk, world(), lambda epoch: None)
        dies.cut(Epoch(0, {}))
        dies.close()
        SimulatedEpochLog(disk, world(), lambda epoch: None).close()
        disk.lose_power(random.Random(seed))
        left.add(EpochReader(disk.epochs).totals().next_epoch)
    assert left == {0, 1}


def test_a_progress_without_rows_may_be_lost_and_rows_never_are() -> None:
    marks = set()
    for seed in range(8):
        kept = Kept(ROWS.schema)
        kept.add(ROWS, Progress("a log", 0))
        kept.add(ROWS.slice(0, 0), Progress("a log", 1))
        kept.lose_power(random.Random(seed))
        assert kept.rows().equals(ROWS)
        assert kept.progress is not None
        marks.add(kept.progress.epoch)
    assert marks == {0, 1}
