"""Runs over four journals, and versions of their models in folders."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from millstream.config.load import Loaded, read_config
from millstream.log.epochs import EpochReader
from millstream.log.journal import Journal
from millstream.runs.directory import RunDirectory
from millstream.runs.model_versions import newest_artefact
from millstream.state.model_version import ModelVersion
from millstream.steps.contracts import State

__all__ = ["SOURCES", "append", "config_of", "flowing", "last_epoch", "learned", "model_of", "run_config", "version_of"]

SOURCES = ("a", "b", "c", "d")
LABELS = ("sport", "film", "politics")
DIMENSIONS = 1 << 15


def records(source: str, start: int, count: int) -> Iterator[bytes]:
    """Records of which each has a word that no other record has."""
    for i in range(start, start + count):
        label = LABELS[i % 3]
        yield json.dumps({"text": f"{label} word{i % 17} {source}{i}", "label": label}).encode()


def append(folder: Path, count: int, sources: tuple[str, ...] = SOURCES) -> None:
    """Append so many records to the journal of each source."""
    for source in sources:
        with Journal(folder / source) as journal:
            journal.append_many(records(source, journal.next_index, count))
            journal.sync()


@contextmanager
def flowing(folder: Path) -> Iterator[None]:
    """Append records to four journals, about 500 a second."""
    ending = threading.Event()

    def work() -> None:
        while not ending.wait(0.04):
            append(folder, 5)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def config_of(folder: Path, **changes: Any) -> dict[str, Any]:
    """The config of a pipeline over four journals; `model` and `shadow` are those of the step that classifies."""
    classify: dict[str, Any] = {"type": "classify", "model": {"type": "naive_bayes", "batch_size": 1}}
    classify |= {key: changes.pop(key) for key in ("model", "shadow") if key in changes}
    features = {"type": "hashed_text", "dimensions": changes.pop("dimensions", DIMENSIONS)}
    config = {
        "name": "small",
        "sources": {source: {"type": "journal", "path": str(folder / source)} for source in SOURCES},
        "pipeline": {"steps": [features, classify]},
        "engine": {"type": "local", "epoch": {"max_records": 90}},
    }
    return {**config, **changes}


def run_config(folder: Path, **changes: Any) -> Loaded:
    """The config, loaded."""
    return read_config(config_of(folder, **changes), folder, "small.yaml")


def version_of(run: Path, loaded: Loaded, folder: Path) -> ModelVersion:
    """The model of a run's newest checkpoint as a version in a folder."""
    version = model_of(run, loaded)
    version.save(folder)
    return version


def learned(state: State) -> State:
    """The state of the model without the baselines, of which one depends on the order of the partitions."""
    return {name: value for name, value in state.items() if not name.startswith("baselines/")}


def model_of(run: Path, loaded: Loaded) -> ModelVersion:
    """The model of a run's newest checkpoint."""
    artefact = newest_artefact(RunDirectory(run), loaded)
    return artefact.version


def last_epoch(run: Path) -> int:
    return EpochReader(run / "epochs").totals().next_epoch - 1
