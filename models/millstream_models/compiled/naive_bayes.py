"""Naive Bayes over counted words, one record after the other.

A class's likelihood is a product over words. It is kept as a product, whose exponent is taken out every few words, so
that a record costs a logarithm for each class and not one for each class and word.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millstream_models.compiled.jit import compiled

__all__ = ["MOST", "take"]

MOST = 2**30
"""How much a dimension may count for a class before all counts are halved; a text has fewer words, so int32 will do."""
_SEEN, _WEIGHT = 0, 1  # places in `numbers`: the dimensions that have counts, and what a record counts now
_RECORDS = 1

_FACTORS = 12  # of at most 2^46 each and at least 2^-20, and one for the records at the end: there is room for 2^1023
_HEAVIEST = 2.0**20  # what a record may count before all counts are made smaller by that
_FEW = 3  # times that a word is multiplied rather than its logarithm taken
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
    touched: Any,
    totals: Any,
    numbers: Any,
    alpha: Any,
    growth: Any,
    complement: Any,
    predict: Any,
    best: Any,
    probability: Any,
) -> None:
    """Predict each row if wanted, then learn its label if it has one.

    `table` has the counts by dimension and class, `totals` their sums and (second row) the records by class. A record
    counts `growth` times what the one before did: that is how old ones are forgotten.
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
            for place in range(start, stop):
                index = indices[place]
                if table[index, label] == 0 and not table[index].any():
                    numbers[_SEEN] += 1
                table[index, label] += counts[place] * weight
                full |= table[index, label] >= MOST
                touched[index] = 1
                words += counts[place]
            totals[0, label] += words * weight
            totals[_RECORDS, label] += weight
            if growth > 1:
                numbers[_WEIGHT] = weight * growth
                if numbers[_WEIGHT] >= _HEAVIEST:
                    _shrink(table, touched, totals, numbers, _HEAVIEST, False)
                    numbers[_WEIGHT] /= _HEAVIEST
            elif full:
                _shrink(table, touched, totals, numbers, 2.0, True)


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
    """The joint log-likelihood of each class, up to what is the same for all."""
    width = table.shape[1]
    products[:] = 1.0
    exponents[:] = 0
    scores[:] = 0.0
    words, factors = 0.0, np.int64(0)
    for place in range(np.uint64(start), np.uint64(stop)):
        index, count = np.uint64(indices[place]), counts[place]
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
def _shrink(table: Any, touched: Any, totals: Any, numbers: Any, by: Any, whole: Any) -> None:
    """Make all counts smaller by the same power of two; what is nothing by then has been forgotten.

    Those that are `whole` are rounded up: nothing is forgotten of them.
    """
    seen = 0
    for index in range(table.shape[0]):
        there = False
        for c in range(table.shape[1]):
            smaller = table[index, c] / by
            table[index, c] = np.ceil(smaller) if whole else smaller
            there |= table[index, c] != 0
        seen += there
    touched[:] = 1
    totals /= by
    numbers[_SEEN] = seen
