"""A version in MLflow says what it has learned, how good it is, and where it comes from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from mlflow import MlflowClient
from mlflow.artifacts import load_text
from mlflow.entities import Run as MlflowRun
from support.histories import HereSession

from millstream.api.run import Run
from millstream.config.load import read_config
from millstream.history.registration import register
from millstream.history.train import train
from millstream.log.epochs import Scores
from millstream.registry.description import version_text
from millstream.runs.start import Options, start
from millstream.runs.watch.mlflow import MlflowObserver
from millstream.runs.watch.mlflow_versions import VersionObserver
from millstream.runs.watch.observer import Observer, Watched
from millstream.state.model_version import ModelVersion


@pytest.fixture
def client(store: str) -> MlflowClient:
    return MlflowClient(tracking_uri=store)


def run_of(client: MlflowClient, name: str) -> MlflowRun:
    """The run to which the first version of a model belongs."""
    run = client.get_model_version(name, "1").run_id
    assert run is not None
    return client.get_run(run)


def logged_model_of(client: MlflowClient, run: MlflowRun) -> Any:
    """The one logged model that a run says it has made."""
    outputs = run.outputs
    assert outputs is not None
    [output] = outputs.model_outputs
    return client.get_logged_model(output.model_id)


def test_its_description_has_the_records_the_accuracy_and_the_labels(run: Run, client: MlflowClient) -> None:
    run.export("described")
    description = client.get_model_version("described", "1").description
    assert description is not None and run.summary is not None
    for words in (
        "`naive_bayes` of step `classify`, trained up to 1,500 records of `source`",
        f"before it learned each record: {run.summary.accuracy:.3f} of 1,500 labelled records",
        "8 labels: `film`, `food`,",
    ):
        assert words in description
    assert "models:/described/1" in str(client.get_registered_model("described").description)


def test_labels_in_a_description_are_short_and_no_markdown() -> None:
    labels = ["`<img src=x>", "line\nbreak", *(f"{number:02d}{'x' * 1000}" for number in range(30))]
    state = {"classes": np.frombuffer(json.dumps(labels).encode(), np.uint8)}
    step = {"name": "classify", "model": {"type": "naive_bayes"}}
    text = version_text(ModelVersion("classify", state, (step,), {}, ""), Scores())
    assert len(text) < 5000 and text.endswith("`, ....") and "32 labels: `00xxx" in text
    few = {"classes": np.frombuffer(json.dumps(labels[:2]).encode(), np.uint8)}
    text = version_text(ModelVersion("classify", few, (step,), {}, ""), Scores())
    assert text.endswith("2 labels: `'<img src=x>`, `line\\nbreak`.")


def test_a_description_that_a_person_wrote_is_kept(run: Run, client: MlflowClient) -> None:
    client.create_registered_model("kept", description="ours")
    run.export("kept")
    assert client.get_registered_model("kept").description == "ours"


def test_the_logged_model_has_options_and_metrics_and_names_its_version(run: Run, client: MlflowClient) -> None:
    run.export("linked")
    source = run_of(client, "linked")
    model = logged_model_of(client, source)
    assert model.tags["mlflow.modelVersions"] == '[{"name": "linked", "version": 1}]'
    assert model.source_run_id == source.info.run_id
    assert model.params["classify.model.type"] == "naive_bayes"
    assert model.params["hashed_text.ngrams"] == "[1, 1]"
    assert not [name for name, value in model.params.items() if value == "None"]
    assert run.summary is not None
    metrics = {each.key: (each.value, each.step) for each in model.metrics}
    assert metrics["model_accuracy"] == (run.summary.accuracy, 1500)
    assert metrics["model_records"] == (1500, 1500)


def test_a_training_has_a_run_with_its_config_its_sources_and_its_accuracy(
    config: dict[str, Any], store: str, client: MlflowClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    loaded = read_config({**config, "name": "trainings"}, tmp_path, "small.yaml")
    trained = train(loaded, tmp_path / "model", sessions=HereSession)
    register(trained, loaded, "trained")
    run = run_of(client, "trained")
    assert (run.info.run_name, run.info.status) == ("train trained", "FINISHED")
    assert run.data.tags["mlflow.source.name"] == "small.yaml"
    assert run.data.tags["millstream.training"] == str(tmp_path / "model")
    assert run.data.params["pipeline.steps.2.model.type"] == "naive_bayes"
    assert run.data.metrics["model_accuracy"] == trained.result["correct"] / trained.result["labelled"]
    assert run.inputs is not None
    [used] = run.inputs.dataset_inputs
    assert used.dataset.name == "source" and '"read": 1500' in str(used.dataset.profile)
    assert yaml.safe_load(load_text(f"{run.info.artifact_uri}/config.yaml"))["name"] == "trainings"


@pytest.mark.parametrize("known", ["deleted", "of another store"])
def test_a_version_of_a_run_that_the_store_does_not_have_gets_a_run_of_its_own(
    run: Run, client: MlflowClient, known: str
) -> None:
    name = known.replace(" ", "-")
    lost = "0" * 32
    if known == "deleted":
        lost = client.create_run(client.create_experiment(name)).info.run_id
        client.delete_run(lost)
    (run.path / "mlflow.json").write_text(json.dumps({"run": lost}))
    run.export(name)
    assert run_of(client, name).info.run_name == f"export {name}"


def test_versions_of_a_recorded_run_belong_to_its_mlflow_run(
    config: dict[str, Any], store: str, client: MlflowClient, tmp_path: Path
) -> None:
    config["mlflow"] = {"experiment": "recorded", "model": "recorded", "tracking_uri": store}

    def observers(watched: Watched) -> Sequence[Observer]:
        mlflow = watched.loaded.config.mlflow
        assert mlflow and mlflow.model
        versions = VersionObserver(watched, mlflow, mlflow.model, warn=pytest.fail, said=lambda _: None)
        return [MlflowObserver(watched, mlflow, warn=pytest.fail), versions]

    start(read_config(config, tmp_path, "small.yaml"), Options(tmp_path / "run"), observers=observers)
    experiment = client.get_experiment_by_name("recorded")
    assert experiment is not None and experiment.tags["mlflow.experimentKind"] == "custom_model_development"
    [run] = client.search_runs([experiment.experiment_id])
    assert run_of(client, "recorded").info.run_id == run.info.run_id
    assert logged_model_of(client, run).name == "recorded"
    assert run.data.metrics["model_accuracy"] == run.data.metrics["accuracy"]
