"""Advice for one pipeline: the expected effect of failures on its results under each guarantee, and their cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from millstream.arrays import Array
from millstream.guarantees.delivery import Delivery
from millstream.study.conditions import Conditions
from millstream.study.crash_spans import crash_spans
from millstream.study.evidence import AccuracyRow, LatencyRow, evidence
from millstream.study.label_sample import LabelSample
from millstream.study.labels import Labels
from millstream.study.share_bias import Flip, Spans, bias_bound, bias_sd, deviation_factors, flip_probability
from millstream.study.window_bias import WindowBias, window_bias

__all__ = ["Advice", "Deviation", "Effect", "GuaranteeAdvice", "advise"]

_LENGTHS = 12
"""The most lengths of spans that are kept."""
_LONGEST = 5
"""Spans of more than this part of the sample are taken as bursty as spans of that part."""


@dataclass(frozen=True)
class Deviation:
    """The expected root mean square of a share's error, with its 95 % interval; None: the sample is too short."""

    rms: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Effect:
    """The effect of failures on one kind of results: the rows of an output, or the model and every other state.

    `spans` are the records that one failure repeats or loses. `month` is the error of the labels' shares in a month,
    `bound` the largest possible one. `window` is the effect of one failure on a window that it touches, `window_bound`
    the largest possible error there. None: not known.
    """

    spans: Spans
    month: Deviation | None
    bound: float
    window: WindowBias | None
    window_bound: float


@dataclass(frozen=True)
class GuaranteeAdvice:
    """The effects of failures under one delivery, and its cost.

    `flip` is for the label that is nearest to the threshold, over a month. `dose` is the share of a month's records
    that the model learns twice, or never. `accuracy` has measured rows at this dose or a larger one, none if the
    learner was not measured. `impossible` is the reason why this pipeline cannot have the delivery.
    """

    delivery: Delivery
    rows: Effect
    state: Effect
    flip: Flip | None
    dose: float
    accuracy: tuple[AccuracyRow, ...]
    latency: LatencyRow | None
    impossible: str


@dataclass(frozen=True)
class Advice:
    """The effects under each delivery, and the burstiness of the labels at `burst_span` records; `str()` is a table.

    `labels` are those of the first records, None if they are not measured.
    """

    conditions: Conditions
    guarantees: tuple[GuaranteeAdvice, ...]
    labels: Labels | None
    deff: float | None
    burst_span: int | None

    def of(self, delivery: Delivery | str) -> GuaranteeAdvice:
        """Return the advice for a delivery; `ValueError` if there is no such one."""
        wanted = Delivery(delivery)
        return next(each for each in self.guarantees if each.delivery is wanted)

    def __str__(self) -> str:
        from millstream.study.advice_text import advice_text  # it imports this module

        return advice_text(self)


