"""Naive Bayes over counted words, one record after the other.

A class's likelihood is a product over words. The kernel keeps the product itself and moves its exponent to a separate
number every few words. A record therefore costs one logarithm for each class, not one for each class and word.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millstream.compiled.jit import compiled

__all__ = ["MOST", "all_chances", "take"]

MOST = 2**30
"""All counts are halved when one of them reaches this number. A text has fewer words, so int32 is large enough."""
_SEEN, _WEIGHT = 0, 1  # indexes in `numbers`: the number of dimensions with counts, and the weight of a record now
_RECORDS = 1  # index of the row of `totals` that has the records by class

_FACTORS = 12  # each between 2^-20 and 2^46; with one more for the records at the end, the product is under 2^1023
_HEAVIEST = 2.0**20  # when the weight of a record reaches this number, all counts are divided by it
_FEW = 3  # a word that occurs at most so often is multiplied; of one that occurs more often the logarithm is taken
_LOG_2 = np.log(2.0)
_MANTISSA = np.int64((1 << 52) - 1)
_ONE = np.int64(1023 << 52)


@compiled
def take(
    indptr: Any,
    indices: Any,
    counts: Any,
    labels: Any,
    known: Any,
    table: Any,
    dirty: Any,
    totals: Any,
    numbers: Any,
    alpha: Any,
    growth: Any,
    complement: Any,
    predict: Any,
    best: Any,
    probability: Any,
) -> None:
    """Predict each row if `predict` is set, then learn its label if it has one.

    `table` has the counts by dimension and class; `totals` has their sums by class and, in its second row, the records
    by class. The weight of each record is `growth` times the weight of the one before, so old records lose weight.
    """
    width = table.shape[1]
    products, scores = np.ones(width), np.zeros(width)
    bits = products.view(np.int64)
    exponents = np.zeros(width, np.int64)
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        if predict and known > 0:
            _score(
                indices,
                counts,
                start,
                stop,
                known,
                table,
                totals,
                alpha * numbers[_WEIGHT],
                numbers[_SEEN],
                complement,
                products,
                bits,
                exponents,
                scores,
            )
            chosen = 0
            for c in range(1, known):
                if scores[c] > scores[chosen]:
                    chosen = c
            whole = 0.0
            for c in range(known):
                whole += np.exp(scores[c] - scores[chosen])
            best[row], probability[row] = chosen, 1 / whole
        elif predict:
            best[row], probability[row] = -1, 0.0
        label = labels[row]
        if label >= 0:
            known = max(known, label + 1)
            weight = numbers[_WEIGHT]
            words, full = 0.0, False
            for entry in range(start, stop):
                index = indices[entry]
                if table[index, label] == 0 and not table[index].any():
                    numbers[_SEEN] += 1
                table[index, label] += counts[entry] * weight
                full |= table[index, label] >= MOST
                dirty[index] = 1
                words += counts[entry]
            totals[0, label] += words * weight
            totals[_RECORDS, label] += weight
            if growth > 1:
                numbers[_WEIGHT] = weight * growth
                if numbers[_WEIGHT] >= _HEAVIEST:
                    _shrink(table, dirty, totals, numbers, _HEAVIEST, False)
                    numbers[_WEIGHT] /= _HEAVIEST
            elif full:
                _shrink(table, dirty, totals, numbers, 2.0, True)


@compiled
def all_chances(
    indptr: Any,
    indices: Any,
    counts: Any,
    table: Any,
    totals: Any,
    numbers: Any,
    alpha: Any,
    complement: Any,
    found: Any,
) -> None:
    """Write the probability of each known class in each row to `found`."""
    width, known = table.shape[1], found.shape[1]
    products, scores = np.ones(width), np.zeros(width)
    bits = products.view(np.int64)
    exponents = np.zeros(width, np.int64)
    for row in range(len(indptr) - 1):
        _score(
            indices,
            counts,
            indptr[row],
            indptr[row + 1],
            known,
            table,
            totals,
            alpha * numbers[_WEIGHT],
            numbers[_SEEN],
            complement,
            products,
            bits,
            exponents,
            scores,
        )
        most = scores[0]
        for c in range(1, known):
            most = max(most, scores[c])
        whole = 0.0
        for c in range(known):
            found[row, c] = np.exp(scores[c] - most)
            whole += found[row, c]
        for c in range(known):
            found[row, c] /= whole


@compiled
def _score(
    indices: Any,
    counts: Any,
    start: Any,
    stop: Any,
    known: Any,
    table: Any,
    totals: Any,
    alpha: Any,
    seen: Any,
    complement: Any,
    products: Any,
    bits: Any,
    exponents: Any,
    scores: Any,
) -> None:
    """The joint log-likelihood of each class, up to a number that is the same for all classes."""
    width = table.shape[1]
    products[:] = 1.0
    exponents[:] = 0
    scores[:] = 0.0
    words, factors = 0.0, np.int64(0)
    for entry in range(np.uint64(start), np.uint64(stop)):
        index, count = np.uint64(indices[entry]), counts[entry]
        words += count
        all_classes = 0.0
        if complement:
            for c in range(width):
                all_classes += table[index, c]
        if count <= _FEW:
            for c in range(width):
                factor = all_classes - table[index, c] + alpha if complement else table[index, c] + alpha
                power = factor
                if count > 1:
                    power *= factor
                if count > 2:
                    power *= factor
                products[c] *= power
            factors += np.int64(count)
        else:
            for c in range(known):
                own = all_classes - table[index, c] if complement else np.float64(table[index, c])
                scores[c] += count * np.log(own + alpha)
        if factors >= _FACTORS:
            for c in range(width):
                exponents[c] += (bits[c] >> 52) - 1023
                bits[c] = bits[c] & _MANTISSA | _ONE
            factors = np.int64(0)
    everything = totals[0].sum()
    for c in range(known):
        if complement:
            likelihood = np.log(products[c]) + exponents[c] * _LOG_2 + scores[c]
            scores[c] = words * np.log(everything - totals[0, c] + alpha * max(seen, 1.0)) - likelihood
        else:
            scores[c] += np.log(products[c] * totals[_RECORDS, c]) + exponents[c] * _LOG_2
            scores[c] -= words * np.log(totals[0, c] + alpha * max(seen, 1.0))


@compiled
def _shrink(table: Any, dirty: Any, totals: Any, numbers: Any, by: Any, whole: Any) -> None:
    """Divide all counts by the same power of two; counts that become 0 are forgotten.

    `whole` counts are rounded up, so none of them becomes 0.
    """
    seen = 0
    for index in range(table.shape[0]):
        counted = False
        for c in range(table.shape[1]):
            smaller = table[index, c] / by
            table[index, c] = np.ceil(smaller) if whole else smaller
            counted |= table[index, c] != 0
        seen += counted
    dirty[:] = 1
    totals /= by
    numbers[_SEEN] = seen
