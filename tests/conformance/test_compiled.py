"""The compiled models and the baselines survive what every model survives, with the same bits on every engine.

New topics come all the time, so that a model's table grows in the midst of a run, between two saves.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conformance.harness import EPOCH_RECORDS, EPOCHS, Pipeline, results, write_documents

from millstream.engines.job import Engine
from millstream.engines.local.engine import LocalEngine
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point
from millstream.runs.summary import Summary

MODELS: dict[str, dict[str, Any]] = {
    "naive_bayes": {"type": "naive_bayes"},
    "half_life": {"type": "naive_bayes", "half_life": 4},
    "complement": {"type": "naive_bayes", "complement": True, "half_life": 8},
    "block": {"type": "naive_bayes", "block": 10},
    "softmax": {"type": "softmax"},
    "ftrl": {"type": "ftrl", "l1": 0.01},
}
BASELINES: dict[str, dict[str, Any]] = {name: {"type": name} for name in ("no_change", "majority")}
ALL = MODELS | BASELINES
FEATURES = {"type": "hashed_text", "name": "features", "dimensions": 256}
WINDOW = {"type": "tumbling", "size": "10m", "lateness": "1m"}


def more_and_more_topics(folder: Path) -> None:
    """Label the documents with three new topics every two epochs: room for eight classes is too little in epoch 4."""
    for path in sorted(folder.glob("*.jsonl")):
        lines = path.read_text().splitlines()
        for place, line in enumerate(lines):
            if line.endswith("}"):
                document = json.loads(line)
                if "label" in document:
                    document["label"] += str(2 * place // (2 * EPOCH_RECORDS))
                lines[place] = json.dumps(document)
        path.write_text("".join(line + "\n" for line in lines))


def compiled(folder: Path, engine: Engine, engine_name: str = "local", **options: Any) -> Pipeline:
    return Pipeline(folder, engine, engine_name=engine_name, **{"placement": {}, **options})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("compiled")
    write_documents(made / "documents")
    more_and_more_topics(made / "documents")
    return made


@pytest.fixture(scope="module")
def golden(folder: Path) -> dict[str, Summary]:
    """What each model comes to in one process, without a crash."""
    return {name: compiled(folder, LocalEngine(), model=model).run(f"golden-{name}") for name, model in ALL.items()}


def test_each_model_is_another_one_and_learns(golden: dict[str, Summary]) -> None:
    assert len({summary.model for summary in golden.values()}) == len(ALL)
    for name, summary in golden.items():
        assert summary.epochs == EPOCHS
        assert summary.accuracy is not None and summary.baselines is not None
        if name in BASELINES:
            assert summary.accuracy == summary.baselines[name]
        else:
            assert summary.accuracy > max(summary.baselines.values())


@pytest.mark.parametrize("name", ALL)
def test_a_crash_cannot_be_told_from_none(
    folder: Path, golden: dict[str, Summary], engine: Engine, engine_name: str, name: str
) -> None:
    pipeline = compiled(folder, engine, engine_name, model=ALL[name])
    run = f"crashed-{engine_name}-{name}"
    pipeline.crash(run, CrashPoint(Point.SAVE, 5))
    assert results(pipeline.run(run)) == results(golden[name])


def test_words_counted_before_the_model_or_in_it_are_the_same(
    folder: Path, golden: dict[str, Summary], engine: Engine, engine_name: str
) -> None:
    steps = [
        FEATURES,
        {"type": "classify", "model": {"type": "naive_bayes"}},
        {"type": "popularity", "window": WINDOW, "threshold": 0.3},
    ]
    pipeline = compiled(folder, engine, engine_name, steps=steps, placement={"features": "worker"})
    run = f"before-{engine_name}"
    pipeline.crash(run, CrashPoint(Point.DELIVER, 3))
    (model, _, *before), (in_it, _, *golden_results) = map(results, (pipeline.run(run), golden["naive_bayes"]))
    assert (model, before) == (in_it, golden_results)  # not the state, where records that wait have other columns


def test_a_run_goes_on_on_the_other_engine_and_back(
    folder: Path, golden: dict[str, Summary], engine: Engine, engine_name: str
) -> None:
    here = compiled(folder, engine, engine_name, model=MODELS["half_life"])
    alone = compiled(folder, LocalEngine(), model=MODELS["half_life"])
    run = f"switched-{engine_name}"
    here.crash(run, CrashPoint(Point.SAVE, 2))
    alone.crash(run, CrashPoint(Point.DELIVER, 4))
    here.crash(run, CrashPoint(Point.PROCESS, 6))
    assert results(alone.run(run)) == results(golden["half_life"])
