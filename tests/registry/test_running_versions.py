"""A running pipeline registers its model in the background, and never waits for the registry."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from millstream.config.load import read_config
from millstream.runs.start import Options, start
from millstream.runs.watch.mlflow_versions import VersionObserver
from millstream.runs.watch.observer import Observer, Watched
from millstream.state.checkpoints import Checkpoint


class Waiting(Observer):
    """Holds the run at its first checkpoint until the model has been registered."""

    def __init__(self, registered: threading.Event) -> None:
        self._registered = registered

    def checkpointed(self, checkpoint: Checkpoint, seconds: float) -> None:
        assert self._registered.wait(60)


def record(config: dict[str, Any], tmp_path: Path, hold: bool = False, **options: Any) -> tuple[list[str], list[str]]:
    """Run with versions; return the warnings, and what the run said."""
    warnings: list[str] = []
    said: list[str] = []
    registered = threading.Event()

    def say(message: str) -> None:
        said.append(message)
        registered.set()

    def warn(message: str) -> None:
        warnings.append(message)
        registered.set()

    def observers(watched: Watched) -> Sequence[Observer]:
        mlflow = watched.loaded.config.mlflow
        assert mlflow and mlflow.model
        versions = VersionObserver(watched, mlflow, mlflow.model, warn=warn, said=say)
        return [versions, *([Waiting(registered)] if hold else [])]

    start(read_config(config, tmp_path, "small.yaml"), Options(tmp_path / "run", **options), observers=observers)
    return warnings, said


@pytest.fixture
def recorded(config: dict[str, Any], store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    config["guarantee"] = {"delivery": "exactly_once", "checkpoint_every": 1}
    return {**config, "mlflow": {"model": "running", "tracking_uri": store}}


def trained(store: str, name: str) -> list[str]:
    found = MlflowClient(tracking_uri=store).search_model_versions(f"name = '{name}'")
    return [each.tags["millstream.trained"] for each in sorted(found, key=lambda each: int(each.version))]


def test_a_clean_end_registers_the_last_model(recorded: dict[str, Any], store: str, tmp_path: Path) -> None:
    recorded["mlflow"]["model"] = "ended"
    warnings, said = record(recorded, tmp_path)
    assert (warnings, said) == ([], ["registered the model as models:/ended/1, trained up to 1,500 records"])
    assert trained(store, "ended") == ['{"source": {"0": 1500}}']


def test_a_model_is_registered_while_the_run_goes_on(recorded: dict[str, Any], store: str, tmp_path: Path) -> None:
    recorded["mlflow"] |= {"model": "going", "every": "1ms"}
    warnings, _ = record(recorded, tmp_path, hold=True)
    assert warnings == []
    found = trained(store, "going")
    assert len(found) >= 2
    assert found[0] != found[-1] == '{"source": {"0": 1500}}'


def test_a_registry_that_is_down_never_stops_the_run(recorded: dict[str, Any], tmp_path: Path) -> None:
    recorded["mlflow"]["tracking_uri"] = "http://127.0.0.1:1"
    warnings, said = record(recorded, tmp_path)
    assert said == []
    assert len(warnings) == 2
    assert all("the run continues, and its model is registered later" in each for each in warnings)


def test_a_restart_counts_from_the_newest_version(recorded: dict[str, Any], store: str, tmp_path: Path) -> None:
    recorded["mlflow"] |= {"model": "again", "every": "1h"}
    record(recorded, tmp_path, records=600)
    record(recorded, tmp_path, records=300)
    assert trained(store, "again") == [f'{{"source": {{"0": {upto}}}}}' for upto in (600, 900)]


def test_the_experiment_has_the_name_of_the_pipeline_by_default(recorded: dict[str, Any], tmp_path: Path) -> None:
    config = read_config(recorded, tmp_path, "small.yaml").config
    assert config.mlflow and config.mlflow.experiment == "small"
