"""A run in MLflow has the content of the run directory, and MLflow never stops the run."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from millstream.config.load import Loaded
from millstream.config.models import Mlflow
from millstream.errors import MillstreamError
from millstream.registry.settings import tracking_uri
from millstream.runs.start import Options, start
from millstream.runs.watch.metrics import Metrics, read_windows
from millstream.runs.watch.mlflow import MlflowObserver
from millstream.runs.watch.observer import Observer, Watched
from millstream.steps.processor import EpochResult

Configured = Callable[..., Loaded]


class Stopper(Observer):
    """Calls `act` after a number of epochs."""

    def __init__(self, epochs: int, act: Callable[[], None]) -> None:
        self._left, self._act = epochs, act

    def finished_epoch(self, result: EpochResult) -> None:
        self._left -= 1
        if self._left == 0:
            self._act()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One store for all tests, because creating its tables takes seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}"


@pytest.fixture
def client(store: str) -> MlflowClient:
    return MlflowClient(tracking_uri=store)


@pytest.fixture
def record_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: Configured, store: str, request: pytest.FixtureRequest
) -> Callable[..., list[str]]:
    """A function that runs with MLflow, in an experiment of this test, and returns the warnings."""
    monkeypatch.chdir(tmp_path)

    def run(name: str = "run", uri: str = store, stopper: Stopper | None = None, **options: Any) -> list[str]:
        warnings: list[str] = []
        changes = {"pipeline": options.pop("pipeline")} if "pipeline" in options else {}
        loaded = configured(mlflow={"experiment": request.node.name, "tracking_uri": uri}, **changes)

        def observers(watched: Watched) -> Sequence[Observer]:
            assert watched.loaded.config.mlflow
            mirror = MlflowObserver(watched, watched.loaded.config.mlflow, warn=warnings.append)
            metrics = Metrics(watched, warn=warnings.append, then=mirror.window)
            return [metrics, mirror, *([stopper] if stopper else [])]

        stop = options.pop("stop", None)
        start(loaded, Options(tmp_path / name, **options), observers=observers, stop=stop)
        return warnings

    return run


def run_id(folder: Path, name: str = "run") -> str:
    return str(json.loads((folder / name / "mlflow.json").read_text())["run"])


def history(client: MlflowClient, run: str, key: str = "epoch") -> list[tuple[int, float]]:
    return sorted((metric.step, metric.value) for metric in client.get_metric_history(run, key))


def test_mlflow_has_the_config_the_windows_and_the_summary_of_a_run(
    tmp_path: Path, record_run: Callable[..., list[str]], client: MlflowClient
) -> None:
    assert record_run() == []
    run = client.get_run(run_id(tmp_path))
    assert (run.info.status, run.info.run_name) == ("FINISHED", "run")
    assert run.data.params["pipeline.model.type"] == "complement_nb"
    assert run.data.params["engine.epoch.max_records"] == "300"
    assert history(client, run.info.run_id) == [(1200, 3.0), (2400, 7.0)]
    windows = list(read_windows(tmp_path / "run/metrics.jsonl"))
    shown = history(client, run.info.run_id, "window_accuracy")
    assert shown == [(window.records, window.window_accuracy) for window in windows]
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert run.data.metrics["accuracy"] == summary["accuracy"]
    for name, accuracy in summary["baselines"].items():
        assert run.data.metrics[f"baselines.{name}"] == accuracy
        shown = history(client, run.info.run_id, f"window_baselines.{name}")
        assert shown == [(window.records, (window.window_baselines or {})[name]) for window in windows]
    assert (run.data.metrics["records"], run.data.metrics["delivered.predictions"]) == (3000, 3000)
    artefacts = [artefact.path for artefact in client.list_artifacts(run.info.run_id)]
    assert sorted(artefacts) == ["config.yaml", "summary.json", "versions.json"]


def test_each_of_several_models_has_its_accuracy(
    tmp_path: Path, record_run: Callable[..., list[str]], client: MlflowClient
) -> None:
    models = {"bayes": {"type": "naive_bayes", "features": {}}, "before": {"type": "no_change"}}
    steps = [{"type": "classify", "name": name, "from": "source", "model": model} for name, model in models.items()]
    assert record_run(pipeline={"steps": steps}) == []
    run = client.get_run(run_id(tmp_path))
    windows = list(read_windows(tmp_path / "run/metrics.jsonl"))
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    for name in models:
        shown = history(client, run.info.run_id, f"steps.{name}.window_accuracy")
        assert shown == [(window.records, window.steps[name]["window_accuracy"]) for window in windows]
        assert run.data.metrics[f"steps.{name}.accuracy"] == summary["steps"][name]["accuracy"]
    assert run.data.metrics["steps.bayes.accuracy"] > run.data.metrics["steps.before.accuracy"]


def test_a_restart_continues_the_same_mlflow_run(
    tmp_path: Path, record_run: Callable[..., list[str]], client: MlflowClient
) -> None:
    stop = threading.Event()
    assert record_run(stop=stop, stopper=Stopper(5, stop.set)) == []
    first = run_id(tmp_path)
    stopped = client.get_run(first)
    assert (stopped.info.status, stopped.data.tags["millstream.ended"]) == ("FINISHED", "stopped")
    with pytest.raises(MillstreamError, match="the disk is on fire"):
        record_run(stopper=Stopper(1, _fail))
    failed = client.get_run(first)
    assert (failed.info.status, failed.data.tags["millstream.ended"]) == ("FAILED", "failed")
    assert record_run() == []
    assert run_id(tmp_path) == first
    ended = client.get_run(first)
    assert (ended.info.status, ended.data.tags["millstream.ended"]) == ("FINISHED", "idle")
    assert ended.info.start_time == stopped.info.start_time < ended.info.end_time
    assert history(client, first) == [(1200, 3.0), (2400, 7.0)]


def test_no_step_of_a_metric_is_recorded_twice(
    tmp_path: Path, record_run: Callable[..., list[str]], client: MlflowClient
) -> None:
    assert record_run(records=2400) == []  # the second window ends with the last record
    assert record_run(records=600) == record_run() == []  # and the last start finds nothing new
    run = run_id(tmp_path)
    for key in ("accuracy", "baselines.majority", "records", "delivered.predictions"):
        steps = [step for step, _ in history(client, run, key)]
        assert len(set(steps)) == len(steps), key
    assert [step for step, _ in history(client, run, "records")] == [2400, 3000]


def test_a_run_has_the_times_of_the_run_and_tags_and_its_sources_as_datasets(
    tmp_path: Path, record_run: Callable[..., list[str]], client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    repository = ["git", "-c", "user.name=ann", "-c", "user.email=ann@localhost"]
    subprocess.run([*repository, "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run([*repository, "commit", "--quiet", "--allow-empty", "-m", "one"], cwd=tmp_path, check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path, capture_output=True, text=True, check=True)
    before = int(time.time() * 1000)
    assert record_run(records=2000) == []
    run = client.get_run(run_id(tmp_path))
    seconds = json.loads((tmp_path / "run/summary.json").read_text())["seconds"]
    assert before <= run.info.start_time and run.info.end_time - run.info.start_time >= seconds * 1000 - 1
    tags = {
        "mlflow.user": "ann",
        "mlflow.source.git.commit": commit.stdout.strip(),
        "millstream.delivery": "exactly_once",
        "millstream.engine": "local",
        "millstream.run": str(tmp_path / "run"),
        "millstream.ended": "stopped",
    }
    assert {name: run.data.tags.get(name) for name in tags} == tags
    assert run.inputs is not None
    [used] = run.inputs.dataset_inputs
    assert (used.dataset.name, used.dataset.source_type) == ("source", "generator")
    assert json.loads(used.dataset.source)["records"] == 3000
    [partition] = json.loads(str(used.dataset.profile))["partitions"].values()
    assert (partition["read"], partition["end"]) == (2000, 3000)


def _fail() -> None:
    raise MillstreamError("the disk is on fire")


def test_a_deleted_mlflow_run_is_replaced_by_one_with_all_windows(
    tmp_path: Path, record_run: Callable[..., list[str]], client: MlflowClient
) -> None:
    record_run(records=1500)
    first = run_id(tmp_path)
    client.delete_run(first)
    assert record_run() == [
        f"MLflow: the run {first} of {tmp_path / 'run'} was deleted; this start records a new MLflow run"
    ]
    assert run_id(tmp_path) != first
    assert history(client, run_id(tmp_path)) == [(1200, 3.0), (2400, 7.0)]


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9", "sqlite:////dev/null/mlflow.db", "nonsense://here"])
def test_a_store_that_cannot_be_reached_causes_one_warning(
    tmp_path: Path, record_run: Callable[..., list[str]], uri: str
) -> None:
    [warning] = record_run(uri=uri)
    assert warning.startswith("MLflow: ") and warning.endswith("; the run continues without MLflow")
    assert record_run("other") == []
    mine, other = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("run", "other"))
    for key in ("records", "accuracy", "baselines", "model", "state", "outputs"):
        assert mine[key] == other[key]


def test_values_from_the_environment_are_not_recorded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    configured: Configured,
    store: str,
    client: MlflowClient,
) -> None:
    monkeypatch.setenv("PLACE", "very-secret-folder")
    password = {"type": "files", "path": "of http://ann:s3cret@host"}
    sinks = {"topics": {"type": "files", "path": "${PLACE}/topics"}, "predictions": password}
    loaded = configured(sinks=sinks, mlflow={"experiment": "secrets", "tracking_uri": store})

    def observers(watched: Watched) -> Sequence[Observer]:
        assert watched.loaded.config.mlflow
        return [MlflowObserver(watched, watched.loaded.config.mlflow, warn=pytest.fail)]

    start(loaded, Options(tmp_path / "run"), observers=observers)
    run = client.get_run(run_id(tmp_path))
    assert run.data.params["sinks.topics.path"] == "${PLACE}/topics"
    assert run.data.params["sinks.predictions.path"] == "of http://ann:***@host"
    artefacts = [Path(run.info.artifact_uri) / name for name in ("config.yaml", "summary.json")]
    assert not any(secret in path.read_text() for path in artefacts for secret in ("very-secret-folder", "s3cret"))


def test_the_store_is_that_of_the_config_or_the_environment_or_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    environment = {"MLFLOW_TRACKING_URI": "http://localhost:5000"}
    assert tracking_uri(Mlflow(experiment="e", tracking_uri="sqlite:///a.db"), environment) == "sqlite:///a.db"
    assert tracking_uri(Mlflow(experiment="e"), environment) == "http://localhost:5000"
    assert tracking_uri(Mlflow(experiment="e"), {}) == f"sqlite:///{tmp_path / 'mlflow.db'}"


def test_mlflow_is_imported_only_if_the_config_has_mlflow(tmp_path: Path, configured: Configured) -> None:
    (tmp_path / "small.yaml").write_text(json.dumps(configured().resolved()))
    program = (
        "import sys\n"
        "from millstream.cli import millstream\n"
        "millstream.main(['run', 'small.yaml', '--records', '300', '--json'], standalone_mode=False)\n"
        "print(any(name == 'mlflow' or name.startswith('mlflow.') for name in sys.modules))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "False"
