"""A covering set has every pair of values, every seed, and few cases."""

from __future__ import annotations

import itertools
import math

import pytest
from support.pairs import covering


@pytest.mark.parametrize("sizes", [[2, 2], [3, 1, 4], [16, 3, 4, 6, 2], [5, 5, 5, 5], [2] * 10])
def test_every_pair_of_values_of_two_factors_occurs(sizes: list[int]) -> None:
    cases = covering(sizes)
    for one, other in itertools.combinations(range(len(sizes)), 2):
        found = {(case[one], case[other]) for case in cases}
        assert found == set(itertools.product(range(sizes[one]), range(sizes[other])))


def test_every_seed_is_in_a_case_and_all_pairs_still_occur() -> None:
    sizes = [4, 3, 3]
    seeds = [{0: value, 2: 2} for value in range(4)]
    cases = covering(sizes, seeds)
    assert [(case[0], case[2]) for case in cases[:4]] == [(value, 2) for value in range(4)]
    for one, other in itertools.combinations(range(3), 2):
        assert len({(case[one], case[other]) for case in cases}) == sizes[one] * sizes[other]


@pytest.mark.parametrize("sizes", [[16, 3, 4, 6, 2], [5, 5, 5, 5]])
def test_there_are_not_many_more_cases_than_pairs_of_the_two_largest_factors(sizes: list[int]) -> None:
    assert len(covering(sizes)) <= 1.6 * math.prod(sorted(sizes)[-2:])


def test_the_same_cases_come_out_each_time_and_none_twice() -> None:
    cases = covering([16, 3, 4, 6, 2])
    assert cases == covering([16, 3, 4, 6, 2])
    assert len(set(cases)) == len(cases)


def test_values_with_equal_gain_occur_equally_often_or_the_cheapest_is_chosen() -> None:
    sizes = [6, 6, 3]
    even, uneven = ([case[2] for case in covering(sizes, cheapest_first=first)] for first in ([], [2]))
    assert max(map(even.count, range(3))) - min(map(even.count, range(3))) <= 2
    assert uneven.count(0) > 2 * uneven.count(2)
