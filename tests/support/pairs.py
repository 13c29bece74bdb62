"""Pairwise covering sets: few cases in which every pair of values of two factors occurs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

__all__ = ["covering"]

Case = tuple[int, ...]
Value = tuple[int, int]
"""The indices of a factor and of one of its values."""


def covering(
    sizes: Sequence[int],
    seeds: Iterable[Mapping[int, int]] = (),
    cheapest_first: Collection[int] = (),
    allowed: Callable[[Case], bool] = lambda case: True,
) -> list[Case]:
    """Cases in which every value of a factor occurs with every value of every other factor.

    `sizes` has the number of values of each factor. A seed gives the values of some factors; there is a case for each
    seed. When several values cover the same number of new pairs, the value that occurs least is chosen; of a factor in
    `cheapest_first`, the first value. All cases are `allowed`: whatever the other values are, each factor must have one
    that makes the case an allowed one.

    >>> covering([2, 2, 2])
    [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]
    >>> covering([2, 2], seeds=[{0: 1}])
    [(1, 0), (0, 0), (0, 1), (1, 1)]
    >>> covering([2, 3, 2], allowed=lambda case: sum(case) % 2 == 0)
    [(0, 0, 0), (0, 1, 1), (0, 2, 0), (1, 0, 1), (1, 1, 0), (1, 2, 1)]
    """
    missing = {pair for case in _values(sizes) for pair in case}
    cases: list[Case] = []

    def best(factor: int, chosen: Mapping[int, int]) -> int:
        possible = [value for value in range(sizes[factor]) if fits({**chosen, factor: value})]
        gains = {value: _gain(missing, (factor, value), chosen) for value in possible}
        values = [value for value in possible if gains[value] == max(gains.values())]
        return values[0] if factor in cheapest_first else min(values, key=[case[factor] for case in cases].count)

    def fits(chosen: Mapping[int, int]) -> bool:
        return len(chosen) < len(sizes) or allowed(tuple(chosen[factor] for factor in range(len(sizes))))

    def add(given: Mapping[int, int]) -> None:
        chosen = dict(given)
        for factor in range(len(sizes)):
            if factor not in chosen:
                chosen[factor] = best(factor, chosen)
        case = tuple(chosen[factor] for factor in range(len(sizes)))
        missing.difference_update(itertools.combinations(enumerate(case), 2))
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


def _gain(missing: Collection[tuple[Value, Value]], value: Value, chosen: Mapping[int, int]) -> int:
    """The number of missing pairs that a value would form with the chosen values."""
    return sum((min(value, other), max(value, other)) in missing for other in chosen.items())
