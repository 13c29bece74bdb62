"""Retention: the base of a run moves forward by `keep`; what is before it is dropped, what is left is compacted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from millstream.log.epochs import Base, EpochLog
from millstream.state.checkpoints import Checkpoint, CheckpointStore
from millstream.state.version_store import VersionStore

__all__ = ["Retention"]


@dataclass
class Retention:
    """Chooses the base among the checkpoints that are kept. `keep` is in microseconds; None: everything is kept."""

    log: EpochLog
    checkpoints: CheckpointStore
    keep: int | None
    clock: Callable[[], int]
    versions: VersionStore | None = None

    def clean(self) -> None:
        """Remove the versions of models that no epoch since the base names."""
        if self.versions is not None:
            self.versions.clean(self.log.totals.models.named_since(self.log.totals.base.epoch))

    def needed(self, settled: int) -> Collection[int]:
        """The numbers of the checkpoints that must not be removed: that of the base, and that of the next base."""
        upcoming = self._next(settled)
        wanted = (self.log.totals.base.checkpoint, upcoming.number if upcoming is not None else None)
        return {number for number in wanted if number is not None}

    def work(self, settled: int) -> Iterator[None]:
        """Move the base, drop the segments before it, and compact the closed segments. Yields after each step.

        After each step, a reader finds every epoch since the base. `settled` is the last epoch that is committed and
        that all sinks have: the base does not pass it.
        """
        checkpoint = self._next(settled)
        if checkpoint is not None:
            self.log.move_base(Base(checkpoint.epoch, checkpoint.number))
            yield
            self.clean()
            yield
        while self.log.drop_oldest():
            yield
        yield from self.log.compact(settled, self.checkpoints.epochs())

    def _next(self, settled: int) -> Checkpoint | None:
        """The checkpoint of the next base; None if the base stays."""
        if self.keep is None:
            return None
        found = self.checkpoints.before(self.clock() - self.keep, upto=settled)
        return found if found is not None and found.epoch > self.log.totals.base.epoch else None
