"""Two baselines that ignore the records' content: the previous label, and the most common label so far.

Both baselines predict the label of every labelled record from the labels before it. Classes are numbered by first
appearance; among equally common classes, the lowest number, which was seen first, is the most common one. The first
label has no label before it: the baselines predict -1, which is wrong.
"""

from __future__ import annotations

import numpy as np

from millstream.log.epochs import Baselines
from millstream.steps.contracts import Array, State

__all__ = ["Guesses", "add_labels", "labels_before", "leaders"]

_NONE = -1
_NARROW = 1 << 16


class Guesses:
    """Follows a stream of labels and counts how often each baseline is right.

    >>> guesses = Guesses()
    >>> guesses.score(np.array([0, 0, 1, 1, 0]))
    Baselines(no_change=2, majority=2)
    """

    def __init__(self) -> None:
        self._last: int
        self._counts: Array
        self.restore({})

    def score(self, labels: Array) -> Baselines:
        """Count how many of these labels, the next ones of the stream, each baseline predicts correctly."""
        if not len(labels):
            return Baselines()
        no_change = int(np.count_nonzero(labels[1:] == labels[:-1])) + int(labels[0] == self._last)
        counts = add_labels(self._counts, labels)
        majority = self._count_majority(labels, counts)
        self._last, self._counts = int(labels[-1]), counts
        return Baselines(no_change, majority)

    def _count_majority(self, labels: Array, after: Array) -> int:
        """Count the labels that were the most common class just before them; `after` has the counts after them all."""
        if len(self._counts):
            first = self._counts.argmax()
            most = self._counts[first]
            if np.count_nonzero(after >= most) == 1:  # no other class can have taken the lead
                return int(after[first] - most)
        most_common, _ = leaders(labels, self._counts)
        return int(np.count_nonzero(most_common[:-1] == labels))

    def save(self) -> State:
        return {"last": np.array([self._last], np.int64), "counts": self._counts.copy()}

    def restore(self, state: State) -> None:
        self._last = int(np.asarray(state["last"])[0]) if state else _NONE
        self._counts = np.array(state.get("counts", np.zeros(0)), np.int64)


def labels_before(labels: Array, last: int) -> Array:
    """Return the label before each of these labels, and then the last of these; `last` is the label before the first.

    >>> labels_before(np.array([2, 0, 1]), last=-1).tolist()
    [-1, 2, 0, 1]
    """
    return np.concatenate((np.array([last], np.int64), labels))


def leaders(labels: Array, counts: Array) -> tuple[Array, Array]:
    """Return the most common class before each of these labels and after the last one, and that class's counts.

    `counts` has the number of earlier labels of each class.

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
    # A class leads while its count equals the running maximum; ties go to the lowest class number. Subtracting `span`
    # at every rise of the maximum puts later candidates below all earlier ones, so a running minimum finds the leader.
    span = len(counts) + 1
    reaches = np.where(own == highest[1:], labels, len(counts))
    ranked = np.concatenate((np.array([first], np.int64), reaches)) - (highest - most) * span
    return np.minimum.accumulate(ranked) + (highest - most) * span, highest


def add_labels(counts: Array, labels: Array) -> Array:
    """Return these counts by class, increased by these labels."""
    found = np.bincount(labels, minlength=len(counts))
    found[: len(counts)] += counts
    return found


def _occurrences(labels: Array, classes: int) -> Array:
    """Number each label among the labels of its class, from 1 on."""
    narrow = labels.astype(np.uint16) if classes <= _NARROW else labels  # numpy sorts these by radix
    order = np.argsort(narrow, kind="stable")
    sizes = np.bincount(labels, minlength=classes)
    numbers = np.arange(1, len(labels) + 1)
    numbers -= np.repeat(np.cumsum(sizes) - sizes, sizes)
    found = np.empty(len(labels), np.int64)
    found[order] = numbers
    return found
