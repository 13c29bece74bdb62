"""The Python of docs/python.md runs, cell after cell, and prints what the text shows."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.docs_pages import blocks, section, table
from support.docs_reader import Reader

import millstream as ms

CELLS = [block for block in blocks("docs/python.md") if block.language in ("python", "text")]
MARK = "-- cell --"
"""A line between the outputs of two cells."""


@pytest.fixture(scope="module")
def printed(shared_folder: Path) -> list[str]:
    """The output of each cell, in a process without a script, as that of a notebook."""
    cells = [cell.text for cell in (*CELLS, *blocks("README.md", "python")) if cell.language == "python"]
    program = (
        f"import json\nfor cell in json.loads({json.dumps(json.dumps(cells))}):\n    exec(cell)\n    print({MARK!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=shared_folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "demo: " in done.stderr and " records, epoch " in done.stderr
    return done.stdout.split(f"{MARK}\n")


def test_every_cell_prints_what_the_text_shows(printed: list[str]) -> None:
    number = -1
    for cell in CELLS:
        if cell.language == "python":
            number += 1
        else:
            Reader.expects(cell.text, printed[number])
    assert number == 8
    assert printed[-2].startswith("0.9") or printed[-2].startswith("0.8")


def test_the_table_has_the_public_names_of_a_run() -> None:
    rows = table(section("docs/python.md", "## A run directory"), "attribute or method")
    names = {name for row in rows for name in re.findall(r"`(\w+)", row[0])}
    assert names == {name for name in vars(ms.Run) if not name.startswith("_")} - {"model"} | {"path"}


def test_the_arguments_of_a_run_are_those_of_the_text() -> None:
    text = section("docs/python.md", "## A minute")
    for name in ms.run.__kwdefaults__ or {}:
        assert name.startswith("_") or f"`{name}`" in text or f"`{name}=" in text, name


def test_the_table_of_arguments_is_that_of_a_run() -> None:
    named = inspect.signature(ms.run).parameters
    rows = {row[0].strip("`"): row[1] for row in table(section("docs/python.md", "## Arguments"), "argument")}
    assert set(rows) == {name for name in named if not name.startswith("_")}
    assert set(rows) == set(inspect.signature(ms.start).parameters)
    for call in (ms.validate, ms.explain):
        assert list(inspect.signature(call).parameters) == list(rows)[:3]


def test_the_table_of_errors_has_every_public_error_with_its_exit_code() -> None:
    rows = table(section("docs/python.md", "## Errors"), "error")
    shown = {name: int(row[1]) for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    kinds = [kind for kind in (getattr(ms, name) for name in ms.__all__) if isinstance(kind, type)]
    assert shown == {kind.__name__: kind.exit_code for kind in kinds if issubclass(kind, ms.MillstreamError)}
