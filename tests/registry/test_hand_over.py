"""A run that begins with a registered model goes on exactly where the model's training stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from registry.engines import ENGINES

from millstream.api.run import Run
from millstream.config.load import Loaded, read_config
from millstream.errors import AlteredLog, ConfigError, Contradiction
from millstream.history.train import train
from millstream.log.epochs import EpochLog, EpochReader, NewModel
from millstream.runs.comparison import compare_runs
from millstream.runs.directory import RunDirectory
from millstream.runs.start import Options, start
from millstream.state.version_store import VersionStore
from millstream.study.conditions import conditions_of

RECORDS, HALF = 1500, 700


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A file of records, each with a text of its own."""
    file = tmp_path / "news.jsonl"
    labels = ("sport", "film", "politics")
    rows = ({"text": f"{labels[i % 3]} word{i % 17} about {i}", "label": labels[i % 3]} for i in range(RECORDS))
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


@pytest.fixture
def loaded(config: dict[str, Any], log: Path, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that returns the config with another model, and with other parts."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.chdir(tmp_path)
    config["source"] = {"type": "files", "path": str(log)}

    def make(model: dict[str, Any] | None = None, **changes: Any) -> Loaded:
        steps = [dict(step) for step in config["pipeline"]["steps"]]
        steps[-1]["model"] = model or steps[-1]["model"]
        return read_config({**config, "pipeline": {"steps": steps}, **changes}, tmp_path, "small.yaml")

    return make


@pytest.fixture
def champion(loaded: Any, store: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The address of a model that has learned the first records."""
    start(loaded(), Options(tmp_path / "first", records=HALF))
    name = request.node.name.partition("[")[0]
    Run(tmp_path / "first").export(name)
    MlflowClient(tracking_uri=store).set_registered_model_alias(name, "champion", "1")
    return f"models:/{name}@champion"


def digest(run: Path) -> str:
    return str(Run(run).model().classify.fingerprint())


def events(run: Path) -> list[NewModel]:
    found = (event for epoch in EpochReader(run / "epochs").epochs(0) for event in epoch.events)
    return [event for event in found if isinstance(event, NewModel)]


@pytest.mark.parametrize("engine", ENGINES)
def test_no_record_is_learned_twice_or_missed(
    engine: dict[str, Any], loaded: Any, champion: str, tmp_path: Path
) -> None:
    start(loaded(), Options(tmp_path / "whole"))
    begun = loaded({"from": champion}, engine={**engine, "epoch": {"max_records": 300}})
    summary = start(begun, Options(tmp_path / "second"))
    assert summary.records == RECORDS - HALF
    assert digest(tmp_path / "second") == digest(tmp_path / "whole") != digest(tmp_path / "first")
    [event] = events(tmp_path / "second")
    assert event.version.endswith("/1") and event.trained == {"source": {"news.jsonl": HALF}}
    rows = Run(tmp_path / "second").output("predictions")
    assert rows["_offset"].to_pylist() == list(range(HALF, RECORDS))


def test_a_restart_does_not_ask_the_registry(
    loaded: Any, champion: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(loaded({"from": champion}), Options(tmp_path / "second", records=300))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    start(loaded({"from": champion}), Options(tmp_path / "second"))
    start(loaded(), Options(tmp_path / "whole"))
    assert digest(tmp_path / "second") == digest(tmp_path / "whole")


def test_an_audit_and_a_replay_begin_with_the_same_model(loaded: Any, champion: str, tmp_path: Path) -> None:
    begun = loaded({"from": champion})
    start(begun, Options(tmp_path / "second"))
    assert str(Run(tmp_path / "second").audit().state) == "precise"
    start(begun, Options(tmp_path / "again", replay=tmp_path / "second"))
    assert digest(tmp_path / "again") == digest(tmp_path / "second")
    assert events(tmp_path / "again") == events(tmp_path / "second")


def test_its_accuracy_is_compared_over_the_records_that_both_runs_have_read(
    loaded: Any, champion: str, tmp_path: Path
) -> None:
    engine = {"type": "local", "epoch": {"max_records": 100}}  # both have cuts at the same records
    begun, whole = loaded({"from": champion}, engine=engine), loaded(engine=engine)
    start(begun, Options(tmp_path / "second"))
    start(whole, Options(tmp_path / "whole"))
    runs = [(RunDirectory.find(tmp_path / name), config) for name, config in (("second", begun), ("whole", whole))]
    windows = [each for each in compare_runs(runs[0], runs[1]).windows if each.start >= HALF]
    assert windows and windows[-1].stop == RECORDS
    assert all(ours is not None and ours == theirs for ours, theirs in (each.accuracies for each in windows))


def test_another_log_is_refused(loaded: Any, champion: str, log: Path, tmp_path: Path) -> None:
    log.write_text(log.read_text().replace("about 5", "about five"))
    with pytest.raises(AlteredLog, match=r"was trained on another log: source/news.jsonl up to offset 700"):
        start(loaded({"from": champion}), Options(tmp_path / "second"))


def test_other_features_are_refused(loaded: Any, config: dict[str, Any], champion: str, tmp_path: Path) -> None:
    config["pipeline"] = {"steps": [dict(step) for step in config["pipeline"]["steps"]]}
    config["pipeline"]["steps"][1]["dimensions"] = 2048
    with pytest.raises(Contradiction, match="its features mean something else here"):
        start(loaded({"from": champion}), Options(tmp_path / "second"))


def test_a_source_of_another_name_is_refused(loaded: Any, champion: str, log: Path, tmp_path: Path) -> None:
    begun = loaded({"from": champion}, source=None, sources={"other": {"type": "files", "path": str(log)}})
    with pytest.raises(Contradiction, match="give the source the same name"):
        start(begun, Options(tmp_path / "second"))


def test_an_interrupted_hand_over_begins_again(
    loaded: Any, champion: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = loaded({"from": champion})
    for interrupted in ("put", "cut", "sync"):
        with monkeypatch.context() as patched:
            patched.setattr(VersionStore if interrupted == "put" else EpochLog, interrupted, _fail)
            with pytest.raises(KeyboardInterrupt):
                start(begun, Options(tmp_path / "second"))
    start(begun, Options(tmp_path / "second"))
    start(loaded(), Options(tmp_path / "whole"))
    assert digest(tmp_path / "second") == digest(tmp_path / "whole")
    assert len(events(tmp_path / "second")) == 1


def _fail(*_: object) -> None:
    raise KeyboardInterrupt


def test_advice_asks_the_registry_and_a_training_refuses_a_model_that_has_learned(
    loaded: Any, champion: str, tmp_path: Path
) -> None:
    begun = loaded({"from": champion})
    assert conditions_of(begun).learner == conditions_of(loaded()).learner
    with pytest.raises(ConfigError, match="begins without a model, so `from` has no meaning"):
        train(begun, tmp_path / "model")
