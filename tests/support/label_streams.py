"""Streams of labels whose burstiness is known, and positions that failures at random moments leave."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from millstream.arrays import Array
from millstream.guarantees.delivery import Delivery
from millstream.study.labels import Labels

__all__ = ["blocks", "delivered", "iid", "label_shares", "markov", "markov_deff", "random_spans"]

SHARES = (0.4, 0.3, 0.2, 0.1)
NAMES = ("a", "b", "c", "d")


def iid(records: int, seed: int) -> Labels:
    """Labels in random order: deff is 1."""
    return Labels(NAMES, np.random.default_rng(seed).choice(len(SHARES), records, p=SHARES))


def markov(records: int, seed: int, same: float) -> Labels:
    """Each record has the label of the record before with probability `same`, otherwise one drawn at random."""
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(SHARES), records, p=SHARES)
    fresh = rng.random(records) >= same
    fresh[0] = True
    return Labels(NAMES, drawn[np.maximum.accumulate(np.where(fresh, np.arange(records), 0))])


def markov_deff(span: int, same: float) -> float:
    """The deff of `markov`, from its autocorrelation `same ** lag`."""
    lags = np.arange(1, span)
    return float(1 + 2 * np.sum((1 - lags / span) * same**lags))


def blocks(records: int, seed: int, size: int, main: float) -> Labels:
    """Blocks in which one label, another one from block to block, has the share `main`, and the others the rest."""
    rng = np.random.default_rng(seed)
    of_block = np.repeat(rng.permutation(np.arange(-(-records // size)) % len(NAMES)), size)[:records]
    other = (of_block + rng.integers(1, len(NAMES), records)) % len(NAMES)
    return Labels(NAMES, np.where(rng.random(records) < main, of_block, other))


def random_spans(records: int, failures: int, span: int, rng: np.random.Generator) -> Array:
    """The first records of spans of failures at random moments."""
    starts: Array = rng.integers(0, records - span + 1, failures)
    return starts


def delivered(delivery: Delivery, records: int, starts: Array, span: int) -> Array:
    """The positions that are processed, one by one: spans are repeated after their end, or lost."""
    if delivery is Delivery.AT_MOST_ONCE:
        kept = np.ones(records, bool)
        for start in starts:
            kept[start : start + span] = False
        return np.flatnonzero(kept)
    return np.concatenate(list(_with_repeats(records, starts, span)))


def _with_repeats(records: int, starts: Array, span: int) -> Iterator[Array]:
    upto = 0
    for start in np.sort(starts):
        yield np.arange(upto, start + span)
        upto = int(start)
    yield np.arange(upto, records)


def label_shares(labels: Labels, positions: Array) -> Array:
    """The share of each label among the records at these positions."""
    counts: Array = np.bincount(labels.codes[positions], minlength=len(labels.names))
    return counts / len(positions)