class _Burstiness:
    """The burstiness of a sample's labels, measured once for each length of a span."""

    def __init__(self, sample: LabelSample) -> None:
        self.labels, self.labelled = sample.labels, sample.labelled
        self.longest = max(1, len(sample.labels) // _LONGEST)
        self.deff = cache(self._measured)

    def _measured(self, span: int) -> Array:
        if len(self.labels) < 2:
            return np.ones(len(self.labels.names))
        return self.labels.deff(min(span, self.longest))


def advise(conditions: Conditions) -> Advice:
    """Return the effects of failures at random moments for a pipeline under each delivery."""
    sample = conditions.sample
    burstiness = _Burstiness(sample) if isinstance(sample, LabelSample) else None
    found = tuple(_guarantee(conditions, delivery, burstiness) for delivery in Delivery)
    if burstiness is None:
        return Advice(conditions, found, None, None, None)
    span = min(burstiness.longest, max(1, conditions.epoch_records * conditions.commit_every))
    labels = burstiness.labels
    pooled = labels.burstiness(span) if len(labels) > 1 else 1.0
    return Advice(conditions, found, labels, pooled, span)


def _guarantee(conditions: Conditions, delivery: Delivery, burstiness: _Burstiness | None) -> GuaranteeAdvice:
    commit_every = 1 if delivery is Delivery.AT_MOST_ONCE else conditions.commit_every
    spans = crash_spans(
        delivery, conditions.checkpoint_every, commit_every, conditions.epoch_records, conditions.waiting
    )
    rows = _effect(conditions, delivery, spans.rows, burstiness)
    state = _effect(conditions, delivery, spans.state, burstiness)
    dose = conditions.failures_per_month * spans.state.mean / conditions.records_per_month
    learner = conditions.learner
    return GuaranteeAdvice(
        delivery,
        rows,
        state,
        _flip(conditions, delivery, spans.rows, burstiness),
        dose,
        () if learner is None else evidence().of_learner(learner, delivery, dose),
        evidence().latency_of(conditions.engine, delivery),
        conditions.impossible if delivery is Delivery.EXACTLY_ONCE else "",
    )


def _effect(conditions: Conditions, delivery: Delivery, spans: Spans, burstiness: _Burstiness | None) -> Effect:
    records, failures = conditions.records_per_month, conditions.failures_per_month
    predictable = not _too_many(conditions, spans)
    bound = bias_bound(delivery, records, failures * spans.most, 0.0) if predictable else 1.0
    size = conditions.window.records
    window_bound = bias_bound(delivery, size, spans.most, 0.0) if spans.most < size / 2 else 1.0
    if burstiness is None:
        return Effect(spans, None, bound, None, window_bound)
    labelled = spans.scaled(burstiness.labelled).merged(_LENGTHS)
    month = None
    if predictable:
        sd = _deviations(conditions, delivery, labelled, burstiness)
        month = _deviation(_rms(sd), len(burstiness.labels) / max(1, labelled.most))
    window = max(1, round(size * burstiness.labelled))
    inside = window_bias(delivery, burstiness.labels, window, labelled, conditions.window.threshold)
    if inside is None and labelled.most < window / 2:
        sd = bias_sd(delivery, window, 1, labelled, burstiness.labels.shares, burstiness.deff)
        inside = WindowBias(_rms(sd), None, 0.0, 0)
    return Effect(spans, month, bound, inside, window_bound)


def _too_many(conditions: Conditions, spans: Spans) -> bool:
    """True if failures may repeat or lose half of a month's records: too many for any prediction."""
    return conditions.failures_per_month * spans.most >= conditions.records_per_month / 2


def _rms(deviations: Array) -> float:
    return float(np.sqrt(np.mean(deviations**2)))


def _deviations(conditions: Conditions, delivery: Delivery, labelled: Spans, burstiness: _Burstiness) -> Array:
    """The standard deviation of each label's share of a month; `labelled` counts records with a label."""
    records = conditions.records_per_month * burstiness.labelled
    shares = burstiness.labels.shares
    return bias_sd(delivery, records, conditions.failures_per_month, labelled, shares, burstiness.deff)


def _deviation(rms: float, separate_spans: float) -> Deviation:
    factors = deviation_factors(separate_spans)
    if rms == 0 or factors is None:
        return Deviation(rms, 0.0 if rms == 0 else None, 0.0 if rms == 0 else None)
    return Deviation(rms, rms * factors[0], rms * factors[1])


def _flip(conditions: Conditions, delivery: Delivery, spans: Spans, burstiness: _Burstiness | None) -> Flip | None:
    """The probability that the month's share of the label nearest to the threshold is on the wrong side."""
    threshold = conditions.window.threshold
    if burstiness is None or threshold is None or _too_many(conditions, spans):
        return None
    labelled = spans.scaled(burstiness.labelled).merged(_LENGTHS)
    shares, sd = burstiness.labels.shares, _deviations(conditions, delivery, labelled, burstiness)
    label = int(np.argmin(np.abs(shares - threshold)))
    records = conditions.records_per_month * burstiness.labelled
    failures, share = conditions.failures_per_month, float(shares[label])
    deff = float(burstiness.deff(max(1, math.ceil(labelled.mean)))[label])
    bound = bias_bound(delivery, records, failures * labelled.most, share)
    draws = failures * labelled.mean / max(deff, 1e-9)
    return flip_probability(share - threshold, float(sd[label]), draws, bound)
