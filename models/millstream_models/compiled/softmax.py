"""Logistic regression over all classes at once, one record after the other: by gradients, and by FTRL-proximal.

Each row of the table belongs to a dimension; the last row is the bias, which every record has. A row holds one number
for each class and, if the learner needs it, a second number for each class after those.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millstream.compiled.jit import compiled

__all__ = ["ADAPTIVE", "CONSTANT", "DECAYING", "ftrl_chances", "softmax_chances", "take_ftrl", "take_softmax"]

CONSTANT, DECAYING, ADAPTIVE = 0, 1, 2
_DECAY = 0.3
_TINY = np.float32(1e-12)  # so that nothing is divided by squares that are too small for a number


@compiled
def take_softmax(
    indptr: Any,
    indices: Any,
    counts: Any,
    labels: Any,
    known: Any,
    table: Any,
    dirty: Any,
    width: Any,
    learned: Any,
    learning_rate: Any,
    kind: Any,
    predict: Any,
    best: Any,
    probability: Any,
) -> None:
    """Predict each row if `predict` is set, then learn its label if it has one.

    `learned` holds the number of records learned. With an adaptive rate, a row of `table` holds the weights and then
    the sums of the squares of all their gradients.
    """
    bias = table.shape[0] - 1
    margins, chances = np.zeros(width, np.float32), np.zeros(width)
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        label = labels[row]
        if not predict and label < 0:
            continue
        scale = _scale(counts, start, stop)
        for c in range(width):
            margins[c] = table[bias, c]
        for entry in range(start, stop):
            index, value = indices[entry], counts[entry] * scale
            for c in range(width):
                margins[c] += table[index, c] * value
        if predict:
            best[row], probability[row] = _choose(margins, known, chances)
        if label >= 0:
            if label >= known or not predict:
                known = max(known, label + 1)
                _choose(margins, known, chances)
            chances[label] -= 1
            learned[0] += 1
            rate = np.float32(learning_rate)
            if kind == DECAYING:
                rate = np.float32(learning_rate / learned[0] ** _DECAY)
            for entry in range(start, stop + 1):
                index, value = bias, np.float32(1)
                if entry < stop:
                    index, value = np.int64(indices[entry]), counts[entry] * scale
                dirty[index] = 1
                if kind == ADAPTIVE:
                    for c in range(known):
                        gradient = np.float32(chances[c]) * value
                        table[index, width + c] += gradient * gradient
                        table[index, c] -= rate * gradient / np.sqrt(table[index, width + c] + _TINY)
                else:
                    for c in range(known):
                        table[index, c] -= rate * (np.float32(chances[c]) * value)


@compiled
def take_ftrl(
    indptr: Any,
    indices: Any,
    counts: Any,
    labels: Any,
    known: Any,
    table: Any,
    dirty: Any,
    width: Any,
    alpha: Any,
    beta: Any,
    l1: Any,
    l2: Any,
    predict: Any,
    best: Any,
    probability: Any,
) -> None:
    """Predict each row if `predict` is set, then learn its label by FTRL-proximal if it has one.

    A row of `table` holds z of each class and then the root of the sum of all squared gradients of each class. The
    weight is computed from z and this root; the weight is 0 while the absolute value of z is at most `l1`.
    """
    bias = table.shape[0] - 1
    rate, least, more = np.float32(1 / alpha), np.float32(l1), np.float32(beta / alpha + l2) + _TINY
    margins, chances = np.zeros(width, np.float32), np.zeros(width)
    weights = np.zeros((64, width), np.float32)
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        label = labels[row]
        if not predict and label < 0:
            continue
        if stop - start + 1 > len(weights):
            weights = np.zeros((2 * (stop - start + 1), width), np.float32)
        scale = _scale(counts, start, stop)
        margins[:] = 0
        for entry in range(start, stop + 1):
            index, value = bias, np.float32(1)
            if entry < stop:
                index, value = np.int64(indices[entry]), counts[entry] * scale
            for c in range(width):
                z = table[index, c]
                beyond = abs(z) - least
                weight = np.float32(0)
                if not beyond <= 0:  # NaN goes on to the probability, where `Learner` finds it
                    weight = -np.copysign(beyond, z) / (table[index, width + c] * rate + more)
                weights[entry - start, c] = weight
                margins[c] += weight * value
        if predict:
            best[row], probability[row] = _choose(margins, known, chances)
        if label >= 0:
            if label >= known or not predict:
                known = max(known, label + 1)
                _choose(margins, known, chances)
            chances[label] -= 1
            for entry in range(start, stop + 1):
                index, value = bias, np.float32(1)
                if entry < stop:
                    index, value = np.int64(indices[entry]), counts[entry] * scale
                dirty[index] = 1
                for c in range(known):
                    gradient = np.float32(chances[c]) * value
                    before = table[index, width + c]
                    after = np.sqrt(before * before + gradient * gradient)
                    table[index, c] += gradient - (after - before) * rate * weights[entry - start, c]
                    table[index, width + c] = after


@compiled
def softmax_chances(indptr: Any, indices: Any, counts: Any, table: Any, width: Any, found: Any) -> None:
    """Write the probability of each known class in each row to `found`."""
    bias, known = table.shape[0] - 1, found.shape[1]
    margins = np.zeros(width, np.float32)
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        scale = _scale(counts, start, stop)
        for c in range(width):
            margins[c] = table[bias, c]
        for entry in range(start, stop):
            index, value = indices[entry], counts[entry] * scale
            for c in range(width):
                margins[c] += table[index, c] * value
        _choose(margins, known, found[row])


@compiled
def ftrl_chances(
    indptr: Any,
    indices: Any,
    counts: Any,
    table: Any,
    width: Any,
    alpha: Any,
    beta: Any,
    l1: Any,
    l2: Any,
    found: Any,
) -> None:
    """Write the probability of each known class in each row to `found`."""
    bias, known = table.shape[0] - 1, found.shape[1]
    rate, least, more = np.float32(1 / alpha), np.float32(l1), np.float32(beta / alpha + l2) + _TINY
    margins = np.zeros(width, np.float32)
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        scale = _scale(counts, start, stop)
        margins[:] = 0
        for entry in range(start, stop + 1):
            index, value = bias, np.float32(1)
            if entry < stop:
                index, value = np.int64(indices[entry]), counts[entry] * scale
            for c in range(width):
                z = table[index, c]
                beyond = abs(z) - least
                if not beyond <= 0:
                    margins[c] += -np.copysign(beyond, z) / (table[index, width + c] * rate + more) * value
        _choose(margins, known, found[row])


@compiled
def _scale(counts: Any, start: Any, stop: Any) -> Any:
    """The factor that scales a row to length 1, so that a long text weighs as much as a short one."""
    squares = np.float32(0)
    for entry in range(start, stop):
        squares += counts[entry] * counts[entry]
    return np.float32(1) / np.sqrt(squares) if squares > 0 else np.float32(0)


@compiled
def _choose(margins: Any, known: Any, chances: Any) -> Any:
    """The likeliest known class and its probability; writes the probabilities of all known classes to `chances`."""
    if known == 0:
        return -1, 0.0
    chosen = 0
    for c in range(1, known):
        if margins[c] > margins[chosen]:
            chosen = c
    whole = 0.0
    for c in range(known):
        chances[c] = np.exp(np.float64(margins[c]) - np.float64(margins[chosen]))
        whole += chances[c]
    for c in range(known):
        chances[c] /= whole
    return chosen, chances[chosen]
