"""Pairwise covering sets: few cases in which every pair of values of two factors occurs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["covering"]

Case = tuple[int, ...]
Value = tuple[int, int]
"""A factor and one of its values, by their numbers."""


def covering(sizes: Sequence[int], seeds: Iterable[Mapping[int, int]] = ()) -> list[Case]:
    """Cases in which every value of a factor occurs with every value of every other factor.

    `sizes` are the factors' numbers of values. A seed gives the values of some factors; for each there is a case.
    Where values cover equally many new pairs, the lowest is chosen: the cheapest values come first.

    >>> covering([2, 2, 2])
    [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]
    >>> covering([2, 2], seeds=[{0: 1}])
    [(1, 0), (0, 0), (0, 1), (1, 1)]
    """
    missing = {pair for case in _values(sizes) for pair in case}
    cases: list[Case] = []

    def add(given: Mapping[int, int]) -> None:
        case = _completed(sizes, given, missing)
        missing.difference_update(_pairs(case))
        cases.append(case)

    for seed in seeds:
        add(seed)
    while missing:
        add(dict(min(missing)))
    return cases


def _values(sizes: Sequence[int]) -> Iterable[Iterable[tuple[Value, Value]]]:
    for one, other in itertools.combinations(range(len(sizes)), 2):
        values = itertools.product(range(sizes[one]), range(sizes[other]))
        yield (((one, value), (other, with_value)) for value, with_value in values)


def _pairs(case: Case) -> Iterable[tuple[Value, Value]]:
    return itertools.combinations(enumerate(case), 2)


def _completed(sizes: Sequence[int], given: Mapping[int, int], missing: set[tuple[Value, Value]]) -> Case:
    """A case with the given values, the others chosen one after the other for the most missing pairs."""
    chosen = dict(given)
    for factor, size in enumerate(sizes):
        if factor not in chosen:
            gains = [
                sum(tuple(sorted(((factor, value), other))) in missing for other in chosen.items())
                for value in range(size)
            ]
            chosen[factor] = gains.index(max(gains))
    return tuple(chosen[factor] for factor in range(len(sizes)))
