"""Provenance of a run for MLflow: tags about its code and its user, its config as params, its sources as datasets."""

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
from millstream.registry.flat_values import flat_values
from millstream.runs.directory import RunDirectory
from millstream.state.model_version import ModelVersion

__all__ = [
    "code_tags",
    "config_params",
    "read_partitions",
    "run_tags",
    "source_datasets",
    "trained_partitions",
]

_GIT_SECONDS = 5.0
_LONGEST_PROFILE = 60_000
_LONGEST_VALUE = 6000
_DIGEST = 32

Partition = Mapping[str, int | str]
"""The offset up to which a partition was read, a digest of its identity, and its end, if that is known."""


def code_tags(loaded: Loaded) -> dict[str, str]:
    """MLflow's own tags for the user, the config and the commit."""
    tags = {"mlflow.source.name": loaded.file, "mlflow.source.type": "LOCAL"}
    optional = {"mlflow.user": _user(), "mlflow.source.git.commit": _commit(loaded.folder)}
    return tags | {name: value for name, value in optional.items() if value}


def run_tags(loaded: Loaded, run: Path) -> dict[str, str]:
    """Millstream's tags of a run."""
    config = loaded.config
    return {
        "millstream.delivery": str(config.guarantee.delivery),
        "millstream.engine": config.engine.type,
        "millstream.run": str(run.absolute()),
    }


def config_params(loaded: Loaded) -> dict[str, str]:
    """The config as params, without values that are null."""
    config = {key: value for key, value in loaded.resolved().items() if key != "mlflow"}
    return {key: loaded.redact(str(value))[:_LONGEST_VALUE] for key, value in flat_values(config)}


def read_partitions(directory: RunDirectory, totals: Totals) -> dict[str, dict[str, Partition]]:
    """The partitions of a run by source and name."""
    known: Mapping[str, Mapping[str, tuple[int, str]]] = json.loads(directory.sources.read_text())
    read = {(part.source, part.name): totals.positions.get(rank, 0) for rank, part in enumerate(totals.partitions)}
    return {
        source: {
            name: {"read": read.get((source, name), 0), "end": end, "identity": _short(str(identity))}
            for name, (end, identity) in parts.items()
        }
        for source, parts in known.items()
    }


def trained_partitions(version: ModelVersion) -> dict[str, dict[str, Partition]]:
    """The partitions that a version has learned by source and name."""
    return {
        source: {name: {"read": part.upto, "identity": _short(part.identity)} for name, part in parts.items()}
        for source, parts in version.trained.items()
    }


def source_datasets(loaded: Loaded, read: Mapping[str, Mapping[str, Partition]]) -> list[Any]:
    """The sources as MLflow's datasets, with their partitions."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    resolved = loaded.resolved()
    datasets = []
    for source in loaded.config.logs:
        partitions = read.get(source.name, {})
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
