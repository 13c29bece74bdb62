"""Statistics of paired trials: differences by seed, intervals, Holm's correction, equivalence tests, noise bands.

A treatment and its control run with the same seeds, so all tests work on the differences by seed. "No effect" is never
concluded from a test that finds nothing, only from an equivalence test with a stated margin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.special import stdtr, stdtrit

from millstream.arrays import Array

__all__ = [
    "Interval",
    "Verdict",
    "compare_family",
    "equivalence",
    "holm",
    "mean_interval",
    "noise_band",
    "paired_differences",
    "paired_p_value",
]


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval: `mean` plus or minus `half_width`, from `count` values."""

    mean: float
    half_width: float
    count: int

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width


@dataclass(frozen=True)
class Equivalence:
    """The result of two one-sided tests: `equivalent` if the mean difference is within `margin` on both sides."""

    p: float
    margin: float
    equivalent: bool


class Verdict(StrEnum):
    """The conclusion for one cell of a family of comparisons."""

    DIFFERENT = "different"
    EQUIVALENT = "equivalent"
    OPEN = "open"


@dataclass(frozen=True)
class Comparison:
    """One cell of a family beside its pairs: its name, the interval of the mean difference, its p-value and Holm's."""

    name: str
    interval: Interval
    p: float
    adjusted: float
    verdict: Verdict


def paired_differences(
    seeds: Sequence[int],
    values: Sequence[float] | Array,
    control_seeds: Sequence[int],
    control_values: Sequence[float] | Array,
) -> Array:
    """Return treatment minus control for each seed, the seeds in ascending order.

    Every seed occurs once on both sides.

    >>> paired_differences([2, 1], [0.5, 0.75], [1, 2], [0.25, 0.25]).tolist()
    [0.5, 0.25]
    """
    treated, control = _by_seed(seeds, values, "treatment"), _by_seed(control_seeds, control_values, "control")
    if lonely := sorted(treated.keys() ^ control.keys()):
        message = f"the seeds {lonely} have a trial on one side only; pairs need the same seeds on both sides"
        raise ValueError(message)
    return np.array([treated[seed] - control[seed] for seed in sorted(treated)], dtype=float)


def _by_seed(seeds: Sequence[int], values: Sequence[float] | Array, side: str) -> Mapping[int, float]:
    found = dict(zip(seeds, values, strict=True))
    if len(found) < len(seeds):
        message = f"a seed occurs more than once in the {side}; a pair is one trial on each side"
        raise ValueError(message)
    return found


def mean_interval(values: Sequence[float] | Array, confidence: float = 0.95, *, resolution: float = 0.0) -> Interval:
    """Return the mean with its interval by Student's t distribution.

    Values that are multiples of a `resolution` have at least the spread of rounding.

    >>> found = mean_interval([1.0, 2.0, 3.0])
    >>> found.mean, round(found.half_width, 3), found.count
    (2.0, 2.484, 3)
    """
    sample = _sample(values)
    error = _deviation(sample, resolution) / np.sqrt(len(sample))
    width = float(stdtrit(len(sample) - 1, (1 + confidence) / 2)) * float(error)
    return Interval(float(sample.mean()), width, len(sample))


def paired_p_value(differences: Sequence[float] | Array, *, resolution: float = 0.0) -> float:
    """Return the p-value of the two-sided t-test that the mean difference is 0; `resolution` as in `mean_interval`.

    >>> round(paired_p_value([1.0, 2.0, 3.0]), 4)
    0.0742
    """
    sample = _sample(differences)
    deviation = _deviation(sample, resolution)
    if deviation == 0:
        return 1.0 if sample.mean() == 0 else 0.0
    t = float(sample.mean()) / deviation * np.sqrt(len(sample))
    return float(2 * stdtr(len(sample) - 1, -abs(t)))


