"""The bias within windows is that of every place of a failure, tried one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from support.label_streams import markov

from millstream.guarantees.delivery import Delivery
from millstream.study.labels import Labels
from millstream.study.share_bias import Spans, bias_sd
from millstream.study.window_bias import window_bias

ALO, AMO = Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE
THRESHOLD = 0.3


def tried(delivery: Delivery, labels: Labels, window: int, length: int) -> tuple[float, float, float]:
    """Squared error, flips and whole windows, over every place at which a span touches a window."""
    squares, flips, whole, places = [], [], 0, 0
    for first in range(0, len(labels) // window * window, window):
        codes = labels.codes[first : first + window]
        for start in range(1 - length, window):
            places += 1
            span = codes[max(0, start) : start + length]
            if len(span) == window:
                whole += 1
                continue
            for label in range(len(labels.names)):
                count, inside = np.sum(codes == label), np.sum(span == label)
                sign = 1 if delivery is ALO else -1
                share, changed = count / window, (count + sign * inside) / (window + sign * len(span))
                squares.append((changed - share) ** 2)
                flips.append((changed >= THRESHOLD) != (share >= THRESHOLD))
    return float(np.mean(squares)), float(np.mean(flips)), whole / places


@pytest.mark.parametrize("delivery", [ALO, AMO])
@pytest.mark.parametrize("length", [1, 7, 19, 20, 33])
def test_a_window_has_the_bias_of_every_place_of_a_failure(delivery: Delivery, length: int) -> None:
    labels = markov(90, 3, same=0.8)
    square, flips, whole = tried(delivery, labels, 20, length)
    found = window_bias(delivery, labels, 20, Spans.of([length]), THRESHOLD)
    assert found is not None and found.windows == 4
    assert (found.rms**2, found.flips, found.whole) == pytest.approx((square, flips, whole))


def test_failures_without_an_effect_count_as_windows_without_an_error() -> None:
    labels = markov(400, 4, same=0.8)
    alone, half = (window_bias(ALO, labels, 50, Spans.of(lengths)) for lengths in ([20], [0, 20]))
    assert alone is not None and half is not None
    assert half.rms**2 == pytest.approx(alone.rms**2 / 2)
    assert half.flips is None


def test_exactly_once_has_no_error_and_a_short_sample_no_answer() -> None:
    labels = markov(400, 5, same=0.8)
    found = window_bias(Delivery.EXACTLY_ONCE, labels, 50, Spans.of([20]), THRESHOLD)
    assert found is not None and (found.rms, found.flips, found.whole) == (0, 0, 0)
    assert window_bias(ALO, labels, 201, Spans.of([20])) is None


def test_in_a_long_window_the_bias_is_that_of_the_closed_form() -> None:
    labels, spans = markov(40_000, 6, same=0.8), Spans.of([50])
    found = window_bias(ALO, labels, 4000, spans)
    expected = np.sqrt(np.mean(bias_sd(ALO, 4000, 1, spans, labels.shares, labels.deff) ** 2))
    assert found is not None and found.rms == pytest.approx(expected, rel=0.1)
