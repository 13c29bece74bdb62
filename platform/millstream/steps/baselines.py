"""Two guesses that read nothing: the label before, and the most common label so far.

Both guess for every labelled record from the labels before it; classes are numbered by first appearance, so that of
classes as common as each other the least number was seen first. Without a label before it a guess is -1, and wrong.
"""

from __future__ import annotations

import numpy as np

from millstream.log.epochs import Baselines
from millstream.steps.contracts import Array, State

__all__ = ["Guesses", "added", "labels_before", "leaders"]

_NONE = -1
_NARROW = 1 << 16


class Guesses:
    """Follows a stream of labels and counts how often each guess is right.

    >>> guesses = Guesses()
    >>> guesses.score(np.array([0, 0, 1, 1, 0]))
    Baselines(no_change=2, majority=2)
    """

    def __init__(self) -> None:
        self._last: int
        self._counts: Array
        self.restore({})

    def score(self, labels: Array) -> Baselines:
        """How many of these labels, the next ones of the stream, each guess has right."""
        if not len(labels):
            return Baselines()
        no_change = int(np.count_nonzero(labels[1:] == labels[:-1])) + int(labels[0] == self._last)
        counts = added(self._counts, labels)
        majority = self._led(labels, counts)
        self._last, self._counts = int(labels[-1]), counts
        return Baselines(no_change, majority)

    def _led(self, labels: Array, after: Array) -> int:
        """How many of these labels were the most common one when they came; `after` them classes have these counts."""
        if len(self._counts):
            first = self._counts.argmax()
            most = self._counts[first]
            if np.count_nonzero(after >= most) == 1:  # nobody else can have come to lead
                return int(after[first] - most)
        most_common, _ = leaders(labels, self._counts)
        return int(np.count_nonzero(most_common[:-1] == labels))

    def save(self) -> State:
        return {"last": np.array([self._last], np.int64), "counts": self._counts.copy()}

    def restore(self, state: State) -> None:
        self._last = int(np.asarray(state["last"])[0]) if state else _NONE
        self._counts = np.array(state.get("counts", np.zeros(0)), np.int64)


def labels_before(labels: Array, last: int) -> Array:
    """The label before each of these, and in the end the last of all; `last` came before the first of them.

    >>> labels_before(np.array([2, 0, 1]), last=-1).tolist()
    [-1, 2, 0, 1]
    """
    return np.concatenate((np.array([last], np.int64), labels))


def leaders(labels: Array, counts: Array) -> tuple[Array, Array]:
    """The most common class before each of these labels, and in the end that after all; and its counts.

    `counts` has for each class how often it came before.

    >>> classes, counts = leaders(np.array([0, 1, 1, 0]), np.zeros(0, np.int64))
    >>> classes.tolist(), counts.tolist()
    ([-1, 0, 0, 1, 0], [0, 1, 1, 2, 2])
    """
    most = int(counts.max(initial=0))
    first = int(counts.argmax()) if most else _NONE
    if not len(labels):
        return np.array([first], np.int64), np.array([most], np.int64)
    counts = np.pad(counts, (0, max(0, int(labels.max()) + 1 - len(counts))))
    own = counts[labels] + _occurrences(labels, len(counts))
    highest = np.maximum.accumulate(np.concatenate((np.array([most], np.int64), own)))
    # Whoever reaches the highest count is among the leaders until it rises. Of them the least number leads: the least
    # of `ranked` so far, as with each rise it falls below all that was.
    span = len(counts) + 1
    reaches = np.where(own == highest[1:], labels, len(counts))
    ranked = np.concatenate((np.array([first], np.int64), reaches)) - (highest - most) * span
    return np.minimum.accumulate(ranked) + (highest - most) * span, highest


def added(counts: Array, labels: Array) -> Array:
    """These counts by class with these labels."""
    found = np.bincount(labels, minlength=len(counts))
    found[: len(counts)] += counts
    return found


def _occurrences(labels: Array, classes: int) -> Array:
    """Which occurrence of its class each label is, from 1 on."""
    narrow = labels.astype(np.uint16) if classes <= _NARROW else labels  # numpy sorts these by radix
    order = np.argsort(narrow, kind="stable")
    sizes = np.bincount(labels, minlength=classes)
    places = np.arange(1, len(labels) + 1)
    places -= np.repeat(np.cumsum(sizes) - sizes, sizes)
    found = np.empty(len(labels), np.int64)
    found[order] = places
    return found
