"""A study in MLflow: one run with its tables and plots, and below it a run for each cell.

This module is imported only if the study has `mlflow`.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

import pyarrow as pa

from millstream.errors import MillstreamError
from millstream.log.journal.durability import write_whole
from millstream.plain_text import short
from millstream.registry.experiments import open_experiment
from millstream.registry.settings import THREAD, drop_own_messages, quiet_environment, tracking_uri
from millstream.study.cells import Cell, cells_table
from millstream.study.study_file import LoadedStudy

__all__ = ["record_study"]

_LONGEST_WARNING = 200
_METRICS = ("holdout_accuracy", "accuracy_difference", "labels_changed", "share_bias", "seeds")


def record_study(
    loaded: LoadedStudy, folder: Path, table: pa.Table, cells: Sequence[Cell], warn: Callable[[str], None]
) -> None:
    """Record a table with its cells, unless it is recorded already; if MLflow fails, `warn` is called.

    The files in the folder's `plots` become artefacts.
    """
    thread = threading.Thread(target=_record, args=(loaded, folder, table, cells, warn), name=THREAD)
    with quiet_environment():
        thread.start()
        thread.join()


def _record(
    loaded: LoadedStudy, folder: Path, table: pa.Table, cells: Sequence[Cell], warn: Callable[[str], None]
) -> None:
    known = folder / "mlflow.json"
    keys = hashlib.blake2b("".join(table["key"].to_pylist()).encode(), digest_size=12).hexdigest()
    if known.exists() and json.loads(known.read_text())["table"] == keys:
        return
    try:
        run = _write(loaded, folder, table, cells)
    except Exception as error:  # any error of the store of MLflow: the study must not fail
        reason = shorten(str(error).strip() or type(error).__name__, _LONGEST_WARNING, placeholder=" ...")
        warn(f"MLflow: {loaded.document.secrets.redact(reason)}; the study is not recorded, and {folder} has its table")
    else:
        write_whole(known, json.dumps({"run": run, "table": keys}))


def _write(loaded: LoadedStudy, folder: Path, table: pa.Table, cells: Sequence[Cell]) -> str:
    """Write the study's run and those of its cells; return the id of the first."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    drop_own_messages()
    study = loaded.study
    if study.mlflow is None:
        message = "this study names no MLflow experiment"
        raise MillstreamError(message)
    client: Any = MlflowClient(tracking_uri=tracking_uri(study.mlflow, os.environ))
    experiment = open_experiment(client, study.mlflow.experiment)
    run = str(client.create_run(experiment, run_name=study.name, tags={"millstream.study": study.name}).info.run_id)
    sizes = {"records": study.data.records, "holdout": study.data.holdout, "seeds": len(study.seed_list)}
    now = int(time.time() * 1000)
    metrics = [Metric("trials", float(table.num_rows), now, 0)]
    client.log_batch(run, metrics=metrics, params=[Param(name, str(value)) for name, value in sizes.items()])
    client.log_text(run, loaded.document.secrets.redact(study.model_dump_json(indent=1)), "study.json")
    client.log_artifact(run, str(folder / "trials.parquet"))
    client.log_table(run, cells_table(cells).to_pydict(), "cells.json")
    if (folder / "plots").is_dir():
        client.log_artifacts(run, str(folder / "plots"), "plots")
    for cell in cells:
        _write_cell(client, experiment, run, cell, now)
    client.set_terminated(run)
    return run


def _write_cell(client: Any, experiment: str, study: str, cell: Cell, now: int) -> None:
    from mlflow.entities import Metric, Param

    name = f"{cell.factors['stream']} {cell.factors['learner']} {cell.treatment} {short(cell.failures)}"
    nested = client.create_run(experiment, run_name=name, tags={"mlflow.parentRunId": study}).info.run_id
    params = [Param(factor, str(value)) for factor, value in cell.factors.items() if value != ""]
    metrics = [Metric(metric, float(getattr(cell, metric)), now, 0) for metric in _METRICS]
    client.log_batch(nested, metrics=metrics, params=params)
    client.set_terminated(nested)
