"""A run with a model, and a store of MLflow for all tests of a file."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from millstream.api.run import Run
from millstream.config.load import read_config
from millstream.runs.start import Options, start

PIPELINE: dict[str, Any] = {
    "steps": [
        {"type": "map", "function": "shouting:louder"},
        {"type": "hashed_text", "dimensions": 1024},
        {"type": "classify", "model": {"type": "naive_bayes", "batch_size": 32}},
    ]
}


@pytest.fixture(scope="session")
def user_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a user's module."""
    folder = tmp_path_factory.mktemp("user")
    code = """
        def louder(record):
            return {**record, "text": record["text"] + "!"}
    """
    (folder / "shouting.py").write_text(textwrap.dedent(code))
    return folder


@pytest.fixture
def config(
    user_code: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The config of a run of 1,500 documents, whose store of MLflow is that of the file."""
    monkeypatch.syspath_prepend(str(user_code))
    return {
        "name": "small",
        "source": {"type": "generator", "records": 1500},
        "pipeline": PIPELINE,
        "engine": {"type": "local", "epoch": {"max_records": 300}},
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One store for all tests of a file, because creating its tables takes seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}"


@pytest.fixture
def run(config: dict[str, Any], store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """An ended run."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.chdir(tmp_path)
    start(read_config(config, tmp_path, "small.yaml"), Options(tmp_path / "run"))
    return Run(tmp_path / "run")
