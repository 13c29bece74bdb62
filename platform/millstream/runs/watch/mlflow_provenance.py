"""Provenance of a run for MLflow: tags about its code, its user and its config, and its sources as datasets."""

from __future__ import annotations

import getpass
import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millstream.config.load import Loaded
from millstream.log.epochs import Totals
from millstream.runs.directory import RunDirectory

__all__ = ["run_tags", "source_datasets"]

_GIT_SECONDS = 5.0
_LONGEST_PROFILE = 60_000
_DIGEST = 32


def run_tags(loaded: Loaded, run: Path) -> dict[str, str]:
    """The tags of a run: MLflow's own for the user, the file and the commit, and Millstream's."""
    config = loaded.config
    tags = {
        "mlflow.source.name": loaded.file,
        "mlflow.source.type": "LOCAL",
        "millstream.delivery": str(config.guarantee.delivery),
        "millstream.engine": config.engine.type,
        "millstream.run": str(run.absolute()),
    }
    optional = {"mlflow.user": _user(), "mlflow.source.git.commit": _commit(loaded.folder)}
    return tags | {name: value for name, value in optional.items() if value}


def source_datasets(loaded: Loaded, directory: RunDirectory, totals: Totals) -> list[Any]:
    """The sources as MLflow's datasets: for each partition the offset up to which it was read, its end and identity."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    known: Mapping[str, Mapping[str, tuple[int, str]]] = json.loads(directory.sources.read_text())
    read = {(part.source, part.name): totals.positions.get(rank, 0) for rank, part in enumerate(totals.partitions)}
    resolved = loaded.resolved()
    datasets = []
    for source in loaded.config.logs:
        partitions = {
            name: {"read": read.get((source.name, name), 0), "end": end, "identity": _short(str(identity))}
            for name, (end, identity) in known.get(source.name, {}).items()
        }
        text = json.dumps({"partitions": partitions})
        options = resolved["source"] if source.path == ("source",) else resolved["sources"][source.name]
        dataset = Dataset(
            name=source.name,
            digest=_short(text),
            source_type=str(source.config.type),
            source=json.dumps(loaded.redacted(options, source.path)),
            profile=text if len(text) <= _LONGEST_PROFILE else json.dumps({"partitions": len(partitions)}),
        )
        datasets.append(DatasetInput(dataset, [InputTag("mlflow.data.context", "training")]))
    return datasets


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a process in a container may have a number and no name
        return ""


def _commit(folder: Path) -> str:
    """The commit of the folder's git repository; empty if there is none."""
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607  # found on PATH
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return asked.stdout.strip()
