"""The tables of docs/study.md are those of the code, and the studies that it names are there."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from support.docs_pages import ROOT, section, table

from millstream.study.cells import Cell
from millstream.study.factors import Stream, Treatment
from millstream.study.grid import groups_of
from millstream.study.plots.index import PLOTS
from millstream.study.recovery import RECOVERY_EDGES
from millstream.study.results import COLUMNS
from millstream.study.study_file import StudyConfig, load_study

PAGE = "docs/study.md"
STUDIES = sorted((ROOT / "configs/studies").glob("*.yaml"))


def names(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


def choices(annotation: object, key: str) -> list[str]:
    """The values of the key that tells the models of a union apart."""
    union = get_args(annotation)[0]
    union = get_args(union)[0] if not isinstance(get_args(union)[0], type) else union
    return [value for model in get_args(union) for value in get_args(model.model_fields[key].annotation)]


def test_the_keys_of_a_study_are_those_of_the_code() -> None:
    rows = table(section(PAGE, "## Keys"), "key")
    assert [name for row in rows for name in names(row[0])] == [*StudyConfig.model_fields]


def test_the_orders_and_treatments_are_those_of_the_code() -> None:
    rows = table(section(PAGE, "## Keys"), "order")
    assert [name for row in rows for name in names(row[0])] == choices(Stream, "order")
    rows = table(section(PAGE, "## Treatments"), "treatment")
    assert {name for row in rows for name in names(row[0])} == set(choices(Treatment, "type"))


def test_the_columns_are_those_of_the_table() -> None:
    rows = table(section(PAGE, "## The table"), "column")
    assert [name for row in rows for name in names(row[0])] == COLUMNS


def test_the_bins_of_the_recovery_are_those_of_the_code() -> None:
    [row] = [row for row in table(section(PAGE, "## The table"), "column") if "`recovery_changed`" in row[0]]
    [edges] = re.findall(r"from ([\d, ]+ and [\d,]+) on", row[1])
    assert edges.replace(" and", ",").split(", ") == [f"{edge:,}" for edge in RECOVERY_EDGES]


def test_the_columns_of_cells_are_those_of_the_code() -> None:
    rows = table(section(PAGE, "## Cells and verdicts"), "column")
    shown = {name for row in rows for name in names(row[0])}
    values = {name for name in Cell.__dataclass_fields__ if not name.endswith(("interval", "noise"))}
    assert values - {"factors"} <= shown


def test_the_plots_are_those_of_the_code() -> None:
    assert [name for row in table(section(PAGE, "## Plots"), "plot") for name in names(row[0])] == [*PLOTS]


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_that_comes_with_millstream_is_valid_and_has_the_trials_that_the_page_says(path: object) -> None:
    assert isinstance(path, type(ROOT))
    shown = {row[0].strip("`"): row[2] for row in table(section(PAGE, "## Try it"), "study")}
    study = load_study(path).study
    assert shown[path.name] == f"{sum(len(group.trials(study)) for group in groups_of(study)):,}"
    load_study(path, quick=True)
    assert f"millstream compare configs/studies/{path.name}" in path.read_text()