def holm(p_values: Sequence[float] | Array) -> Array:
    """Return p-values adjusted by Holm's step-down method for the size of their family.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=float)
    rising = np.argsort(p, kind="stable")
    factors = np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[rising] = np.minimum(1.0, np.maximum.accumulate(p[rising] * factors))
    return adjusted


def equivalence(
    differences: Sequence[float] | Array, margin: float, alpha: float = 0.05, *, resolution: float = 0.0
) -> Equivalence:
    """Test by two one-sided t-tests that the mean difference lies within `margin` of 0; `resolution` as above.

    >>> equivalence([0.01, -0.01, 0.02, 0.0], margin=0.2).equivalent
    True
    """
    if margin <= 0:
        message = f"an equivalence test needs a margin above 0, not {margin}"
        raise ValueError(message)
    sample = _sample(differences)
    mean, deviation = float(sample.mean()), _deviation(sample, resolution)
    if deviation == 0:
        p = 0.0 if abs(mean) < margin else 1.0
    else:
        error = deviation / np.sqrt(len(sample))
        p = float(stdtr(len(sample) - 1, (abs(mean) - margin) / error))
    return Equivalence(p, margin, p < alpha)


def noise_band(values: Sequence[float] | Array, confidence: float = 0.95, *, resolution: float = 0.0) -> Interval:
    """Return the interval that holds the value of one more run, given those of exactly-once runs in other legal orders.

    A distance, such as the share of changed labels, is never below 0, so it is compared with this band, not with 0.
    `resolution` as in `mean_interval`.

    >>> band = noise_band([1.0, 2.0, 3.0])
    >>> band.mean, round(band.half_width, 3)
    (2.0, 4.968)
    """
    sample = _sample(values)
    width = float(stdtrit(len(sample) - 1, (1 + confidence) / 2)) * _deviation(sample, resolution)
    return Interval(float(sample.mean()), width * float(np.sqrt(1 + 1 / len(sample))), len(sample))


def compare_family(
    cells: Mapping[str, Sequence[float] | Array],
    margins: Mapping[str, float],
    alpha: float = 0.05,
    *,
    resolution: float = 0.0,
) -> list[Comparison]:
    """Compare the paired differences of every cell with 0; p-values are adjusted for the whole family by Holm's method.

    A cell is `different` if its adjusted p-value is below `alpha`, otherwise `equivalent` if the equivalence test
    holds with the cell's margin, otherwise `open`. A cell without a margin is never equivalent. The equivalence tests
    are not adjusted: each is wrong with the probability `alpha` at most. `resolution` is as in `mean_interval`.

    >>> cells = {"a": [0.4, 0.5, 0.6, 0.5], "b": [0.01, -0.01, 0.02, 0.0], "c": [1.0, -1.0, 1.0, -0.5]}
    >>> [str(cell.verdict) for cell in compare_family(cells, dict.fromkeys(cells, 0.2))]
    ['different', 'equivalent', 'open']
    """
    p = [paired_p_value(differences, resolution=resolution) for differences in cells.values()]
    found = []
    for (name, differences), alone, adjusted in zip(cells.items(), p, holm(p).tolist(), strict=True):
        verdict = Verdict.DIFFERENT if adjusted < alpha else Verdict.OPEN
        if verdict is Verdict.OPEN and (margin := margins.get(name)) is not None:
            tested = equivalence(differences, margin, alpha, resolution=resolution)
            verdict = Verdict.EQUIVALENT if tested.equivalent else Verdict.OPEN
        found.append(Comparison(name, mean_interval(differences, resolution=resolution), alone, adjusted, verdict))
    return found


def _deviation(sample: Array, resolution: float) -> float:
    """The standard deviation, at least that of rounding to multiples of the resolution.

    A few accuracies on the same hold-out records may be equal by chance, which is no proof that they always are.
    """
    return max(float(sample.std(ddof=1)), resolution / float(np.sqrt(12)))


def _sample(values: Sequence[float] | Array) -> Array:
    sample = np.asarray(values, dtype=float)
    if sample.ndim != 1 or len(sample) < 2:
        message = f"an interval or a test needs at least two values, one a seed; there are {sample.size}"
        raise ValueError(message)
    if not np.isfinite(sample).all():
        message = "a value is not a number; leave out the seeds without a value, on both sides"
        raise ValueError(message)
    return sample
