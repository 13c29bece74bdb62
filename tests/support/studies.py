"""A small study on generated text, which tests change and run in their own process, without Spark."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from millstream.study.collection import data_identity, write_collection
from millstream.study.grid import groups_of
from millstream.study.results import ResultFolder
from millstream.study.study_file import LoadedStudy
from millstream.study.task import run_task, tasks_of
from millstream.study.trial import Trial

__all__ = ["A_TRIAL", "TIMES", "RunStudy", "WriteStudy", "rows_of", "run_here", "write_study"]

TIMES = ("seconds", "model_seconds")
"""The columns of a result table that are not the same in every run."""

A_TRIAL = Trial(
    stream="iid",
    stream_config="{}",
    order_seed=0,
    learner="nb",
    learner_config="{}",
    treatment="at_least_once",
    treatment_config="{}",
    simulated=False,
    checkpoint_every=1,
    commit_every=1,
    failures=1,
    span=60,
    placement="random",
    topic="",
    between_first=0.0,
    between_last=1.0,
    seed=0,
    records=600,
    holdout=1,
    trained_before=0,
)
"""A trial with one failure, which tests change."""

WriteStudy = Callable[..., Path]
RunStudy = Callable[..., pa.Table]

_SMALL: dict[str, Any] = {
    "name": "small",
    "data": {
        "source": {"type": "generator", "seed": 3, "topics": 4, "records": 2000},
        "features": {"type": "hashed_text", "dimensions": 1024},
        "records": 600,
        "holdout": 200,
    },
    "streams": {"iid": {"order": "iid"}},
    "learners": {"nb": {"type": "naive_bayes"}},
    "failures": [{"span": 60, "number": 2}],
    "treatments": ["at_least_once", "at_most_once"],
    "seeds": 2,
}


def write_study(path: Path, changes: Mapping[str, Any]) -> Path:
    """Write the small study with other values, by key paths with `__` between the keys."""
    study = copy.deepcopy(_SMALL)
    for dotted, value in changes.items():
        *above, last = dotted.split("__")
        holder = study
        for key in above:
            holder = holder[key]
        holder[last] = value
    path.write_text(yaml.safe_dump(study, sort_keys=False))
    return path


def run_here(loaded: LoadedStudy, out: Path) -> pa.Table:
    """Run the trials that are missing in this process; return the table."""
    folder = ResultFolder(out)
    identity = data_identity(loaded, out)
    folder.claim(loaded.study.name, identity)
    write_collection(loaded, folder.collection, identity)
    finished = folder.finished()
    for task in tasks_of(loaded.study, finished):
        run_task(loaded.study, task, folder, finished)
    return folder.merge([trial.key for group in groups_of(loaded.study) for trial, _ in group.trials(loaded.study)])


def rows_of(table: pa.Table, **wanted: Any) -> list[dict[str, Any]]:
    """Return the rows with these values."""
    return [row for row in table.to_pylist() if all(row[name] == value for name, value in wanted.items())]
