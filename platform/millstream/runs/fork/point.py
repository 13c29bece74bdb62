"""The point at which a fork leaves the old run: a checkpoint, and the last epoch that is replayed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from millstream.errors import ConfigError, Contradiction, MillstreamError
from millstream.log.epochs import Base, Epoch, EpochReader, Totals
from millstream.runs.directory import RunDirectory
from millstream.runs.savepoint import find_savepoint
from millstream.state.checkpoints import Checkpoint, CheckpointReader
from millstream.state.savepoints import savepoints

__all__ = ["fork_point"]

_SHOWN = 6
"""The checkpoints that a message names at each end of a long list."""


@dataclass(frozen=True)
class ForkPoint:
    """`totals` are those after the epoch of the checkpoint; without a checkpoint, those of a run that begins.

    `last` is the last epoch of the old run that the fork has too.
    """

    reader: EpochReader
    checkpoints: CheckpointReader
    totals: Totals
    checkpoint: Checkpoint | None
    last: int

    def epochs(self) -> Iterator[Epoch]:
        """The epochs of the old run from the checkpoint to the last one."""
        first = self.totals.next_epoch
        if first > self.last:
            return
        for epoch in self.reader.epochs(first):
            if epoch.number > self.last:
                return
            yield epoch


def fork_point(original: RunDirectory, at: int | str | None, *, from_start: bool) -> ForkPoint:
    """Choose the newest checkpoint, or the newest one at or before the epoch `at`, or the savepoint of that name.

    The old run may go on meanwhile.

    An epoch that is committed or in a checkpoint is durable, so no line is read that a loss of power could remove.
    """
    original.check_epoch_log()
    if not any(original.epochs.glob("*")):
        raise _no_epochs(original)
    reader = EpochReader(original.epochs)
    if isinstance(at, str):
        return _at_savepoint(original, at, reader, from_start=from_start)
    totals = reader.totals()
    checkpoints = CheckpointReader(original.path, totals.checkpoint)
    kept = [each for each in checkpoints.all() if each.epoch >= totals.base.epoch]
    last = max([totals.committed, *(each.epoch for each in kept)])
    if last < 0:
        raise _no_epochs(original)
    if at is not None and at > last:
        message = f"{original.path} has no epoch {at} yet: epoch {last} is the last one that is committed"
        raise Contradiction(message)
    last = last if at is None else at
    if from_start:
        if totals.base.epoch >= 0:
            message = (
                f"{original.path} begins after epoch {totals.base.epoch}, its base, so its first cuts are gone (`keep` "
                f"is the period that they are kept); leave out --from-start: {_described(original, kept)}"
            )
            raise Contradiction(message)
        if totals.base.checkpoint is not None:  # a run that began with a model
            begun = checkpoints.numbered(totals.base.checkpoint)
            return ForkPoint(reader, checkpoints, reader.base_totals(), begun, last)
        return ForkPoint(reader, checkpoints, Totals(), None, last)
    usable = [each for each in kept if each.epoch <= last]
    if not usable:
        start, why = ", or replay everything with --from-start", ""
        if totals.base.epoch >= 0:
            start, why = "", f", because it begins after epoch {totals.base.epoch}, its base"
        message = (
            f"{original.path} keeps no checkpoint at or before epoch {last}{why}: {_described(original, kept)}{start}"
        )
        raise Contradiction(message)
    checkpoint = usable[-1]
    base = Base(checkpoint.epoch, checkpoint.number)
    return ForkPoint(reader, checkpoints, reader.totals_at(base), checkpoint, last)


def _at_savepoint(original: RunDirectory, name: str, reader: EpochReader, *, from_start: bool) -> ForkPoint:
    """The savepoint of this name, and no epoch after it: they may be gone."""
    savepoint = find_savepoint(original, name)
    totals = savepoint.read(original.path)
    if from_start:
        message = f"--from-start begins with nothing, and the savepoint {name!r} has a state; leave out one of the two"
        raise ConfigError(message)
    checkpoints = CheckpointReader(original.path, savepoint.checkpoint)
    return ForkPoint(reader, checkpoints, totals, checkpoints.numbered(savepoint.checkpoint), totals.base.epoch)


def _no_epochs(original: RunDirectory) -> MillstreamError:
    return MillstreamError(f"{original.path} has no epoch yet: there is nothing to fork; run the config by itself")


def _described(original: RunDirectory, kept: Sequence[Checkpoint]) -> str:
    epochs = [str(each.epoch) for each in kept]
    if len(epochs) > 2 * _SHOWN:
        epochs = [*epochs[:_SHOWN], "...", *epochs[-_SHOWN:]]
    names = ", ".join(each.name for each in savepoints(original.path))
    also = f"; the savepoints are {names}" if names else ""
    return f"there are checkpoints after the epochs {', '.join(epochs)}{also}" if epochs else f"there is none{also}"
