"""The disk of a simulated run: an epoch log and checkpoints that lose unsynced lines with the power."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from millstream.engines.simulated.world.faults import Died
from millstream.engines.simulated.world.scheduler import Ready
from millstream.engines.simulated.world.world import World
from millstream.log.epochs import Base, Epoch, EpochLog, Totals
from millstream.log.journal.segment import Segment
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.checkpoint_writer import CheckpointWriter
from millstream.state.checkpoints import Checkpoint, CheckpointStore, States

__all__ = ["Disk", "SimulatedCheckpointWriter", "SimulatedEpochLog"]

_LINES = {"epoch": "the cut of epoch", "receipt": "the receipt of epoch", "commit": "the commit of epoch"}
_SEGMENT_BYTES = 3000
"""Segments of some epochs, so that schedules begin, pack and drop segments."""
_GARBAGE = 0.3
_TORN = 0.5


class Disk:
    """A folder for the epoch log and one for the checkpoints; the synced size of the epoch log outlives a process.

    `dropped` has the epochs up to the base of the epoch log, for the checker.
    """

    def __init__(self, folder: Path) -> None:
        self.epochs, self.checkpoints = folder / "epochs", folder / "checkpoints"
        self.dropped: dict[int, Epoch] = {}
        self._synced, self._newest = 0, ""

    def remember(self, epochs: Iterable[Epoch]) -> None:
        self.dropped |= {epoch.number: epoch for epoch in epochs}

    def mark_synced(self) -> None:
        segment = self._segment()
        self._synced, self._newest = segment.stat().st_size, segment.name

    def follow_roll(self) -> None:
        """Take note of a new segment: all before it is synced, and of the segment its head."""
        segment = self._segment()
        if segment.name != self._newest:
            with Segment(self.epochs, int(segment.stem)) as opened:
                self._synced, self._newest = opened.end_byte, segment.name

    def lose_power(self, rng: random.Random) -> None:
        """Keep none, a part or all of the unsynced bytes; any bytes may follow in place of the others."""
        if not self.epochs.is_dir():
            return
        segment = self._segment()
        size = segment.stat().st_size
        synced = min(self._synced, size)
        kept = rng.choice((synced, rng.randint(synced, size), size))
        with segment.open("r+b") as file:
            file.truncate(kept)
            if rng.random() < _GARBAGE:
                file.seek(kept)
                file.write(rng.choice((bytes, rng.randbytes))(size - kept))
        self._synced = kept

    def _segment(self) -> Path:
        return max(self.epochs.glob("*.journal"))


class SimulatedEpochLog(EpochLog):
    """The epoch log. Each written line and each sync is an effect; `committed` is called after each commit."""

    def __init__(self, disk: Disk, world: World, committed: Callable[[int], None], begin: Totals | None = None) -> None:
        super().__init__(disk.epochs, begin, _SEGMENT_BYTES)
        self._disk, self._world, self._committed = disk, world, committed
        if self.totals.next_epoch == 0:
            disk.mark_synced()

    def sync(self) -> None:
        self._world.effect(lambda: "the epoch log is synced", self._sync)

    def _sync(self) -> None:
        super().sync()
        self._disk.mark_synced()

    def move_base(self, base: Base) -> None:
        self._disk.remember(epoch for epoch in self.reader().epochs() if epoch.number <= base.epoch)
        self._world.effect(lambda: f"the base is epoch {base.epoch}", lambda: self._move_base(base))

    def _move_base(self, base: Base) -> None:
        super().move_base(base)
        self._disk.mark_synced()

    def drop_oldest(self) -> bool:
        return self._world.effect(lambda: "segments before the base are dropped", super().drop_oldest)

    def compact(self, settled: int, boundaries: Collection[int]) -> Iterator[None]:
        for _ in super().compact(settled, boundaries):
            self._world.effect(lambda: "the epoch log is compacted", lambda: None)
            yield

    def _append(self, line: dict[str, Any]) -> None:
        kind, number = next(iter(line.items()))
        append = super()._append

        def do() -> None:
            append(line)
            self._disk.follow_roll()
            if kind == "commit":
                self._committed(number)

        self._world.effect(lambda: f"logs {_LINES[kind]} {number}", do)


class SimulatedCheckpointWriter(CheckpointWriter):
    """Writes a checkpoint as steps of the scheduler; the coordinator may continue, wait or die in the meantime.

    `written` is called as soon as a checkpoint is durable. `done`, which informs the lifecycle, is called later.
    """

    def __init__(
        self,
        store: CheckpointStore,
        done: Callable[[Checkpoint], None],
        disk: Disk,
        world: World,
        written: Callable[[Checkpoint], None],
    ) -> None:
        super().__init__(store, done)
        self._disk, self._world, self._written = disk, world, written
        self._pending: tuple[int, AppliedEpochs, States] | None = None
        self._checkpoint: Checkpoint | None = None
        self._writing = False
        world.scheduler.join(self)

    @property
    def busy(self) -> bool:
        return self._pending is not None

    def start(self, epoch: int, applied: AppliedEpochs, states: States) -> None:
        self.wait()
        self._pending = epoch, applied, states

    def wait(self) -> None:
        while self._pending is not None:
            self._world.scheduler.step()

    def ready(self) -> Iterator[Ready]:
        if self._pending is not None and not self._writing:
            yield "checkpoint writer", self._continue

    def _continue(self) -> None:
        self._writing = True
        checkpoint = self._checkpoint
        if checkpoint is None and self._pending is not None:
            self._checkpoint = self._write_pending(*self._pending)
        elif checkpoint is not None:
            self._world.effect(lambda: f"checkpoint {checkpoint.number} is done", lambda: self._done(checkpoint))
            self._pending = self._checkpoint = None
        self._writing = False

    def _write_pending(self, epoch: int, applied: AppliedEpochs, states: States) -> Checkpoint:
        scheduler = self._world.scheduler
        scheduler.interleave()
        try:
            self._world.step(effect=True)
        except Died:
            if scheduler.rng.random() < _TORN:
                self._tear(self._store.write(epoch, applied, states))
            raise
        checkpoint = self._store.write(epoch, applied, states)
        self._written(checkpoint)
        scheduler.progress()
        scheduler.trace(
            lambda: f"checkpoint writer: checkpoint {checkpoint.number} of epoch {checkpoint.epoch} is written"
        )
        self._world.step(effect=True)
        return checkpoint

    def _tear(self, checkpoint: Checkpoint) -> None:
        """Cut a checkpoint file short, as a process leaves it that dies while writing."""
        path = self._disk.checkpoints / f"{checkpoint.number:010d}.checkpoint"
        with path.open("r+b") as file:
            file.truncate(self._world.scheduler.rng.randrange(path.stat().st_size))
        path.rename(path.with_suffix(".tmp"))
