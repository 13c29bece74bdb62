"""docs/benchmarks.md has the figures and the goals of the code."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.figures.registry import figures

PAGE = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text()
ROWS = {
    row[1]: (row[2], row[3])
    for row in re.finditer(r"^\| `(\w+)` \| .+ \| ([^|]+) \| ([^|]*?) ?\|$", PAGE, re.MULTILINE)
}


def test_every_row_is_a_figure_with_its_goal() -> None:
    goals = {name: str(figure.goal or "") for name, figure in figures().items()}
    assert {name: goal for name, (_, goal) in ROWS.items()} == {name: goals.get(name, "no figure") for name in ROWS}


def test_values_have_the_units_of_the_figures() -> None:
    for name, (value, _) in ROWS.items():
        unit = figures()[name].unit
        assert unit not in ("ms", "s", "us") or re.fullmatch(rf"[\d.]+ {unit}", value), name


def test_the_page_names_every_figure() -> None:
    patterns = re.findall(r"`([\w*]+)`", PAGE)
    assert [name for name in figures() if not any(fnmatch(name, pattern) for pattern in patterns)] == []
