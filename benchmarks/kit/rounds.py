"""Rounds: contenders in turns, medians of ratios and of repeated values."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from benchmarks.kit.measurement import Setting, Unmeasured, Value
from benchmarks.kit.rates import Rate

__all__ = ["interleaved", "median", "ratio", "repeated", "spread"]


def interleaved(
    setting: Setting, contenders: Mapping[str, Callable[[], Rate]], *, agree: bool = False
) -> dict[str, list[float]]:
    """Run the contenders in turns, so that other load of the machine hits all of them alike; return their rates.

    With `agree`, all have to predict equally many labels right: they do the same work.
    """
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    correct: dict[str, int] = {}
    for number in range(setting.rounds):
        for name, run in contenders.items():
            rate = run()
            taken[name].append(rate.per_second)
            correct[name] = rate.correct
        last = ", ".join(f"{name} {values[-1]:,.0f}/s" for name, values in taken.items())
        setting.say(f"round {number + 1} of {setting.rounds}: {last}")
    if agree and len(set(correct.values())) > 1:
        raise Unmeasured(f"the contenders predicted different labels; so many are right: {correct}")
    return taken


def ratio(name: str, taken: Mapping[str, Sequence[float]], ours: str, theirs: str) -> Value:
    """The median of the rounds' ratios.

    >>> taken = {"a": [8.0, 6.0, 9.0], "b": [10.0, 10.0, 10.0]}
    >>> ratio("a_vs_b", taken, "a", "b")
    Value(name='a_vs_b', value=0.8, detail='0.600-0.900; a 8/s, b 10/s')
    """
    ratios = [a / b for a, b in zip(taken[ours], taken[theirs], strict=True)]
    medians = ", ".join(f"{who} {statistics.median(taken[who]):,.0f}/s" for who in (ours, theirs))
    return median(name, ratios, ".3f", medians)


def repeated(setting: Setting, take: Callable[[int], float]) -> list[float]:
    """The values of all rounds; `take` gets the number of the round."""
    values: list[float] = []
    for number in range(setting.rounds):
        values.append(take(number))
        setting.say(f"round {number + 1} of {setting.rounds}: {values[-1]:,.4g}")
    return values


def median(name: str, values: Sequence[float], form: str, detail: str = "") -> Value:
    """The median, with the spread in its detail."""
    return Value(name, float(statistics.median(values)), "; ".join(filter(None, [spread(values, form), detail])))


def spread(values: Sequence[float], form: str) -> str:
    """The least and the greatest value.

    >>> spread([3.0, 1.0, 2.0], ".1f")
    '1.0-3.0'
    """
    return f"{min(values):{form}}-{max(values):{form}}"
