"""A search in MLflow: a run with a run for each candidate below it, and a stream that goes on with the best model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from support.histories import HereSession

from millstream.api.run import Run
from millstream.config.load import Loaded, read_config
from millstream.history.registration import register
from millstream.history.search.mlflow_record import record_search
from millstream.history.search.search import Searched, search
from millstream.log.journal.durability import write_whole
from millstream.runs.start import Options, start

HISTORY, RECORDS = 700, 1500


@pytest.fixture
def loaded(config: dict[str, Any], store: str, tmp_path: Path, request: pytest.FixtureRequest) -> Loaded:
    """A config with a search, whose MLflow experiment has the name of the test."""
    write(tmp_path / "news.jsonl", HISTORY)
    config["source"] = {"type": "files", "path": str(tmp_path / "news.jsonl")}
    over = [{"model.batch_size": [1, 32]}, {"model.type": ["softmax"], "model.learning_rate": [0.01, 1.0]}]
    config["search"] = {"over": over}
    config["mlflow"] = {"experiment": request.node.name, "tracking_uri": store}
    return read_config(config, tmp_path, "small.yaml")


def write(log: Path, count: int) -> None:
    labels = ("sport", "film", "politics")
    rows = ({"text": f"{labels[i % 3]} word{i % 17} about {i}", "label": labels[i % 3]} for i in range(count))
    log.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def searched(loaded: Loaded, out: Path) -> Searched:
    return search(loaded, out, sessions=HereSession, least_records=50)


def recorded(store: str, experiment: str) -> list[Any]:
    client: Any = MlflowClient(tracking_uri=store)
    return list(client.search_runs([client.get_experiment_by_name(experiment).experiment_id]))


def test_a_search_is_recorded_once_with_its_candidates(loaded: Loaded, store: str, tmp_path: Path) -> None:
    found = searched(loaded, tmp_path / "out")
    best = [record_search(found, loaded, pytest.fail) for _ in range(2)]
    runs = recorded(store, "test_a_search_is_recorded_once_with_its_candidates")
    [parent] = [run for run in runs if "millstream.search" in run.data.tags]
    children = [run for run in runs if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert len(runs) == 5 and len(children) == 4
    assert {run.info.status for run in runs} == {"FINISHED"}
    client = MlflowClient(tracking_uri=store)
    files = {file.path for file in client.list_artifacts(parent.info.run_id)}
    assert files == {"search.png", "candidates.json", "config.yaml"}
    table = json.loads(Path(client.download_artifacts(parent.info.run_id, "candidates.json")).read_text())
    assert len(table["data"]) == 4
    rows = {row["candidate"]: row for row in found.result["candidates"]}
    for child in children:
        row = rows[int(child.info.run_name.partition(":")[0])]
        values = {key: value if key == "model.type" else json.dumps(value) for key, value in row["values"].items()}
        assert child.data.params == {"model.type": "naive_bayes", **values}
        assert child.data.metrics["accuracy"] == row["accuracy"]
        assert child.data.metrics["held_out_accuracy"] == row["held_out"]
        assert child.data.metrics["rung"] == row["rung"]
        steps = [metric.step for metric in client.get_metric_history(child.info.run_id, "accuracy")]
        assert len(steps) == row["rung"] and steps[-1] == row["records"]
    [winner] = [run for run in children if run.info.run_id == best[0]]
    assert best[0] == best[1] and winner.info.run_name.startswith(f"{found.result['best']}:")
    assert parent.data.metrics["accuracy"] == winner.data.metrics["accuracy"]


def test_the_record_of_a_search_that_was_interrupted_is_written_anew(
    loaded: Loaded, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = searched(loaded, tmp_path / "out")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("millstream.history.search.mlflow_record._Record._write_candidate", interrupt)
        with pytest.raises(KeyboardInterrupt):
            record_search(found, loaded, pytest.fail)
    assert not (tmp_path / "out/mlflow.json").exists()
    record_search(found, loaded, pytest.fail)
    name = "test_the_record_of_a_search_that_was_interrupted_is_written_anew"
    assert len(recorded(store, name)) == 5
    file = tmp_path / "out/mlflow.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "store": "another one"}))
    record_search(found, loaded, pytest.fail)
    assert len(recorded(store, name)) == 10  # the complete record stays


def test_a_store_that_fails_does_not_fail_the_search(loaded: Loaded, tmp_path: Path) -> None:
    write_whole(tmp_path / "absent", "a file, where a folder would have to be")
    broken = loaded.changed([("mlflow.tracking_uri", f"sqlite:///{tmp_path / 'absent/mlflow.db'}")])
    found, warned = searched(broken, tmp_path / "out"), list[str]()
    assert record_search(found, broken, warned.append) is None
    [warning] = warned
    assert warning.startswith("MLflow: ") and "the search is not recorded: the same command tries again" in warning


def test_a_stream_that_begins_with_the_best_model_goes_on_where_the_history_ended(
    config: dict[str, Any], loaded: Loaded, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    found = searched(loaded, tmp_path / "out")
    belongs_to = record_search(found, loaded, pytest.fail)
    made = register(found, found.best.loaded, "searched", belongs_to)
    version = MlflowClient(tracking_uri=store).get_model_version("searched", str(made.version))
    assert (made.records, version.run_id) == (HISTORY, belongs_to)
    write(tmp_path / "news.jsonl", RECORDS)
    config["mlflow"] = False
    steps = [*config["pipeline"]["steps"][:-1], {"type": "classify", "model": {"from": made.uri}}]
    begun = read_config({**config, "search": None, "pipeline": {"steps": steps}}, tmp_path, "small.yaml")
    summary = start(begun, Options(tmp_path / "stream"))
    whole = found.best.loaded.changed([("mlflow", False)])
    start(whole, Options(tmp_path / "whole"))
    assert summary.records == RECORDS - HISTORY
    digests = [Run(tmp_path / run).model().classify.fingerprint() for run in ("stream", "whole")]
    assert digests[0] == digests[1]
