"""Figures with their goals, and measurements that produce their values."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.kit.documents import Documents
from benchmarks.kit.texts import Corpus, Texts

__all__ = ["Figure", "Goal", "Measurement", "Setting", "Unmeasured", "Value", "at_least", "at_most"]


class Unmeasured(Exception):
    """A figure cannot be measured here; the message says why."""


@dataclass(frozen=True)
class Goal:
    """The least or the greatest value that is good enough.

    >>> str(at_least(0.7)), at_least(0.7).met(0.69), at_least(0.7).met(0.7)
    ('>= 0.7', False, True)
    >>> str(at_most(150_000)), at_most(150).met(150), at_most(150).met(151)
    ('<= 150000', True, False)
    """

    sign: Literal[">=", "<="]
    limit: float

    def met(self, value: float) -> bool:
        return value >= self.limit if self.sign == ">=" else value <= self.limit

    def __str__(self) -> str:
        return f"{self.sign} {self.limit:.10g}"


def at_least(limit: float) -> Goal:
    return Goal(">=", limit)


def at_most(limit: float) -> Goal:
    return Goal("<=", limit)


@dataclass(frozen=True)
class Figure:
    """A number that is measured. A figure without a goal is for reference."""

    name: str
    unit: str
    goal: Goal | None = None


@dataclass(frozen=True)
class Value:
    """The value of a figure; `detail` is for people: the spread, and the numbers that the value was computed from."""

    name: str
    value: float
    detail: str = ""


@dataclass(frozen=True)
class Setting:
    """The input of every measurement. `quick` asks for small sizes, which only show that the measurement works."""

    folder: Path
    documents: Documents
    corpus: Corpus
    say: Callable[[str], None]
    quick: bool = False

    @property
    def rounds(self) -> int:
        return 1 if self.quick else 5

    def fresh(self, name: str) -> Path:
        """An empty folder."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def texts(self, full: int, quick: int) -> Texts:
        """As many texts as this setting asks for."""
        return self.corpus.texts.first(quick if self.quick else full)


@dataclass(frozen=True)
class Measurement:
    """The figures that are measured together, and how.

    `take` gets a setting with an empty folder of its own. A measurement with `any_texts` also works on documents of the
    user; one with `peers` needs environments with other packages, which are made for it.
    """

    figures: tuple[Figure, ...]
    about: str
    take: Callable[[Setting], Iterable[Value]]
    name: str = ""
    any_texts: bool = False
    peers: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.figures[0].name)

    @property
    def names(self) -> frozenset[str]:
        """The names under which this measurement can be chosen."""
        return frozenset({self.name, *(figure.name for figure in self.figures)})
