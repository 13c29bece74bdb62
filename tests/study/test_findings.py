"""The tables of the findings are made of a study's trials: shifts of shares by counts, prequential accuracies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.studies import RunStudy, rows_of

from millstream.study.cells import cells_of
from scripts import findings_tables
from scripts.findings_tables import cell_rows, chosen, prequential_rows, read_rows, shift_rows, write_rows

FROZEN: dict[str, Any] = {
    "data__records": 400,
    "data__holdout": 50,
    "data__trained_before": 200,
    "streams": {"two_topics": {"order": "blocks", "size": 100, "share": 0.95, "labels": ["sport", "music"]}},
    "failures": [{"span": 60, "number": 1, "placement": "topic", "topic": topic} for topic in ("sport", "music")],
    "seeds": 3,
}


def test_a_shift_is_that_of_counts_if_the_model_is_frozen(run: RunStudy) -> None:
    rows = shift_rows(run(**FROZEN))
    assert len(rows) == 2 * 2 * 2  # deliveries, places of the failure, labels
    for row in rows:
        assert row["shift_by_counts"] == pytest.approx(row["shift"], abs=1e-12) and row["shift"]
        inside = row["failures"] == f"in {row['label']}"
        assert (row["shift"] > 0) == (inside == (row["treatment"] == "at_least_once"))


def test_a_shift_is_not_that_of_counts_if_the_model_learns_from_the_stream(run: RunStudy) -> None:
    rows = shift_rows(run(**{**FROZEN, "data__trained_before": 0}))
    assert max(abs(row["shift_by_counts"] - row["shift"]) for row in rows) > 1e-4


def test_a_prequential_accuracy_has_the_interval_of_its_seeds(run: RunStudy) -> None:
    table = run(treatments=["exactly_once", "interleaved"], failures=[], seeds=3)
    [row] = prequential_rows(table)
    once = [trial["accuracy_first"] for trial in rows_of(table, treatment="exactly_once")]
    assert row["seeds"] == 3 and row["accuracy"] == pytest.approx(np.mean(once))
    half = 4.303 * np.std(once, ddof=1) / np.sqrt(3)  # Student's t with two degrees of freedom
    assert row["accuracy_high"] - row["accuracy"] == pytest.approx(half, rel=1e-3)


def test_rows_are_read_as_they_were_written(run: RunStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings_tables, "FOLDER", tmp_path / "findings")
    table: pa.Table = run(seeds=3)
    rows = cell_rows(cells_of(table, {"iid": 0.05}))
    assert [row["treatment"] for row in rows] == ["at_least_once", "at_most_once"]
    write_rows("small", rows)
    read = read_rows("small")
    assert [*read[0]] == [*rows[0]]
    [lost] = chosen(read, treatment="at_most_once")
    assert lost["difference"] == pytest.approx(rows[1]["difference"], rel=1e-4)
    assert lost["noise_low"] is None and lost["verdict"] == rows[1]["verdict"]
