"""Crashes of a real run, observed in its run directory: what was durable at each crash, and the effects of each."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from millstream.errors import Contradiction
from millstream.guarantees.delivery import Delivery, DurableEpochs, Effects, effects_of
from millstream.log.epochs import EpochReader
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import load_run, outputs_of
from millstream.state.checkpoints import CheckpointReader

__all__ = ["Observation", "crash_effects", "observe"]

_NOTHING = (-1, 0)


@dataclass(frozen=True)
class Observation:
    """A run directory between a crash and the next start: the newest checkpoint, the last commit, and all sinks.

    `sinks` has for each output the last epoch of its sink and the number of rows that were ever appended.
    """

    checkpoint: int = -1
    checkpointed: int = -1
    committed: int = -1
    sinks: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def observe(run: Path) -> Observation:
    """Read a run directory that no process uses; a start that was killed early may have left little or nothing of it.

    Only a checkpoint counts whose line is in the epoch log.
    """
    directory = RunDirectory(run)
    if not directory.config.exists() or not directory.epochs.is_dir():
        return Observation()
    totals = EpochReader(directory.epochs).totals()
    checkpoint = CheckpointReader(run, totals.checkpoint).newest()
    found = {name: output.progress() for name, output in outputs_of(directory, load_run(directory)).items()}
    return Observation(
        checkpoint=totals.checkpoint,
        checkpointed=-1 if checkpoint is None else checkpoint.epoch,
        committed=totals.committed,
        sinks={name: (each.epoch, each.rows) for name, each in found.items() if each is not None},
    )


def crash_effects(delivery: Delivery, observed: Sequence[Observation], output: str) -> list[Effects]:
    """Return the effects of each crash on the state and on one output, from the observations after the crashes.

    A start that wrote no checkpoint has none of its epochs in a later state, however new the checkpoint is from which
    it began; so too a sink to which it appended nothing. `Contradiction` if the delivery cannot leave an observation.
    """
    found = []
    for before, after in itertools.pairwise([Observation(), *observed]):
        durable = _durable(before, after, output)
        if not _is_possible(delivery, durable, before.committed):
            message = f"{delivery} cannot leave {durable} after a start that followed the commit of {before.committed}"
            raise Contradiction(message)
        found.append(effects_of(delivery, durable))
    return found


def _is_possible(delivery: Delivery, durable: DurableEpochs, last: int) -> bool:
    """Return whether the order of the points allows these epochs; `last` is the one before the start's first epoch."""
    checkpointed, committed, delivered = durable.checkpointed, durable.committed, durable.delivered[0]
    if delivery is Delivery.EXACTLY_ONCE:
        return True  # nothing follows from them
    if delivery is Delivery.AT_LEAST_ONCE:
        return last <= committed <= checkpointed <= delivered
    return last <= min(checkpointed, delivered) and max(checkpointed, delivered) <= committed


def _durable(before: Observation, after: Observation, output: str) -> DurableEpochs:
    """Return the epochs that the start between two observations made durable; it began after the commit `before`."""
    last = before.committed
    delivered = after.sinks.get(output, _NOTHING)
    return DurableEpochs(
        checkpointed=after.checkpointed if after.checkpoint != before.checkpoint else last,
        committed=after.committed,
        delivered=(delivered[0] if delivered != before.sinks.get(output, _NOTHING) else last,),
    )
