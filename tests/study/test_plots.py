"""The plots of a study: those that apply, what they show, and files with the same bytes for the same table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.studies import RunStudy

from millstream.api.study import Study
from millstream.errors import ConfigError
from millstream.study.cells import Cell, cells_of
from millstream.study.plots import index
from millstream.study.plots.index import PLOTS, plots_of, write_plots
from millstream.study.results import labels_of
from millstream.study.study_file import load_study

LEARNS: dict[str, Any] = {
    "learners": {"softmax": {"type": "softmax", "rate": "adaptive"}},
    "failures": [{"span": 60, "number": 1}, {"span": 60, "number": 3}],
    "treatments": [
        "at_least_once",
        "at_most_once",
        "late",
        {"type": "late", "delay": 100},
        {"type": "output_only", "of": "at_least_once"},
        {"type": "state_only", "of": "at_least_once"},
        {"type": "stale_state", "age": 60},
        {"type": "stale_state", "age": 120, "part": 0.25},
        "lost_optimiser",
        "interleaved",
    ],
}
FROZEN: dict[str, Any] = {
    "data__trained_before": 200,
    "streams": {
        "blocks": {"order": "blocks", "size": 100, "share": 0.9, "labels": ["sport", "music"], "records": 400},
        "tail": {"order": "tail", "label": "space", "share": 0.1},
    },
    "failures": [
        {"span": 60, "number": 1, "placement": "topic", "topic": "sport"},
        {"span": 60, "number": 1, "placement": "topic", "topic": "music"},
        {"span": 60, "number": 1, "between": [0, 0.8]},
    ],
}


def shown(name: str, table: pa.Table, cells: list[Cell]) -> list[Any]:
    """The panels of a plot."""
    return list(PLOTS[name].draw(table, cells).axes)


@pytest.fixture
def study(run: RunStudy) -> tuple[pa.Table, list[Cell]]:
    table = run(**LEARNS)
    return table, cells_of(table, {})


def test_the_plots_that_apply_are_drawn_with_the_same_bytes(study: tuple[pa.Table, list[Cell]], tmp_path: Path) -> None:
    table, cells = study
    assert plots_of(cells) == [name for name in PLOTS if name != "earlier_work"]
    (tmp_path / "again").mkdir()
    (tmp_path / "again/earlier_work.png").write_text("of an earlier study")
    first, again = (write_plots(table, cells, tmp_path / name) for name in ("first", "again"))
    assert [file.name for file in first] == [f"{name}.png" for name in plots_of(cells)]
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in again]
    assert {file.name for file in (tmp_path / "again").iterdir()} == {file.name for file in first}


def test_points_are_the_figures_of_the_cells(study: tuple[pa.Table, list[Cell]]) -> None:
    table, cells = study
    bias = {round(y, 9) for each in shown("share_bias", table, cells)[0].lines for y in np.ravel(each.get_ydata())}
    known = {round(100 * cell.share_bias, 9) for cell in cells if cell.closed_form_share_bias}
    assert known <= bias and len(known) > 2
    panel = shown("accuracy_difference", table, cells)[0]
    drawn = {round(y, 9) for each in panel.lines for y in np.ravel(each.get_ydata())}
    for cell in cells:
        if (cell.factors["stream"], cell.factors["learner"], cell.treatment) == ("iid", "softmax", "at_most_once"):
            assert round(100 * cell.accuracy_difference, 9) in drawn
            assert round(100 * (cell.shorter_difference or 0), 9) in drawn  # the cross of the learning curve
    texts = {text.get_text() for panel in shown("late_repeats", table, cells) for text in panel.texts}
    late = [cell for cell in cells if cell.factors["treatment"] == "late" and abs(cell.accuracy_difference) >= 0.001]
    assert late and all(f"{100 * cell.accuracy_difference:+.1f}" in {t.rstrip("*") for t in texts} for cell in late)


def test_the_tables_of_earlier_work_are_beside_those_of_a_study_of_their_design(run: RunStudy) -> None:
    table = run(**FROZEN)
    cells = cells_of(table, {})
    assert plots_of(cells) == ["earlier_work"]
    first, second, last = (
        {round(bar.get_height(), 6) for bar in panel.patches} for panel in shown("earlier_work", table, cells)
    )
    assert {41.8, 46.7, 37.7} < first and {40.4, 35.5, 44.5} < second and {10.1, 9.4} < last
    sport = labels_of(table).index("sport")
    once = [row for row in table.to_pylist() if row["stream"] == "blocks" and not row["failures"]]
    assert round(100 * np.mean([row["predicted_shares"][sport] for row in once]), 6) in first


@pytest.mark.parametrize("frozen", [False, True])
def test_any_label_can_be_in_a_plot_in_a_line_that_is_not_long(run: RunStudy, tmp_path: Path, *, frozen: bool) -> None:
    labels = ["$\\no{formula$", "sport\nnews " * 30]
    lines = [json.dumps({"text": f"word{number % 7}", "label": labels[number % 2]}) for number in range(1200)]
    (tmp_path / "some.jsonl").write_text("\n".join(lines))
    table = run(
        data__source={"type": "files", "path": "some.jsonl", "fields": {"text": "text", "label": "label"}},
        data__trained_before=100 if frozen else 0,
        streams={"blocks": {"order": "blocks", "size": 100}},
        learners={"softmax": {"type": "softmax"}},
        failures=[{"span": 60, "number": 1, "placement": "topic", "topic": label} for label in labels],
        treatments=["at_least_once", "at_most_once"] if frozen else ["at_least_once", "late"],
    )
    cells = cells_of(table, {})
    files = write_plots(table, cells, tmp_path / "plots")
    name = "earlier_work" if frozen else "late_repeats"
    assert name in [file.stem for file in files]
    texts = [text for panel in shown(name, table, cells) for text in (panel.get_title("left"), panel.get_ylabel())]
    assert any("formula" in text for text in texts) and all(len(text) < 150 for text in texts)


def test_python_has_the_plots_of_a_study_as_figures(run: RunStudy, tmp_path: Path) -> None:
    table = run()
    study = Study(
        load_study(tmp_path / "small.yaml").study, tmp_path / "out", table, labels_of(table), cells_of(table, {})
    )
    assert len(study.cells) == 3
    assert "share_bias" in study.plots
    figure = study.plot("share_bias")
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="the study 'small' has no plot 'bias'; there are share_bias"):
        study.plot("bias")


def test_no_plot_uses_pyplot_which_keeps_every_figure() -> None:
    sources = {file.stem: file.read_text() for file in Path(str(index.__file__)).parent.glob("*.py")}
    assert {*PLOTS} < {*sources}
    assert not [name for name, text in sources.items() if "matplotlib.pyplot" in text or "import pyplot" in text]
