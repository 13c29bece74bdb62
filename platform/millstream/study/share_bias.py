"""Share bias in closed form: the error of a label's share when failures repeat or lose records.

A stream has N records, of which a label has the share p. Each of F failures repeats (at-least-once) or loses
(at-most-once) a span of R records. If the records of a span have the share q of the label on average, then

    at least once   share = (N p + F R q) / (N + F R)       bias = F R (q - p) / (N + F R)
    at most once    share = (N p - F R q) / (N - F R)       bias = F R (p - q) / (N - F R)

Failures at random moments hit spans with q = p on average, so the bias is 0 on average; its standard deviation follows
from that of the label's count in a span, p (1 - p) deff(R) R (N - R) / (N - 1), with the burstiness `deff` of the
stream. This is arithmetic of counts and says nothing about a model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from millstream.arrays import Array
from millstream.guarantees.delivery import Delivery

__all__ = ["Flip", "Spans", "bias_bound", "bias_sd", "content_bias", "deviation_factors", "flip_probability"]

FEWEST_DRAWS = 10.0
"""The fewest independent draws for which the count of a label in repeated or lost records is taken as normal."""


@dataclass(frozen=True)
class Spans:
    """The spans of records that one failure repeats or loses: `lengths[i]` records with probability `weights[i]`.

    >>> Spans.of([0, 500, 500, 1000])
    Spans(lengths=(0, 500, 1000), weights=(0.25, 0.5, 0.25))
    """

    lengths: tuple[int, ...]
    weights: tuple[float, ...]

    @staticmethod
    def of(lengths: Sequence[int] | Array, weights: Sequence[float] | Array | None = None) -> Spans:
        """Return the distribution of these lengths, each as probable as its weight."""
        given = np.ones(len(lengths)) if weights is None else np.asarray(weights, float)
        distinct, index = np.unique(np.asarray(lengths, dtype=np.int64), return_inverse=True)
        summed = np.bincount(index, weights=given) / given.sum()
        return Spans(tuple(distinct.tolist()), tuple(summed.tolist()))

    @property
    def mean(self) -> float:
        return math.fsum(length * weight for length, weight in zip(self.lengths, self.weights, strict=True))

    @property
    def most(self) -> int:
        return max(length for length, weight in zip(self.lengths, self.weights, strict=True) if weight > 0)

    def scaled(self, factor: float) -> Spans:
        """Return the spans with each length multiplied, for example by the share of records that have a label."""
        return Spans.of([round(length * factor) for length in self.lengths], self.weights)

    def merged(self, most: int) -> Spans:
        """Return at most this many lengths, and the length 0: neighbours become one with their mean length."""
        if sum(length > 0 for length in self.lengths) <= most:
            return self
        lengths, weights = np.array(self.lengths), np.array(self.weights)
        kept = lengths > 0
        groups = np.array_split(np.flatnonzero(kept), most)
        merged = [np.average(lengths[group], weights=weights[group]) for group in groups]
        summed = [float(weights[group].sum()) for group in groups]
        return Spans.of([0, *map(round, merged)], [float(weights[~kept].sum()), *summed])


def content_bias(
    delivery: Delivery, records: float, failures: float, span: float, share: float, share_in_spans: float
) -> float:
    """Return the bias of a label's share if failures are tied to content with `share_in_spans` of the label.

    >>> alo, amo = Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE
    >>> [round(content_bias(one, 4000, 1, 600, 0.438, 0.75), 3) for one in (alo, amo)]
    [0.041, -0.055]
    """
    affected = failures * span
    if delivery is Delivery.EXACTLY_ONCE:
        return 0.0
    if delivery is Delivery.AT_LEAST_ONCE:
        return affected * (share_in_spans - share) / (records + affected)
    _check_left(records, affected)
    return affected * (share - share_in_spans) / (records - affected)


def bias_sd(
    delivery: Delivery,
    records: float,
    failures: float,
    spans: Spans,
    shares: Array,
    deff: Callable[[int], Array] | None = None,
    *,
    apart: bool = False,
) -> Array:
    """Return the standard deviation of the bias of each label's share, for failures at random moments.

    `deff` returns the burstiness of each label at a span; without it the order of the labels is random. Spans that
    overlap are repeated twice, but lost once; with `apart`, no two spans overlap, as in the trials of a study.

    >>> half = np.array([0.5])
    >>> float(bias_sd(Delivery.AT_LEAST_ONCE, 40_000, 16, Spans.of([600]), half).round(5)[0])
    0.00098
    """
    shares = np.asarray(shares, float)
    if delivery is Delivery.EXACTLY_ONCE or not spans.mean:
        return np.zeros(len(shares))
    lost = delivery is Delivery.AT_MOST_ONCE
    all_spans = failures * spans.mean
    inflated = np.zeros(len(shares))
    for length, weight in zip(spans.lengths, spans.weights, strict=True):
        if length:
            others = all_spans if apart else length  # drawn without repeats: the part that is left to draw from
            left = 1.0 if lost else max(0.0, records - others) / max(1.0, records - 1)
            inflated += weight * length * left * (1.0 if deff is None else deff(length))
    if lost:
        affected = all_spans if apart else _distinct(records, failures, spans)
        _check_left(records, affected)
        scale = affected / spans.mean / max(1.0, records - 1) / (records - affected)
    else:
        scale = failures / (records + all_spans) ** 2
    result: Array = np.sqrt(shares * (1 - shares) * inflated * scale)
    return result


def _distinct(records: float, failures: float, spans: Spans) -> float:
    """The expected number of records in at least one span."""
    return float(records * -math.expm1(failures * math.log1p(-min(spans.mean / records, 1 - 1e-12))))


def _check_left(records: float, lost: float) -> None:
    if lost >= records:
        message = f"failures that lose {lost:,.0f} of {records:,.0f} records leave no share to speak of"
        raise ValueError(message)


def bias_bound(delivery: Delivery, records: float, affected: float, share: float) -> float:
    """Return the largest possible bias of a label's share: all repeated or lost records have the label, or none has.

    >>> round(bias_bound(Delivery.AT_LEAST_ONCE, 40_000, 60, 0.2), 5)
    0.0012
    """
    if delivery is Delivery.EXACTLY_ONCE:
        return 0.0
    ends = (0.0, 1.0)
    return max(abs(content_bias(delivery, records, 1, affected, share, end)) for end in ends)


@dataclass(frozen=True)
class Flip:
    """The probability that a share crosses a threshold; None if it is not known, with the reason in `refusal`."""

    probability: float | None
    refusal: str = ""


def flip_probability(margin: float, sd: float, draws: float, bound: float) -> Flip:
    """Return the probability that the share of a label, `margin` away from a threshold, is on its other side.

    `draws` is the number of independent draws that the repeated or lost records are worth: their number over `deff`. A
    margin above `bound`, the largest possible bias, is never crossed. With few draws, such as one short span of a
    bursty stream, the bias is bounded and far from normal, and the normal approximation is refused.

    >>> round(flip_probability(margin=0.005, sd=0.005, draws=500, bound=0.1).probability, 4)
    0.1587
    >>> flip_probability(margin=0.005, sd=0.005, draws=2, bound=0.1).refusal
    'a single short span of a bursty stream: 2.0 independent draws, fewer than 10'
    """
    distance = abs(margin)
    if distance > bound or (sd == 0 and distance > 0):
        return Flip(0.0)
    if draws < FEWEST_DRAWS:
        reason = f"a single short span of a bursty stream: {draws:.1f} independent draws, fewer than {FEWEST_DRAWS:.0f}"
        return Flip(None, reason)
    return Flip(NormalDist().cdf(-distance / sd) if sd else 0.5)


def deviation_factors(spans: float, confidence: float = 0.95) -> tuple[float, float] | None:
    """Return the factors from a standard deviation to its interval, if it was measured on this many separate spans.

    None: fewer than five spans do not give an interval. The interval is that of a normal sample; quantiles of
    chi-squared are those of Wilson and Hilferty.

    >>> low, high = deviation_factors(101)
    >>> round(low, 3), round(high, 3)
    (0.879, 1.161)
    """
    freedom = spans - 1
    if freedom < 4:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)

    def ratio(sign: float) -> float:
        """The root of chi-squared over its degrees of freedom."""
        return math.pow(max(1e-3, 1 - 2 / (9 * freedom) + sign * z * math.sqrt(2 / (9 * freedom))), 1.5)

    return 1 / ratio(1), 1 / ratio(-1)
