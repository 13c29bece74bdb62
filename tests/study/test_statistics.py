"""Statistics of paired trials, compared with scipy, with the definitions, and with simulated trials."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from millstream.study.statistics import (
    Verdict,
    compare_family,
    equivalence,
    holm,
    mean_interval,
    noise_band,
    paired_differences,
    paired_p_value,
)

SAMPLES = [np.random.default_rng(seed).normal(0.1, 0.3, 5 + 3 * seed) for seed in range(5)]


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_interval_and_the_p_value_are_those_of_scipy(sample: np.ndarray) -> None:
    tested = stats.ttest_1samp(sample, 0.0)
    low, high = tested.confidence_interval(0.95)
    found = mean_interval(sample)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert paired_p_value(sample) == pytest.approx(tested.pvalue)
    assert (found.low <= 0 <= found.high) == (tested.pvalue > 0.05)


@pytest.mark.parametrize("margin", [0.05, 0.2, 0.6])
@pytest.mark.parametrize("sample", SAMPLES)
def test_equivalence_is_the_worse_of_two_one_sided_tests_and_that_of_the_90_percent_interval(
    sample: np.ndarray, margin: float
) -> None:
    above = stats.ttest_1samp(sample, -margin, alternative="greater").pvalue
    below = stats.ttest_1samp(sample, margin, alternative="less").pvalue
    found = equivalence(sample, margin)
    assert found.p == pytest.approx(max(above, below))
    inside = mean_interval(sample, 0.9)
    assert found.equivalent == (-margin < inside.low and inside.high < margin)


def test_holm_rejects_what_the_definition_rejects() -> None:
    rng = np.random.default_rng(3)
    for _, alpha in itertools.product(range(50), (0.01, 0.05, 0.3)):
        p = rng.uniform(0, 0.2, rng.integers(1, 9))
        rejected = set()
        for step, index in enumerate(np.argsort(p)):
            if p[index] * (len(p) - step) > alpha:
                break
            rejected.add(int(index))
        assert {int(index) for index in np.flatnonzero(holm(p) <= alpha)} == rejected


def test_holm_gives_the_values_of_a_worked_example() -> None:
    # R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm")
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    assert holm([0.6, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]).size == 0


def test_a_noise_band_holds_the_next_run_as_often_as_it_says() -> None:
    runs = np.random.default_rng(4).normal(3.0, 2.0, (4000, 11))
    bands = [noise_band(row[:10]) for row in runs]
    held = [band.low <= row[10] <= band.high for band, row in zip(bands, runs, strict=True)]
    assert np.mean(held) == pytest.approx(0.95, abs=0.012)


def test_a_family_without_effects_rarely_has_a_difference() -> None:
    rng = np.random.default_rng(5)
    families = [{str(cell): rng.normal(0, 1, 8) for cell in range(20)} for _ in range(300)]
    wrong = [
        any(c.verdict is Verdict.DIFFERENT for c in compare_family(cells, dict.fromkeys(cells, 0.01)))
        for cells in families
    ]
    assert np.mean(wrong) < 0.09


def test_nothing_found_is_not_equivalence() -> None:
    [cell] = compare_family({"wide": [1.0, -1.2, 0.4]}, {"wide": 0.2})
    assert cell.p > 0.05 and cell.verdict is Verdict.OPEN


def test_equal_differences_have_no_spread_and_still_a_verdict() -> None:
    cells = {"zero": [0.0] * 4, "one": [1.0] * 4}
    found = {cell.name: cell.verdict for cell in compare_family(cells, {"zero": 0.2, "one": 0.2})}
    assert found == {"zero": Verdict.EQUIVALENT, "one": Verdict.DIFFERENT}


def test_without_a_stated_margin_nothing_is_equivalent() -> None:
    [cell] = compare_family({"zero": [0.0] * 4}, {})
    assert cell.verdict is Verdict.OPEN


def test_pairs_are_made_by_seed_and_need_both_sides_once() -> None:
    assert paired_differences([7, 3], [1.0, 2.0], [3, 7], [0.5, 0.25]).tolist() == [1.5, 0.75]
    with pytest.raises(ValueError, match=r"the seeds \[4\] have a trial on one side only"):
        paired_differences([3, 4], [1.0, 2.0], [3], [0.5])
    with pytest.raises(ValueError, match="a seed occurs more than once in the control"):
        paired_differences([3], [1.0], [3, 3], [0.5, 0.5])


def test_too_few_or_missing_values_are_refused() -> None:
    with pytest.raises(ValueError, match="at least two values"):
        mean_interval([1.0])
    with pytest.raises(ValueError, match="not a number"):
        paired_p_value([1.0, float("nan")])
    with pytest.raises(ValueError, match="margin above 0"):
        equivalence([1.0, 2.0], margin=0)


def test_equal_values_of_a_coarse_measure_are_no_proof() -> None:
    """Three accuracies on 1,000 records that all gain one record: chance, not an effect without spread."""
    one_record = {"gain": [0.001] * 3}
    assert compare_family(one_record, {})[0].p == 0
    [cell] = compare_family(one_record, {}, resolution=0.001)
    assert cell.p == pytest.approx(0.0269, abs=1e-3) and cell.interval.half_width == pytest.approx(0.000717, abs=1e-6)
    same, narrow = compare_family(
        {"same": [0.0] * 3, "narrow": [0.0] * 3}, {"same": 0.002, "narrow": 0.0004}, resolution=0.001
    )
    assert (same.verdict, narrow.verdict) == (Verdict.EQUIVALENT, Verdict.OPEN)
    assert same.p == 1 and same.interval.half_width == cell.interval.half_width
