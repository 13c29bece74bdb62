"""The checker of simulated runs: every difference from the promise of the delivery, in a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from millstream.engines.simulated.run.run import Ended
from millstream.engines.simulated.verdict.golden import Golden, ReferenceRuns
from millstream.engines.simulated.verdict.history import History
from millstream.engines.simulated.world.sinks import Kept
from millstream.guarantees.delivery import Effects
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.checkpoints import States
from millstream.state.dirty_rows import Value

__all__ = ["differences_exactly_once", "differences_of_the_others", "differing_states"]


def differences_exactly_once(
    ended: Ended, kept: Mapping[str, Kept], applied: AppliedEpochs, golden: Golden
) -> Iterator[str]:
    """A run whose crashes must not show: state, rows in their order, and totals are those of the golden run."""
    yield from _of_the_end(ended)
    if applied != AppliedEpochs([[0, ended.last + 1]]):
        yield f"of {ended.last + 1} epochs the state has applied {applied.ranges}, and again {applied.repeats}"
    yield from differing_states(ended.job.processor.save(), golden.states)
    for name, sink in kept.items():
        rows, expected = sink.rows(), golden.rows[name]
        if not rows.equals(expected):
            yield f"{name}: {rows.num_rows} rows, not the {expected.num_rows} of a run without crashes"
    totals = ended.job.epoch_log.totals
    for total in ("epochs", "records", "rejects", "correct", "labelled", "baselines", "rows"):
        found, wanted = getattr(totals, total), getattr(golden.totals, total)
        if found != wanted:
            yield f"{total} come to {found}, without crashes to {wanted}"


def differences_of_the_others(
    ended: Ended, kept: Mapping[str, Kept], history: History, applied: AppliedEpochs, references: ReferenceRuns
) -> Iterator[str]:
    """A run whose crashes show exactly as the delivery says.

    Records are counted by their epochs, as a crash leaves all of an epoch or nothing; which rows those are, and which
    state, is what one process makes of the same epochs in the order in which this run's state has met them.
    """
    yield from _of_the_end(ended)
    union = history.union()
    if history.known and (by_points := history.by_the_function()) != union:
        expected = f"the crashes {history.crashes} are to give {_shown(by_points)}"
        yield f"{expected}, and what was durable gives {_shown(union)}"
    every = range(ended.last + 1)
    if applied.twice() != union.trained_twice:
        yield f"trained twice: epochs {sorted(applied.twice())}, to be {sorted(union.trained_twice)}"
    if applied.lost(every) != union.lost:
        yield f"lost to the model: epochs {sorted(applied.lost(every))}, to be {sorted(union.lost)}"
    yield from differing_states(ended.job.processor.save(), references.states(history.met(ended.last)))
    for index, (name, sink) in enumerate(kept.items()):
        epochs = [epoch for epoch, _ in sink.appends]
        repeated, missing = union.rows_repeated[index], union.rows_missing[index]
        twice = {epoch for epoch in epochs if epochs.count(epoch) > 1}
        if twice != repeated:
            yield f"{name}: rows of epochs {sorted(twice)} are repeated, to be {sorted(repeated)}"
        if (gone := set(every) - set(epochs)) != missing:
            yield f"{name}: rows of epochs {sorted(gone)} are missing, to be {sorted(missing)}"
        for (epoch, rows), met in zip(sink.appends, history.appends[index], strict=True):
            if not rows.equals(references.rows(met)[name]):
                yield f"{name}: the {rows.num_rows} rows of epoch {epoch} are not those of one process"


def _of_the_end(ended: Ended) -> Iterator[str]:
    """The differences from what holds for every run that has ended by itself."""
    if (committed := ended.job.epoch_log.totals.committed) != ended.last:
        yield f"it ended with epoch {ended.last}, and committed {committed}"


def differing_states(found: States, expected: States) -> Iterator[str]:
    """The parts of a state that are not the same to the bit."""
    for step in [*expected, *(step for step in found if step not in expected)]:
        mine, other = found.get(step, {}), expected.get(step, {})
        for name in [*other, *(name for name in mine if name not in other)]:
            if name not in mine or name not in other or not _same(mine[name], other[name]):
                yield f"the state of {step}: {name} is another"


def _same(one: Value, other: Value) -> bool:
    if isinstance(one, bytes) or isinstance(other, bytes):
        return one == other
    same = one.dtype == other.dtype and one.shape == other.shape
    return same and bool((np.ascontiguousarray(one).view(np.uint8) == np.ascontiguousarray(other).view(np.uint8)).all())


def _shown(found: Effects) -> str:
    return ", ".join(f"{name} {value}" for name, value in vars(found).items())
