"""A study in MLflow: one run, and below it a run for each cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from support.studies import RunStudy, WriteStudy

from millstream.study.cells import cells_of
from millstream.study.mlflow_record import record_study
from millstream.study.plots.index import plots_of, write_plots
from millstream.study.study_file import load_study


def recorded(client: Any, experiment: str) -> list[Any]:
    found = client.get_experiment_by_name(experiment)
    return [] if found is None else list(client.search_runs([found.experiment_id]))


def test_a_study_is_recorded_once_with_its_cells(run: RunStudy, write: WriteStudy, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    mlflow = {"experiment": "studies", "tracking_uri": store}
    table = run(mlflow=mlflow)
    loaded = load_study(write(mlflow=mlflow))
    found = cells_of(table, {})
    write_plots(table, found, tmp_path / "out/plots")
    for _ in range(2):
        record_study(loaded, tmp_path / "out", table, found, pytest.fail)
    client = MlflowClient(tracking_uri=store)
    runs = recorded(client, "studies")
    cells = {f"{cell.treatment} {cell.failures}": cell for cell in found}
    assert len(runs) == 1 + len(cells) == 4
    [study] = [run for run in runs if run.data.tags.get("millstream.study") == "small"]
    assert study.data.metrics["trials"] == table.num_rows
    files = {file.path for file in client.list_artifacts(study.info.run_id)}
    assert files == {"study.json", "trials.parquet", "cells.json", "plots"}
    plots = {file.path for file in client.list_artifacts(study.info.run_id, "plots")}
    assert plots == {f"plots/{name}.png" for name in plots_of(found)} != set()
    logged = json.loads(Path(client.download_artifacts(study.info.run_id, "cells.json")).read_text())
    assert len(logged["data"]) == len(found) and {"verdict", "accuracy_difference_low"} <= {*logged["columns"]}
    nested = [run for run in runs if run.data.tags.get("mlflow.parentRunId") == study.info.run_id]
    for run_of_cell in nested:
        cell = cells[run_of_cell.info.run_name.removeprefix("iid nb ")]
        assert run_of_cell.data.metrics["holdout_accuracy"] == pytest.approx(cell.holdout_accuracy)
        assert run_of_cell.data.params["treatment"] == cell.factors["treatment"]


def test_a_store_that_fails_does_not_fail_the_study(run: RunStudy, write: WriteStudy, tmp_path: Path) -> None:
    mlflow = {"experiment": "studies", "tracking_uri": f"sqlite:///{tmp_path / 'absent/folder/mlflow.db'}"}
    table = run(seeds=1)
    (tmp_path / "absent").write_text("a file, where a folder would have to be")
    warned: list[str] = []
    loaded = load_study(write(mlflow=mlflow))
    record_study(loaded, tmp_path / "out", table, cells_of(table, {}), warned.append)
    [warning] = warned
    assert warning.startswith("MLflow: ") and "the study is not recorded, and" in warning
    assert not (tmp_path / "out/mlflow.json").exists()
