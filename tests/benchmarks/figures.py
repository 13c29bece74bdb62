"""What is measured: figures with their goals, and the rounds that ratios are taken from."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.documents import Documents
from benchmarks.texts import Corpus

__all__ = ["AtLeast", "AtMost", "Figure", "Measurement", "Setting", "Unmeasured", "interleaved", "ratio", "spread"]


class Unmeasured(Exception):
    """A figure cannot be measured here, and why."""


@dataclass(frozen=True)
class AtLeast:
    """The least value that is good enough.

    >>> str(AtLeast(0.7)), AtLeast(0.7).met(0.69)
    ('>= 0.7', False)
    """

    value: float

    def met(self, value: float) -> bool:
        return value >= self.value

    def __str__(self) -> str:
        return f">= {self.value:g}"


@dataclass(frozen=True)
class AtMost:
    """The greatest value that is good enough.

    >>> str(AtMost(150)), AtMost(150).met(150)
    ('<= 150', True)
    """

    value: float

    def met(self, value: float) -> bool:
        return value <= self.value

    def __str__(self) -> str:
        return f"<= {self.value:g}"


@dataclass(frozen=True)
class Figure:
    """One number; without a goal it is for reference. `detail` is for people: the spread, and what it was made of."""

    name: str
    value: float
    unit: str
    goal: AtLeast | AtMost | None = None
    detail: str = ""

    @property
    def met(self) -> bool:
        return self.goal is None or self.goal.met(self.value)

    def line(self) -> dict[str, str | float | bool]:
        """As bench.json has it."""
        goal = str(self.goal) if self.goal is not None else "none"
        return {
            "name": self.name,
            "value": float(f"{self.value:.4g}"),
            "unit": self.unit,
            "goal": goal,
            "met": self.met,
        }


@dataclass(frozen=True)
class Setting:
    """What every measurement is given. `quick` asks for sizes that only show that it works."""

    folder: Path
    documents: Documents
    corpus: Corpus
    say: Callable[[str], None]
    quick: bool = False

    @property
    def rounds(self) -> int:
        return 1 if self.quick else 5


@dataclass(frozen=True)
class Measurement:
    """Something to measure, the figures that it gives, and how it is done.

    One with `any_texts` is taken on the documents that are named, if any are; one with `peers` needs environments of
    other packages, which are made for it.
    """

    name: str
    figures: Sequence[str]
    about: str
    take: Callable[[Setting], Iterable[Figure]]
    any_texts: bool = False
    peers: bool = False


def interleaved(setting: Setting, contenders: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Let the contenders take turns, so that what else the machine does hits all of them alike."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(setting.rounds):
        for name, run in contenders.items():
            taken[name].append(run())
        last = ", ".join(f"{name} {values[-1]:,.0f}/s" for name, values in taken.items())
        setting.say(f"round {number + 1} of {setting.rounds}: {last}")
    return taken


def ratio(name: str, taken: Mapping[str, Sequence[float]], ours: str, theirs: str, goal: AtLeast | None) -> Figure:
    """The median of the rounds' ratios.

    >>> taken = {"a": [8.0, 6.0, 9.0], "b": [10.0, 10.0, 10.0]}
    >>> ratio("a_vs_b", taken, "a", "b", AtLeast(0.7))
    Figure(name='a_vs_b', value=0.8, unit='x', goal=AtLeast(value=0.7), detail='0.600-0.900; a 8/s, b 10/s')
    """
    ratios = [a / b for a, b in zip(taken[ours], taken[theirs], strict=True)]
    medians = ", ".join(f"{who} {statistics.median(taken[who]):,.0f}/s" for who in (ours, theirs))
    return Figure(name, statistics.median(ratios), "x", goal, f"{spread(ratios, '.3f')}; {medians}")


def spread(values: Sequence[float], form: str) -> str:
    """The least and the greatest value.

    >>> spread([3.0, 1.0, 2.0], ".1f")
    '1.0-3.0'
    """
    return f"{min(values):{form}}-{max(values):{form}}"
