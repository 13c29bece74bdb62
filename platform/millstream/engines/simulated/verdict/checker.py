"""The checker of simulated runs: a line for every difference from the promise of the delivery."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from millstream.digests import Digest, digest_of
from millstream.engines.simulated.run.history import History
from millstream.engines.simulated.run.run import FinishedRun
from millstream.engines.simulated.verdict.golden import Golden, ReferenceRuns
from millstream.engines.simulated.world.sinks import SinkContent
from millstream.guarantees.delivery import Effects
from millstream.log.epochs import EpochReceipt
from millstream.state.applied_epochs import AppliedEpochs
from millstream.steps.outcome import Outcome

__all__ = ["differences_by_history", "differences_exactly_once"]


def differences_exactly_once(
    ended: FinishedRun, contents: Mapping[str, SinkContent], applied: AppliedEpochs, golden: Golden
) -> Iterator[str]:
    """Check a run with exactly_once: its state, rows in order and totals must equal those of the golden run."""
    yield from _check_end(ended)
    begin = ended.job.epoch_log.totals.base.epoch + 1
    applied.drop_before(begin)
    if applied != AppliedEpochs([[begin, ended.last + 1]] if begin <= ended.last else []):
        yield f"of {ended.last + 1} epochs the state has applied {applied.ranges}, and twice {applied.repeats}"
    yield from _differing_states(ended.job.outcome, golden.outcome)
    for name, sink in contents.items():
        rows, expected = sink.rows(), golden.rows[name]
        if not rows.equals(expected):
            yield f"{name}: {rows.num_rows} rows, not the {expected.num_rows} of a run without crashes"
        yield from _check_sums(name, sink, ended.job.lifecycle.delivered[name])
    totals = ended.job.epoch_log.totals
    for total in ("epochs", "records", "rejects", "scores", "rows"):
        found, wanted = getattr(totals, total), getattr(golden.totals, total)
        if found != wanted:
            yield f"the total of {total} is {found}, in a run without crashes {wanted}"
    receipts = [receipt for receipt in ended.job.epoch_log.reader().receipts() if receipt.attempt == 1]
    if {epoch for receipt in receipts for epoch in receipt.counts if epoch >= begin} != set(
        range(begin, ended.last + 1)
    ):
        yield f"not every epoch since {begin} has a receipt"
    for receipt in receipts:
        if not _same_receipt(receipt, [golden.receipts[epoch] for epoch in receipt.counts]):
            yield f"the receipt of epoch {receipt.epoch} is not that of a run without crashes"


def _same_receipt(found: EpochReceipt, wanted: Sequence[EpochReceipt]) -> bool:
    """True if a receipt, perhaps a merged one, is that of these epochs."""
    if found.merged is None:
        return [found] == wanted
    outputs: dict[str, Digest] = {}
    for receipt in wanted:
        outputs |= {name: outputs.get(name, Digest()) + digest for name, digest in receipt.outputs.items()}
    counts = {receipt.epoch: receipt.records for receipt in wanted}
    same = (found.outputs, found.counts, found.watermarks) == (outputs, counts, wanted[-1].watermarks)
    return same and found.records == sum(counts.values())


def differences_since_base(
    ended: FinishedRun, contents: Mapping[str, SinkContent], golden: Golden, tail: Golden
) -> Iterator[str]:
    """Check that a run without crashes from the base on has the state, and the rows since, of this run."""
    base = ended.job.epoch_log.totals.base.epoch
    yield from (f"since the base: {line}" for line in _differing_states(tail.outcome, ended.job.outcome))
    for name, sink in contents.items():
        receipts = [receipt for epoch, receipt in golden.receipts.items() if epoch > base]
        count = sum(receipt.outputs.get(name, Digest()).count for receipt in receipts)
        rows, made = sink.rows(), tail.rows[name]
        since = rows.slice(rows.num_rows - count)
        if not made.equals(since):
            yield f"{name}: {made.num_rows} rows since the base, epoch {base}, and {since.num_rows} in this run"


def _check_sums(name: str, sink: SinkContent, found: Digest) -> Iterator[str]:
    """Check that the sums are over all rows ever appended."""
    if found != (wanted := digest_of(sink.rows())):
        yield f"{name}: the digest of all appended rows is {wanted}, and their sum {found}"


def differences_by_history(
    ended: FinishedRun,
    contents: Mapping[str, SinkContent],
    history: History,
    applied: AppliedEpochs,
    references: ReferenceRuns,
) -> Iterator[str]:
    """Check a run with another delivery: the effects of its crashes must be exactly those that the delivery allows.

    Effects are counted in epochs, because a crash leaves all of an epoch or nothing. The rows and the state must be
    those of one process that gets the same epochs in the order in which the state of this run got them.
    """
    yield from _check_end(ended)
    union = history.effects()
    if history.known and (by_points := history.effects_by_points()) != union:
        expected = f"the crashes {history.crashes} should give {_format(by_points)}"
        yield f"{expected}, and the durable epochs give {_format(union)}"
    every = range(ended.last + 1)
    since = range(ended.job.epoch_log.totals.base.epoch + 1, ended.last + 1)
    twice, lost = applied.twice().intersection(since), applied.lost(since)
    if twice != union.trained_twice.intersection(since):
        yield f"trained twice: epochs {sorted(twice)}, expected {sorted(union.trained_twice)} after {since.start - 1}"
    if lost != union.lost.intersection(since):
        yield f"lost to the model: epochs {sorted(lost)}, expected {sorted(union.lost)} after {since.start - 1}"
    yield from _differing_states(ended.job.outcome, references.outcome(history.met(ended.last)))
    for index, (name, sink) in enumerate(contents.items()):
        yield from _check_sums(name, sink, ended.job.lifecycle.delivered[name])
        epochs = [epoch for epoch, _ in sink.appends]
        repeated, missing = union.rows_repeated[index], union.rows_missing[index]
        several = {epoch for epoch in epochs if epochs.count(epoch) > 1}
        if several != repeated:
            yield f"{name}: rows of epochs {sorted(several)} are repeated, expected {sorted(repeated)}"
        if (gone := set(every) - set(epochs)) != missing:
            yield f"{name}: rows of epochs {sorted(gone)} are missing, expected {sorted(missing)}"
        for (epoch, rows), order in zip(sink.appends, history.appends[index], strict=True):
            if not rows.equals(references.rows(order)[name]):
                yield f"{name}: the {rows.num_rows} rows of epoch {epoch} are not those of one process"


def _check_end(ended: FinishedRun) -> Iterator[str]:
    """Check what every delivery promises at the end of a run: all epochs are committed."""
    if (committed := ended.job.epoch_log.totals.committed) != ended.last:
        yield f"the run ended with epoch {ended.last}, but committed only up to epoch {committed}"


def _differing_states(found: Outcome, expected: Outcome) -> Iterator[str]:
    """The steps whose states are not equal bit by bit, and the model."""
    for step in {**expected.states, **found.states}:
        if found.states.get(step, Digest()) != expected.states.get(step, Digest()):
            yield f"the state of {step} differs"
    if found.model != expected.model:
        yield "the model differs"


def _format(found: Effects) -> str:
    return ", ".join(f"{name} {value}" for name, value in vars(found).items())
