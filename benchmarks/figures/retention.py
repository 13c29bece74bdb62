"""The size of the epoch log in a day and in a year; the end and the status of a run with many rows."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from unittest import mock

import numpy as np
import pyarrow as pa

from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_most
from benchmarks.kit.rounds import median, repeated
from millstream.digests import Digest
from millstream.guarantees.retention import Retention
from millstream.log.contracts import OpenContext, Progress
from millstream.log.epochs import (
    Added,
    Baselines,
    Epoch,
    EpochLog,
    EpochReceipt,
    PartitionName,
    Scores,
    SinkAdded,
)
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.checkpoints import Checkpoint, CheckpointStore
from millstream.state.thinning import DAY, HOUR, kept
from millstream_connectors.files.sink import FilesSink

__all__ = ["MEASUREMENTS"]

_SECOND = 1_000_000
_RATE = 500
_EPOCHS_A_DAY = 86_400 * _RATE
_ROWS = 100_000_000


def _unsynced() -> ExitStack:
    """A context without syncs of the disk."""
    stack = ExitStack()
    for name in ("os.fsync", "os.fdatasync"):
        stack.enter_context(mock.patch(name, return_value=None))
    return stack


@dataclass
class _Checkpoints:
    """The epochs and times of checkpoints, thinned as those of a run are; there is no state."""

    keep: int
    found: dict[int, Checkpoint] = field(default_factory=dict)

    def add(self, epoch: int, at: int, needed: set[int]) -> None:
        number = max(self.found, default=-1) + 1
        self.found[number] = Checkpoint(number, epoch, AppliedEpochs(), {}, at)
        staying = kept({each.number: each.at for each in self.found.values()}, at, self.keep) | needed
        self.found = {number: each for number, each in self.found.items() if number in staying}

    def epochs(self) -> set[int]:
        return {checkpoint.epoch for checkpoint in self.found.values()}

    def before(self, time: int, upto: int) -> Checkpoint | None:
        old = [each for each in self.found.values() if each.at <= time and each.epoch <= upto]
        return max(old, key=lambda checkpoint: checkpoint.number, default=None)


class _Run:
    """The epoch log of a run of one record an epoch, with checkpoints, commits and retention."""

    def __init__(self, folder: Path, between: int, keep: int = 7 * DAY, segment_bytes: int = 8 << 20) -> None:
        self.log = EpochLog(folder, segment_bytes=segment_bytes)
        self.now = 1_700_000_000 * _SECOND
        self._folder, self._between, self._rng = folder, between, random.Random(1)
        self._checkpoints = _Checkpoints(keep)
        store = cast(CheckpointStore, self._checkpoints)
        self._retention = Retention(self.log, store, keep, lambda: self.now)

    def process(self, number: int) -> None:
        """Cut an epoch and write its receipt, at about the time after the last one."""
        self.now += max(1, round(self._rng.gauss(self._between, self._between / 8)))
        events = (Added(PartitionName("source", "news.jsonl", 0)), SinkAdded("predictions files out"))
        self.log.cut(Epoch(number, {0: (number, number + 1)}, events if number == 0 else (), self.now))
        digests = [Digest(1, self._rng.getrandbits(64), self._rng.getrandbits(64)) for _ in range(4)]
        self.log.receipt(
            EpochReceipt(
                number,
                1,
                records=1,
                rejects=0,
                inputs={"source": digests[0]},
                streams={"features": digests[1], "classify": digests[2]},
                outputs={"predictions": digests[3]},
                scores={"classify": Scores(1, 1, Baselines(0, 1))},
                watermarks=dict.fromkeys(("features", "classify", "topics"), self.now - 60 * _SECOND),
                held_by=0,
            )
        )

    def checkpoint(self, number: int) -> None:
        """Commit the epoch, take a checkpoint, and do the work of retention."""
        self.log.commit(number)
        self._checkpoints.add(number, self.now, set(self._retention.needed(number)))
        for _ in self._retention.work(number):
            pass

    @property
    def size(self) -> int:
        return sum(path.stat().st_size for path in self._folder.glob("*.journal"))


def _day(setting: Setting) -> Iterator[Value]:
    epochs = 50_000 if setting.quick else 1_000_000
    run = _Run(setting.fresh("epochs"), _SECOND // _RATE)
    with _unsynced():
        for number in range(epochs):
            run.process(number)
            if number % _RATE == _RATE - 1:
                run.checkpoint(number)
        run.log.close()
    open_segment = max(setting.folder.glob("epochs/*.journal")).stat().st_size
    day = (run.size - open_segment) / epochs * _EPOCHS_A_DAY + open_segment
    yield Value("epoch_log_day", day / 1e9, f"{epochs:,} epochs: {run.size / 1e6:.1f} MB")


def _year(setting: Setting) -> Iterator[Value]:
    days, epochs_an_hour = (60, 20) if setting.quick else (365, 60)
    run, sizes = _Run(setting.fresh("epochs"), HOUR // epochs_an_hour, segment_bytes=64 << 10), list[int]()
    with _unsynced():
        for number in range(days * 24 * epochs_an_hour):
            run.process(number)
            if number % epochs_an_hour == epochs_an_hour - 1:
                run.checkpoint(number)
                sizes.append(run.size)
        run.log.close()
    month = 30 * 24
    yield Value("epoch_log_year", max(sizes[month:]) / max(sizes[:month]), f"{max(sizes) / 1e6:.2f} MB at most")


def _delivered(setting: Setting) -> Iterator[Value]:
    rows, at_once = (1_000_000, 200_000) if setting.quick else (_ROWS, 1_000_000)
    table = pa.table({"_offset": np.arange(at_once, dtype=np.int64) // 1000})
    context = OpenContext(setting.folder, setting.fresh("run"))
    config = FilesSink(path="rows")
    sink = config.open(context, "predictions", table.schema)
    sink.fence(0)
    setting.say(f"appending {rows:,} rows")
    for number in range(rows // at_once):
        total = (number + 1) * at_once
        sink.append(table, Progress("bench", number, 0, total, str(Digest(total))))

    def status(_: int) -> float:
        began = time.perf_counter()
        progress = config.progress(context, "predictions")
        if progress is None or progress.rows != rows:
            raise RuntimeError(f"the progress is {progress}")
        return time.perf_counter() - began

    yield median("delivered_status", repeated(setting, status), ".3f")
    began = time.perf_counter()
    sink.close()
    yield Value("delivered_stop", time.perf_counter() - began)


MEASUREMENTS = (
    Measurement(
        (Figure("epoch_log_day", "GB", at_most(0.5)),),
        "The epoch log of a day at 500 records a second and one epoch a record, with a checkpoint and a commit a "
        "second: of 1,000,000 epochs, in proportion; after a clean end.",
        _day,
    ),
    Measurement(
        (Figure("epoch_log_year", "x", at_most(1.1)),),
        "A year on a simulated clock with `keep: 7d`, an epoch a minute: the largest epoch log after the first month "
        "over the largest one in it.",
        _year,
    ),
    Measurement(
        (Figure("delivered_status", "s", at_most(2)), Figure("delivered_stop", "s", at_most(2))),
        f"A files sink with {_ROWS:,} rows: its progress as `status` reads it, and its clean end, after which the "
        "summary has their number and digest.",
        _delivered,
        name="delivered",
    ),
)
