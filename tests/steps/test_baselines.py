"""Baselines: what the label before and the most common label so far would have had right, record by record."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from millstream.log.epochs import Baselines
from millstream.steps.baselines import Guesses, leaders


def one_by_one(labels: list[int]) -> Baselines:
    """The same as a loop over the labels; of classes as common as each other, the first seen has the least number."""
    seen: Counter[int] = Counter()
    before, no_change, majority = -1, 0, 0
    for label in labels:
        no_change += label == before
        majority += bool(seen) and label == min(seen, key=lambda known: (-seen[known], known))
        before = label
        seen[label] += 1
    return Baselines(no_change, majority)


def stream(seed: int, size: int) -> list[int]:
    """Labels numbered by first appearance: in runs or at random, evenly or not."""
    dice = np.random.default_rng(seed)
    classes = int(dice.integers(1, 12))
    drawn = np.minimum(dice.zipf(1.3, size) - 1, classes - 1) if seed % 2 else dice.integers(0, classes, size)
    runs = np.repeat(drawn, dice.integers(1, 5, size))[:size].tolist()
    numbers = {label: number for number, label in enumerate(dict.fromkeys(runs))}
    return [numbers[label] for label in runs]


@pytest.mark.parametrize("seed", range(40))
def test_counts_are_those_of_a_loop_however_the_stream_is_cut(seed: int) -> None:
    labels = stream(seed, 400)
    dice = np.random.default_rng(seed)
    for cuts in (0, 5, 400):
        edges = [0, *sorted(dice.integers(0, 401, cuts).tolist()), 400]
        guesses = Guesses()
        for start, stop in itertools.pairwise(edges):
            part = guesses.score(np.array(labels[start:stop], np.int64))
            assert part == one_by_one(labels[:stop]) - one_by_one(labels[:start])


def test_of_classes_as_common_as_each_other_the_one_seen_first_leads() -> None:
    classes, counts = leaders(np.array([0, 1, 2, 2, 1, 1, 0, 0]), np.zeros(0, np.int64))
    assert classes.tolist() == [-1, 0, 0, 0, 2, 1, 1, 1, 0]
    assert counts.tolist() == [0, 1, 1, 1, 2, 2, 3, 3, 3]


def test_before_any_label_both_are_wrong() -> None:
    assert Guesses().score(np.array([0])) == Baselines(0, 0)


def test_more_classes_than_fit_into_two_bytes_are_told_apart() -> None:
    many = np.arange(70_000)
    assert Guesses().score(np.concatenate((many, many[:2], many[:2]))) == Baselines(0, 2)


def test_guesses_go_on_from_what_they_saved_and_an_empty_state_is_new() -> None:
    labels = np.array(stream(1, 200))
    guesses, again = Guesses(), Guesses()
    guesses.score(labels[:100])
    state = guesses.save()
    again.restore(state)
    assert again.score(labels[100:]) == guesses.score(labels[100:])
    again.restore({})
    assert again.score(labels) == one_by_one(labels.tolist())
    restored = Guesses()
    restored.restore(state)  # as it was, though the first has gone on
    assert restored.score(labels[100:]) + one_by_one(labels[:100].tolist()) == one_by_one(labels.tolist())
