"""The audit: the results of a run, compared by row identity with a golden run of the same epoch log."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from millstream.digests import Digest
from millstream.state.applied_epochs import AppliedEpochs
from millstream.steps.contracts import Array

__all__ = ["Audit", "OutputAudit", "OutputClass", "audit", "audit_output"]

_NOTHING = Digest()


class OutputClass(StrEnum):
    """The class of results after crashes; the first class that fits, in this order, is the class of the results."""

    GAP = "gap"
    PRECISE = "precise"
    REPEATING = "repeating"
    CONVERGENT = "convergent"
    DIVERGENT = "divergent"


@dataclass(frozen=True)
class OutputAudit:
    """The differences of one output from the golden output, counted in distinct row identities."""

    repeated: int
    missing: int
    changed: int
    kind: OutputClass


@dataclass(frozen=True)
class Audit:
    """The result of an audit. The totals are sums over all outputs."""

    records: int
    trained_twice: int
    lost: int
    outputs: Mapping[str, OutputAudit]
    state: OutputClass
    later: Mapping[str, int]
    """The outputs that are not compared because their sink was added later, each with the first epoch of the sink."""
    changed_code: Mapping[str, int | None] = field(default_factory=dict)
    """The user's functions and classes that changed during the run, each with the first epoch that the new code made;
    None if the golden run has other code than the last start of the run."""

    @property
    def rows_repeated(self) -> int:
        return sum(output.repeated for output in self.outputs.values())

    @property
    def rows_missing(self) -> int:
        return sum(output.missing for output in self.outputs.values())

    @property
    def rows_changed(self) -> int:
        return sum(output.changed for output in self.outputs.values())

    @property
    def output(self) -> OutputClass:
        """The class of all outputs together: the worst class of any output."""
        worst_last = [
            OutputClass.PRECISE,
            OutputClass.REPEATING,
            OutputClass.CONVERGENT,
            OutputClass.DIVERGENT,
            OutputClass.GAP,
        ]
        kinds = [output.kind for output in self.outputs.values()]
        return max(kinds, key=worst_last.index, default=OutputClass.PRECISE)


def audit_output(
    identities: Array,
    contents: Array,
    golden_identities: Array,
    golden_contents: Array,
    earlier: Digest = _NOTHING,
    *,
    once: bool = False,
) -> OutputAudit:
    """Compare rows in the order of their delivery. Each row is given by the hashes of its identity and its content.

    Rows of epochs up to the base are not in the golden run. `earlier` is their digest; they may be missing. With
    `once`, each of them was delivered once.

    >>> rows = lambda *values: np.array(values, dtype=np.uint64)
    >>> audit_output(rows(1, 2, 2), rows(10, 20, 20), rows(1, 2), rows(10, 20)).kind
    <OutputClass.REPEATING: 'repeating'>
    >>> audit_output(rows(1, 2, 2), rows(10, 20, 21), rows(1, 2), rows(10, 20)).kind
    <OutputClass.CONVERGENT: 'convergent'>
    """
    order = np.argsort(golden_identities, kind="stable")
    known, content = golden_identities[order], golden_contents[order]
    unknown = ~np.isin(identities, golden_identities) if earlier.count else np.zeros(len(identities), bool)
    foreign = _foreign_rows(identities[unknown], contents[unknown], earlier, once=once)
    identities, contents = identities[~unknown], contents[~unknown]
    distinct, first, counts = np.unique(identities, return_index=True, return_counts=True)
    missing = int(np.setdiff1d(known, distinct).size)
    index = np.searchsorted(known, identities)
    index[index == len(known)] = 0
    same = (
        (known[index] == identities) & (content[index] == contents) if len(known) else np.zeros(len(identities), bool)
    )
    changed = int(np.unique(identities[~same]).size) + foreign
    repeated = int((counts > 1).sum())
    if missing:
        kind = OutputClass.GAP
    elif not repeated and not changed:
        kind = OutputClass.PRECISE
    elif not changed:
        kind = OutputClass.REPEATING
    elif bool(same[first].all()) and not foreign:
        kind = OutputClass.CONVERGENT
    else:
        kind = OutputClass.DIVERGENT
    return OutputAudit(repeated, missing, changed, kind)


def _foreign_rows(identities: Array, contents: Array, earlier: Digest, *, once: bool) -> int:
    """The least number of these rows that are not `earlier` rows.

    If `once`, and if no earlier row is missing, the sum of their hashes must be that of the earlier rows. If some are
    missing, other rows in their place are not noticed.
    """
    if once and len(identities) >= earlier.count:
        other = int(contents.sum(dtype=np.uint64)) != earlier.first
        return max(len(identities) - earlier.count, int(other))
    return max(0, int(np.unique(identities).size) - earlier.count)


def audit(
    counts: Mapping[int, int],
    applied: AppliedEpochs,
    same_state: bool,
    outputs: Mapping[str, OutputAudit],
    later: Mapping[str, int],
) -> Audit:
    """Make an audit. `counts` has the number of records of every epoch since the base, as the golden run read them."""
    twice, lost = applied.twice() & counts.keys(), applied.lost(counts)
    if lost:
        state = OutputClass.GAP
    elif same_state:
        state = OutputClass.CONVERGENT if twice else OutputClass.PRECISE
    else:
        state = OutputClass.DIVERGENT
    return Audit(
        records=sum(counts.values()),
        trained_twice=_count_records(counts, twice),
        lost=_count_records(counts, lost),
        outputs=outputs,
        state=state,
        later=later,
    )


def _count_records(counts: Mapping[int, int], epochs: Collection[int]) -> int:
    """Count the records of these epochs."""
    return sum(counts.get(epoch, 0) for epoch in epochs)
