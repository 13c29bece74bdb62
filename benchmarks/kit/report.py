"""The results of a run as a table and as JSON, and the list of measurements."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.kit.measurement import Figure, Measurement, Value

__all__ = ["Result", "change", "list_lines", "table_lines"]


@dataclass(frozen=True)
class Result:
    """A figure and its measured value."""

    figure: Figure
    value: Value

    @property
    def rounded(self) -> float:
        return float(f"{self.value.value:.4g}")

    @property
    def met(self) -> bool:
        return self.figure.goal is None or self.figure.goal.met(self.value.value)

    def line(self) -> dict[str, str | float | bool]:
        """The result in bench.json."""
        figure = self.figure
        goal = str(figure.goal or "none")
        return {"name": figure.name, "value": self.rounded, "unit": figure.unit, "goal": goal, "met": self.met}


def change(result: Result, earlier: Mapping[str, float]) -> str:
    """The change of a figure: a difference for shares, else a percentage.

    >>> change(Result(Figure("a", "ms"), Value("a", 1.1)), {"a": 1.0})
    '+10.0 %'
    >>> change(Result(Figure("a", "share"), Value("a", 0.9)), {"a": 0.91})
    '-0.0100'
    >>> change(Result(Figure("a", "ms"), Value("a", 1.1)), {"b": 1.0})
    ''
    """
    old = earlier.get(result.figure.name)
    if old is None or (old == 0 and result.figure.unit != "share"):
        return ""
    difference = result.rounded - old
    return f"{difference:+.4f}" if result.figure.unit == "share" else f"{100 * difference / old:+.1f} %"


def table_lines(results: Sequence[Result], earlier: Mapping[str, float]) -> Iterator[str]:
    """A row for each result, with its change since an earlier run."""
    rows = [("figure", "value", "unit", "change", "goal", "", "spread")]
    for result in results:
        figure, value = result.figure, result.value
        goal, met = (str(figure.goal), "met" if result.met else "MISSED") if figure.goal else ("", "")
        number = f"{value.value:,.4g}"
        rows.append((figure.name, number, figure.unit, change(result, earlier), goal, met, value.detail))
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    for row in rows:
        yield "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()


def list_lines(groups: Mapping[str, Sequence[Measurement]]) -> Iterator[str]:
    """The figures of all groups with their goals, and the descriptions of their measurements."""
    for title, measurements in groups.items():
        yield from ("", title, "=" * len(title))
        for measurement in measurements:
            chosen = f" (--only {measurement.name})" if measurement.name != measurement.figures[0].name else ""
            yield ""
            for number, figure in enumerate(measurement.figures):
                goal = f", goal {figure.goal}" if figure.goal else ""
                yield f"{figure.name}: {figure.unit}{goal}{'' if number else chosen}"
            peers = " Needs PEERS=1." if measurement.peers else ""
            yield textwrap.fill(measurement.about + peers, 116, initial_indent="    ", subsequent_indent="    ")
