"""The disk of a simulated run: an epoch log and files of checkpoints that lose what is not synced with the power."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from millstream.engines.simulated.world.files import UnsyncedFiles
from millstream.engines.simulated.world.world import World
from millstream.log.epochs import Base, Epoch, EpochLog, Totals
from millstream.log.journal.segment import Segment

__all__ = ["Disk", "SimulatedEpochLog"]

_LINES = {
    "epoch": "the cut of epoch",
    "receipt": "the receipt of epoch",
    "checkpoint": "checkpoint",
    "commit": "the commit of epoch",
}
_SEGMENT_BYTES = 3000
"""Segments of some epochs, so that schedules begin, pack and drop segments."""
_GARBAGE = 0.3


class Disk:
    """The run directory. The synced size of the epoch log, and the synced files, outlive a loss of power.

    `dropped` has the epochs up to the base of the epoch log, for the checker.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.epochs = folder, folder / "epochs"
        self.checkpoint_files = UnsyncedFiles()
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
        self.checkpoint_files.lose_power(rng)
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
    """The epoch log. Each written line and each sync is an effect; `wrote` is called with each line."""

    def __init__(
        self, disk: Disk, world: World, wrote: Callable[[Mapping[str, Any]], None], begin: Totals | None = None
    ) -> None:
        super().__init__(disk.epochs, begin, _SEGMENT_BYTES)
        self._disk, self._world, self._wrote = disk, world, wrote
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
            self._wrote(line)

        self._world.effect(lambda: f"logs {_LINES[kind]} {number}", do)
