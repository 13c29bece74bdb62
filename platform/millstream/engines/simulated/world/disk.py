"""The disk of a simulated run: an epoch log and checkpoints that lose unsynced lines with the power."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from millstream.engines.simulated.world.faults import Died
from millstream.engines.simulated.world.scheduler import Ready
from millstream.engines.simulated.world.world import World
from millstream.log.epochs import EpochLog
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.checkpoint_writer import CheckpointWriter
from millstream.state.checkpoints import Checkpoint, CheckpointStore, States

__all__ = ["Disk", "SimulatedCheckpointWriter", "SimulatedEpochLog"]

_LINES = {"epoch": "the cut of epoch", "receipt": "the receipt of epoch", "commit": "the commit of epoch"}
_GARBAGE = 0.3
_TORN = 0.5


class Disk:
    """A folder for the epoch log and one for the checkpoints; how much of the first is synced outlives a process."""

    def __init__(self, folder: Path) -> None:
        self.epochs, self.checkpoints = folder / "epochs", folder / "checkpoints"
        self._synced = 0

    def synced(self) -> None:
        self._synced = self._part().stat().st_size

    def lose_power(self, rng: random.Random) -> None:
        """Of what was not synced there is nothing, a part or all; in the place of the rest there may be anything."""
        if not self.epochs.is_dir():
            return
        part = self._part()
        size = part.stat().st_size
        synced = min(self._synced, size)
        kept = rng.choice((synced, rng.randint(synced, size), size))
        with part.open("r+b") as file:
            file.truncate(kept)
            if rng.random() < _GARBAGE:
                file.seek(kept)
                file.write(rng.choice((bytes, rng.randbytes))(size - kept))
        self._synced = kept

    def _part(self) -> Path:
        return max(self.epochs.glob("*.journal"))


class SimulatedEpochLog(EpochLog):
    """The epoch log, each line and each sync of it an effect; `committed` is called after each commit."""

    def __init__(self, disk: Disk, world: World, committed: Callable[[int], None]) -> None:
        super().__init__(disk.epochs)
        self._disk, self._world, self._committed = disk, world, committed
        if self.totals.next_epoch == 0:
            disk.synced()

    def sync(self) -> None:
        self._world.effect(lambda: "the epoch log is synced", self._sync)

    def _sync(self) -> None:
        super().sync()
        self._disk.synced()

    def _append(self, line: dict[str, Any]) -> None:
        kind, number = next(iter(line.items()))
        append = super()._append

        def do() -> None:
            append(line)
            if kind == "commit":
                self._committed(number)

        self._world.effect(lambda: f"logs {_LINES[kind]} {number}", do)


class SimulatedCheckpointWriter(CheckpointWriter):
    """Writes a checkpoint when its turn comes: the coordinator goes on, or waits, and may die while it is written.

    `written` is called as soon as a checkpoint is durable; `done`, by which the lifecycle learns of it, later.
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
        self._save: Checkpoint | None = None
        self._at_it = False
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
        if self._pending is not None and not self._at_it:
            yield "checkpoint writer", self._go_on

    def _go_on(self) -> None:
        self._at_it = True
        checkpoint = self._save
        if checkpoint is None and self._pending is not None:
            self._save = self._put(*self._pending)
        elif checkpoint is not None:
            self._world.effect(lambda: f"save {checkpoint.number} is done", lambda: self._done(checkpoint))
            self._pending = self._save = None
        self._at_it = False

    def _put(self, epoch: int, applied: AppliedEpochs, states: States) -> Checkpoint:
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
        scheduler.tell(lambda: f"saver: save {checkpoint.number} of epoch {checkpoint.epoch} is written")
        self._world.step(effect=True)
        return checkpoint

    def _tear(self, checkpoint: Checkpoint) -> None:
        """Leave of a checkpoint what a process leaves that dies while it writes it."""
        path = self._disk.checkpoints / f"{checkpoint.number:010d}.checkpoint"
        with path.open("r+b") as file:
            file.truncate(self._world.scheduler.rng.randrange(path.stat().st_size))
        path.rename(path.with_suffix(".tmp"))
