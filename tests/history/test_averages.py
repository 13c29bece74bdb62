"""Parts that tasks learn apart from each other add up to the model of the run, or are averaged in rounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.documents import document_lines, sign_documents, write_documents
from support.histories import HereSession, state_in
from support.pipelines import Pipeline

from millstream.engines.local.engine import LocalEngine
from millstream.errors import ConfigError
from millstream.history.how import labels, rounds, sums
from millstream.history.train import Trained, train
from millstream.state.digests import state_digest
from millstream.steps.classify import Classify
from millstream_models.hashed_text import HashedText
from millstream_models.online.ftrl import FTRL
from millstream_models.online.softmax import Softmax

_FEATURES = {"type": "hashed_text", "dimensions": 256}
_SOURCE = {"fields": {name: name for name in ("text", "label", "time", "author")}}
_AVERAGED: list[dict[str, Any]] = [
    {"type": "softmax", "features": _FEATURES},
    {"type": "softmax", "features": _FEATURES, "rate": "decaying", "batch_size": 8},
    {"type": "ftrl", "features": _FEATURES, "l1": 0.01},
]


def pipeline_in(folder: Path, model: dict[str, Any]) -> Pipeline:
    write_documents(folder / "documents", files=3)
    sign_documents(folder / "documents")
    steps = [{"type": "classify", "model": model}]
    return Pipeline(folder, LocalEngine(), source=_SOURCE, placement={}, steps=steps, sinks={})


def averaged(pipeline: Pipeline, out: str, **options: Any) -> Trained:
    loaded = pipeline.loaded("golden")
    return train(loaded, pipeline.folder / out, how="averaged", **{"sessions": HereSession, **options})


def _names(found: list[str | None]) -> list[str]:
    """The labels in the order of their first appearance."""
    return [*dict.fromkeys(label for label in found if label is not None)]


@pytest.mark.parametrize("complement", [False, True])
def test_the_sum_of_the_blocks_is_the_model_of_the_run(tmp_path: Path, complement: bool) -> None:
    pipeline = pipeline_in(tmp_path, {"type": "naive_bayes", "complement": complement, "features": _FEATURES})
    pipeline.run("golden")
    run = tmp_path / "runs/golden"
    found = averaged(pipeline, "out", replay=run, block_records=20)
    assert found.version.digest == state_in(run, "classify")
    alone = train(pipeline.loaded("golden"), tmp_path / "alone", replay=run, block_records=20, sessions=HereSession)
    assert found.version.trained == alone.version.trained
    assert found.result["labelled"] == alone.result["labelled"] > 100
    left = sorted(file.name for file in (tmp_path / "out/work").iterdir())
    assert left == sorted(file.name for file in (tmp_path / "alone/work").iterdir())


@pytest.mark.parametrize("model", _AVERAGED, ids=str)
def test_an_average_does_not_depend_on_the_blocks(tmp_path: Path, model: dict[str, Any]) -> None:
    pipeline = pipeline_in(tmp_path, model)
    found = averaged(pipeline, "out", block_records=20, round_records=80)
    other = averaged(pipeline, "other", round_records=80)
    assert found.version.digest == other.version.digest
    assert found.version.trained == other.version.trained
    scores = {name: found.result[name] for name in ("learned", "labelled", "correct", "parts", "rounds")}
    assert scores == {name: other.result[name] for name in scores}
    assert (scores["learned"], scores["parts"], scores["rounds"]) == (191, 4, 3)
    assert scores["correct"] > scores["labelled"] / 2
    assert np.sum(found.version.state["baselines/counts"]) == scores["labelled"]  # of all rounds


@pytest.mark.parametrize("config", [Softmax(), Softmax(rate="decaying"), FTRL(l1=0.01)], ids=repr)
def test_averages_of_one_part_after_the_other_are_the_model_of_the_stream(config: Any) -> None:
    config = config.model_copy(update={"features": HashedText(dimensions=256)})
    texts = [json.loads(line) for line in document_lines(400) if line.endswith("}")]
    columns = {"text": [each["text"] for each in texts], "label": [each.get("label") for each in texts]}
    position = {"_rank": [0] * len(texts), "_offset": range(len(texts)), "_time": [0] * len(texts)}
    records = pa.table({**position, **columns})
    stream, replica, average = (Classify(model=config).build(records.schema) for _ in range(3))
    stream.process(records)
    for start in range(0, len(texts), 7):
        begin = average.save()
        replica.restore(begin)
        replica.begin_part(_names(columns["label"][:start]))
        found = replica.process(records.slice(start, 7))
        replica.end_part()
        parts = [(replica.save(), found.labelled), (begin, 0)]
        average.average(parts, _names(columns["label"][: start + 7]))
    assert state_digest(average.save()) == state_digest(stream.save())


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ({"type": "naive_bayes", "half_life": 1000, "features": _FEATURES}, "naive_bayes"),
        ({"type": "naive_bayes", "batch_size": 8, "features": _FEATURES}, "naive_bayes"),
        ({"type": "majority"}, "majority"),
        ({"type": "river", "class": "linear_model.SoftmaxRegression"}, "river"),
    ],
)
def test_a_model_that_cannot_learn_in_parts_is_refused_before_any_work(
    tmp_path: Path, model: dict[str, Any], kind: str
) -> None:
    pipeline = pipeline_in(tmp_path, model)
    with pytest.raises(ConfigError, match=f"'classify', {kind}: its state neither adds up"):
        averaged(pipeline, "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("model", "module", "stops"),
    [
        ("naive_bayes", labels, "_find_labels"),
        ("naive_bayes", sums, "_learn_blocks"),
        ("naive_bayes", sums, "_add_all"),
        ("softmax", rounds, "_learn_parts"),
        ("softmax", rounds, "_average"),
    ],
)
def test_a_training_that_was_interrupted_continues(
    tmp_path: Path, model: str, module: Any, stops: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_in(tmp_path, {"type": model, "features": _FEATURES})
    options: dict[str, Any] = {"block_records": 20, "round_records": 80}
    golden = averaged(pipeline, "golden", **options)
    original = getattr(module, stops)
    called = 0

    def fail(setup: str, *others: Any) -> None:
        nonlocal called
        called += 1
        if called > 2 or stops == "_add_all":
            raise KeyboardInterrupt
        original(setup, *others)

    with monkeypatch.context() as patched:
        patched.setattr(module, stops, fail)
        with pytest.raises(KeyboardInterrupt):
            averaged(pipeline, "out", **options)
    found = averaged(pipeline, "out", **options)
    assert found.version.digest == golden.version.digest
    assert found.result["labelled"] == golden.result["labelled"]
