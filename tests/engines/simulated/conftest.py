"""Pipelines to simulate: the demo's, and one with keyed steps, rejects and partitions that end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from support.documents import write_documents
from support.simulated_pipeline import PipelineFactory, SimulatedPipeline

from millstream.config.load import Loaded, load_config, read_config
from millstream.engines.simulated.world.logs import recorded
from millstream.log.contracts import OpenContext

DEMO = Path(__file__).parents[3] / "configs/demo.yaml"
FUNCTIONS = """
def first_word(record):
    return {"word": record["text"].split()[0]}

def seen(record, state):
    seen = state or 0
    if seen % 7 == 6:
        raise ValueError(f"seventh {record['word']}")
    return {"seen": str(seen)}, seen + 1
"""
MODEL = {"type": "complement_nb", "batch_size": 16}
STEPS: list[dict[str, Any]] = [
    {"type": "map", "name": "word", "function": "simulated_functions:first_word", "adds": ["word"]},
    {"type": "per_key", "key": "word", "function": "simulated_functions:seen", "adds": ["seen"], "on_error": "reject"},
    {"type": "hashed_text", "dimensions": 256},
    {"type": "popularity", "window": {"type": "tumbling", "size": "10m", "lateness": "1m"}, "threshold": 0.3},
]


def _guarantee(delivery: str, checkpoint_every: int, commit_every: int) -> dict[str, Any]:
    return {"delivery": delivery, "checkpoint_every": checkpoint_every, "commit_every": commit_every}


def _with_records(loaded: Loaded, cache: Path, most: int) -> SimulatedPipeline:
    source = loaded.config.logs[0]
    log = source.config.open(OpenContext(loaded.folder, cache))
    return SimulatedPipeline(loaded.config, recorded({source.name: log}, most))


@pytest.fixture
def demo(tmp_path: Path) -> PipelineFactory:
    def make(delivery: str, checkpoint_every: int = 1, commit_every: int = 1) -> SimulatedPipeline:
        guarantee = _guarantee(delivery, checkpoint_every, commit_every)
        sets = [f"guarantee.{name}={value}" for name, value in guarantee.items()]
        return _with_records(load_config(str(DEMO), sets), tmp_path / "cache", 300)

    return make


@pytest.fixture
def keyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PipelineFactory:
    (tmp_path / "simulated_functions.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("simulated_functions", None)
    write_documents(tmp_path / "documents", records=160)

    def make(delivery: str, checkpoint_every: int = 1, commit_every: int = 1, model: Any = MODEL) -> SimulatedPipeline:
        config = {
            "name": "keyed",
            "source": {"type": "files", "path": "documents", "ends": True},
            "pipeline": {"steps": [*STEPS[:-1], {"type": "classify", "model": model}, STEPS[-1]]},
            "guarantee": _guarantee(delivery, checkpoint_every, commit_every),
            "engine": {"type": "local"},
        }
        return _with_records(read_config(config, tmp_path, "keyed.yaml"), tmp_path / "cache", 160)

    return make
