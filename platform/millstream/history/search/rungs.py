"""The rungs of a search by successive halving: many candidates learn few records, the best of them learn more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["LEAST_RECORDS", "Rung", "rungs_of"]

LEAST_RECORDS = 1000
"""The records of the first rung, at least: after fewer, the order of candidates says little."""


@dataclass(frozen=True)
class Rung:
    """The number of a rung, from 1 on, its candidates, and the first records of the history that they learn."""

    number: int
    candidates: int
    records: int


def rungs_of(candidates: int, records: int, factor: int | None, least: int = LEAST_RECORDS) -> Sequence[Rung]:
    """The rungs of so many candidates; in the last one the best learn all records before those held out.

    >>> [(rung.candidates, rung.records) for rung in rungs_of(24, 90_000, 3)]
    [(24, 10000), (8, 30000), (3, 90000)]
    >>> rungs_of(24, 2_000, 3)
    [Rung(number=1, candidates=24, records=2000)]
    """
    below = 0
    if factor is not None:
        while factor ** (below + 1) <= candidates and records // factor ** (below + 1) >= least:
            below += 1
    return [
        Rung(number + 1, -(-candidates // (factor or 1) ** number), records // (factor or 1) ** (below - number))
        for number in range(below + 1)
    ]
