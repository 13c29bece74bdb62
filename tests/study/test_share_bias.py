"""The closed forms of share bias, compared with runs by brute force over the positions that failures leave."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from support.label_streams import blocks, delivered, iid, label_shares, markov, markov_deff, random_spans

from millstream.arrays import Array
from millstream.guarantees.delivery import Delivery
from millstream.study.labels import Labels
from millstream.study.share_bias import (
    Spans,
    bias_bound,
    bias_sd,
    content_bias,
    deviation_factors,
    flip_probability,
)

ALO, AMO = Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE
RECORDS = 20_000
STREAMS = {
    "iid": iid(RECORDS, 1),
    "markov": markov(RECORDS, 2, same=0.9),
    "blocks": blocks(RECORDS, 3, size=500, main=0.7),
}
STREAM = pytest.mark.parametrize("labels", STREAMS.values(), ids=STREAMS)
DELIVERY = pytest.mark.parametrize("delivery", [ALO, AMO])


def biases(labels: Labels, delivery: Delivery, failures: int, span: int, runs: int, seed: int = 0) -> Array:
    """The bias of every label in each of these runs."""
    rng = np.random.default_rng(seed)
    made = [
        label_shares(labels, delivered(delivery, len(labels), random_spans(len(labels), failures, span, rng), span))
        for _ in range(runs)
    ]
    return np.array(made) - labels.shares


def rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))


@DELIVERY
@STREAM
@pytest.mark.parametrize(("failures", "span"), [(1, 60), (1, 600), (8, 60), (8, 600)])
def test_the_deviation_of_the_bias_is_that_of_runs(
    labels: Labels, delivery: Delivery, failures: int, span: int
) -> None:
    expected = rms(bias_sd(delivery, RECORDS, failures, Spans.of([span]), labels.shares, labels.deff))
    assert rms(biases(labels, delivery, failures, span, 600)) / expected == pytest.approx(1.0, abs=0.1)


@DELIVERY
def test_spans_of_random_length_count_with_their_weights(delivery: Delivery) -> None:
    labels, rng = STREAMS["markov"], np.random.default_rng(5)
    spans = Spans.of([0, 100, 900], [1, 2, 1])
    lengths = rng.choice(spans.lengths, 1500, p=spans.weights)
    found = [biases(labels, delivery, 1, length, 1, seed)[0] for seed, length in enumerate(lengths.tolist()) if length]
    expected = rms(bias_sd(delivery, RECORDS, 1, spans, labels.shares, labels.deff))
    assert rms(np.array(found)) * np.sqrt(len(found) / 1500) / expected == pytest.approx(1.0, abs=0.1)


@DELIVERY
def test_failures_in_a_topic_have_the_bias_of_the_closed_form(delivery: Delivery) -> None:
    labels, rng = STREAMS["blocks"], np.random.default_rng(6)
    sizes = labels.codes.reshape(-1, 500)
    of_topic = [block for block in range(len(sizes)) if np.bincount(sizes[block], minlength=4).argmax() == 2]
    for failures in (1, 3):
        starts = rng.choice(of_topic, failures, replace=False) * 500
        inside = np.mean([np.mean(labels.codes[start : start + 400] == 2) for start in starts])
        expected = content_bias(delivery, RECORDS, failures, 400, float(labels.shares[2]), float(inside))
        found = label_shares(labels, delivered(delivery, RECORDS, starts, 400))[2] - labels.shares[2]
        assert found == pytest.approx(expected)
        assert np.sign(found) == (1 if delivery is ALO else -1)
        assert abs(found) <= bias_bound(delivery, RECORDS, failures * 400, float(labels.shares[2]))


def test_the_published_shares_are_arithmetic_of_counts() -> None:
    """A frozen model, N = 4,000, R = 600: 43.8 % become 48.8 or 38.9 % by repeats, 37.1 or 50.6 % by losses."""
    for share_in_block, alo, amo in ((0.82, 0.488, 0.371), (0.062, 0.389, 0.506)):
        assert 0.438 + content_bias(ALO, 4000, 1, 600, 0.438, share_in_block) == pytest.approx(alo, abs=0.003)
        assert 0.438 + content_bias(AMO, 4000, 1, 600, 0.438, share_in_block) == pytest.approx(amo, abs=0.003)


@pytest.mark.parametrize("same", [0.0, 0.5, 0.9, 0.97])
@pytest.mark.parametrize("span", [10, 60, 600])
def test_deff_measures_the_known_burstiness_of_a_stream(same: float, span: int) -> None:
    measured = np.mean([markov(60_000, seed, same).deff(span).mean() for seed in range(4)])
    assert measured == pytest.approx(markov_deff(span, same), rel=0.12)


def test_deff_of_a_random_order_is_one_also_at_long_spans() -> None:
    measured = np.mean([iid(10_000, seed).deff(4000).mean() for seed in range(40)])
    assert measured == pytest.approx(1.0, abs=0.25)


def test_deff_needs_a_span_inside_the_stream() -> None:
    for span in (0, 10, 11):
        with pytest.raises(ValueError, match="deff needs a span of 1 to 9 of these 10 records"):
            iid(10, 0).deff(span)
    with pytest.raises(ValueError, match="at least one label"):
        Labels.of([])
    assert Labels.of(["one"] * 9).deff(3).tolist() == [0.0]


FLIP_CASES = [(name, failures, span) for name in STREAMS for failures, span in ((1, 60), (1, 600), (8, 60), (8, 600))]


@DELIVERY
@pytest.mark.parametrize(("name", "failures", "span"), FLIP_CASES)
def test_flips_of_a_threshold_are_those_of_runs_or_refused(
    name: str, failures: int, span: int, delivery: Delivery
) -> None:
    labels, label = STREAMS[name], 1
    share, deff = float(labels.shares[label]), float(labels.deff(span)[label])
    found = biases(labels, delivery, failures, span, 800)[:, label]
    sd = float(bias_sd(delivery, RECORDS, failures, Spans.of([span]), labels.shares, labels.deff)[label])
    bound = bias_bound(delivery, RECORDS, failures * span, share)
    for margin in (0.3 * sd, sd, 2 * sd, 1.01 * bound):
        for sign in (-1, 1):
            flip = flip_probability(sign * margin, sd, failures * span / deff, bound)
            crossed = float(np.mean(sign * found > margin))
            if flip.probability is None:
                assert name != "iid" and "single short span" in flip.refusal
            else:
                assert flip.probability == pytest.approx(crossed, abs=0.06)


def test_a_margin_beyond_every_bias_is_never_crossed_however_bursty_the_stream() -> None:
    """F = 1, R = 60 of 40,000, margin 0.5 pp: the normal approximation says 7.3 %, measured is 0."""
    bound = bias_bound(ALO, 40_000, 60, 0.17)
    assert bound < 0.005
    assert flip_probability(0.005, 0.00344, 60 / 34, bound).probability == 0.0
    refused = flip_probability(0.001, 0.00344, 60 / 34, bound)
    assert refused.probability is None and "1.8 independent draws" in refused.refusal


def test_exactly_once_has_no_bias() -> None:
    shares = np.array([0.2, 0.8])
    assert content_bias(Delivery.EXACTLY_ONCE, 100, 3, 10, 0.2, 0.9) == 0
    assert not bias_sd(Delivery.EXACTLY_ONCE, 100, 3, Spans.of([10]), shares).any()
    assert bias_bound(Delivery.EXACTLY_ONCE, 100, 10, 0.2) == 0


def test_losing_everything_is_refused() -> None:
    with pytest.raises(ValueError, match="leave no share"):
        content_bias(AMO, 100, 2, 50, 0.2, 0.5)


@pytest.mark.parametrize("spans", [5, 10, 50, 400])
def test_the_interval_of_a_deviation_is_that_of_chi_squared(spans: int) -> None:
    freedom = spans - 1
    low, high = deviation_factors(spans) or (0.0, 0.0)
    assert low == pytest.approx(np.sqrt(freedom / stats.chi2.ppf(0.975, freedom)), rel=0.01)
    assert high == pytest.approx(np.sqrt(freedom / stats.chi2.ppf(0.025, freedom)), rel=0.06)
    assert deviation_factors(4.9) is None


def test_merged_spans_keep_their_probability_and_their_mean() -> None:
    spans = Spans.of(np.arange(0, 1001, 10))
    merged = spans.merged(12)
    assert len(merged.lengths) == 13 and merged.lengths[0] == 0
    assert sum(merged.weights) == pytest.approx(1.0)
    assert merged.mean == pytest.approx(spans.mean, rel=0.01)
    assert merged.weights[0] == pytest.approx(spans.weights[0])
    assert merged.merged(12) == merged
    assert merged.scaled(0.5).mean == pytest.approx(spans.mean / 2, rel=0.01)
