"""Baselines: how often the previous label, and the most common label so far, predict the next label correctly."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from millstream.log.epochs import Baselines
from millstream.steps.baselines import Guesses, leaders


def counts_in_a_loop(labels: list[int]) -> list[Baselines]:
    """Count the same in a loop, before all labels and after each; among equally common classes the lowest leads."""
    seen: Counter[int] = Counter()
    before, no_change, majority = -1, 0, 0
    counts = [Baselines(0, 0)]
    for label in labels:
        no_change += label == before
        majority += bool(seen) and label == min(seen, key=lambda known: (-seen[known], known))
        before = label
        seen[label] += 1
        counts.append(Baselines(no_change, majority))
    return counts


def one_by_one(labels: list[int]) -> Baselines:
    return counts_in_a_loop(labels)[-1]


def stream(seed: int, size: int) -> list[int]:
    """Return labels numbered by first appearance: in runs or at random, evenly distributed or not."""
    dice = np.random.default_rng(seed)
    classes = int(dice.integers(1, 12))
    drawn = np.minimum(dice.zipf(1.3, size) - 1, classes - 1) if seed % 2 else dice.integers(0, classes, size)
    runs = np.repeat(drawn, dice.integers(1, 5, size))[:size].tolist()
    numbers = {label: number for number, label in enumerate(dict.fromkeys(runs))}
    return [numbers[label] for label in runs]


@pytest.mark.parametrize("seed", range(40))
def test_counts_equal_those_of_a_loop_for_any_cut_of_the_stream(seed: int) -> None:
    labels = stream(seed, 400)
    counts = counts_in_a_loop(labels)
    dice = np.random.default_rng(seed)
    for cuts in (0, 5, 400):
        edges = [0, *sorted(dice.integers(0, 401, cuts).tolist()), 400]
        guesses = Guesses()
        for start, stop in itertools.pairwise(edges):
            part = guesses.score(np.array(labels[start:stop], np.int64))
            assert part == counts[stop] - counts[start]


def test_among_equally_common_classes_the_one_seen_first_leads() -> None:
    classes, counts = leaders(np.array([0, 1, 2, 2, 1, 1, 0, 0]), np.zeros(0, np.int64))
    assert classes.tolist() == [-1, 0, 0, 0, 2, 1, 1, 1, 0]
    assert counts.tolist() == [0, 1, 1, 1, 2, 2, 3, 3, 3]


def test_both_baselines_are_wrong_for_the_first_label() -> None:
    assert Guesses().score(np.array([0])) == Baselines(0, 0)


def test_more_classes_than_fit_into_two_bytes_are_counted_separately() -> None:
    many = np.arange(70_000)
    assert Guesses().score(np.concatenate((many, many[:2], many[:2]))) == Baselines(0, 2)


def test_restored_guesses_continue_and_an_empty_state_makes_new_ones() -> None:
    labels = np.array(stream(1, 200))
    guesses, other = Guesses(), Guesses()
    guesses.score(labels[:100])
    state = guesses.save()
    other.restore(state)
    assert other.score(labels[100:]) == guesses.score(labels[100:])
    other.restore({})
    assert other.score(labels) == one_by_one(labels.tolist())
    restored = Guesses()
    restored.restore(state)  # the state did not change when `guesses` continued
    assert restored.score(labels[100:]) + one_by_one(labels[:100].tolist()) == one_by_one(labels.tolist())
