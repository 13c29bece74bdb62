"""Blocks that tasks learn apart from each other add up to the model of the run, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.documents import sign_documents, write_documents
from support.histories import HereSession, state_in
from support.pipelines import Pipeline

from millstream.engines.local.engine import LocalEngine
from millstream.errors import ConfigError
from millstream.history.how import averages
from millstream.history.train import train

_FEATURES = {"type": "hashed_text", "dimensions": 256}
_SOURCE = {"fields": {name: name for name in ("text", "label", "time", "author")}}


def pipeline_in(folder: Path, model: dict[str, Any]) -> Pipeline:
    write_documents(folder / "documents", files=3)
    sign_documents(folder / "documents")
    steps = [{"type": "classify", "model": {"features": _FEATURES, **model}}]
    return Pipeline(folder, LocalEngine(), source=_SOURCE, placement={}, steps=steps, sinks={})


@pytest.mark.parametrize("complement", [False, True])
def test_the_sum_of_the_blocks_is_the_model_of_the_run(tmp_path: Path, complement: bool) -> None:
    pipeline = pipeline_in(tmp_path, {"type": "naive_bayes", "complement": complement})
    pipeline.run("golden")
    run = tmp_path / "runs/golden"
    loaded = pipeline.loaded("golden")
    found = train(loaded, tmp_path / "out", how="averaged", replay=run, block_records=20, sessions=HereSession)
    assert found.version.digest == state_in(run, "classify")
    alone = train(loaded, tmp_path / "alone", replay=run, block_records=20, sessions=HereSession)
    assert found.version.trained == alone.version.trained
    assert found.result["labelled"] == alone.result["labelled"] > 100
    left = sorted(file.name for file in (tmp_path / "out/work").iterdir())
    assert left == sorted(file.name for file in (tmp_path / "alone/work").iterdir())


@pytest.mark.parametrize(
    "model", [{"type": "naive_bayes", "half_life": 1000}, {"type": "naive_bayes", "batch_size": 8}, {"type": "softmax"}]
)
def test_a_model_that_does_not_add_up_is_refused_before_any_work(tmp_path: Path, model: dict[str, Any]) -> None:
    pipeline = pipeline_in(tmp_path, model)
    with pytest.raises(ConfigError, match="does not add up over the records"):
        train(pipeline.loaded("golden"), tmp_path / "out", how="averaged", sessions=HereSession)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stops", ["_find_labels", "_learn_blocks", "_add_all"])
def test_a_training_that_was_interrupted_continues(tmp_path: Path, stops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = pipeline_in(tmp_path, {"type": "naive_bayes"})
    pipeline.run("golden")
    run, loaded = tmp_path / "runs/golden", pipeline.loaded("golden")
    options: dict[str, Any] = {"how": "averaged", "replay": run, "block_records": 20, "sessions": HereSession}
    original = getattr(averages, stops)
    called = 0

    def fail(setup: str, *others: Any) -> None:
        nonlocal called
        called += 1
        if called > 2 or stops == "_add_all":
            raise KeyboardInterrupt
        original(setup, *others)

    with monkeypatch.context() as patched:
        patched.setattr(averages, stops, fail)
        with pytest.raises(KeyboardInterrupt):
            train(loaded, tmp_path / "out", **options)
    found = train(loaded, tmp_path / "out", **options)
    assert found.version.digest == state_in(run, "classify")
