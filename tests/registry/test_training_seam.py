"""A stream that begins with a model trained on the history goes on where the training ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.histories import HereSession

from millstream.api.run import Run
from millstream.config.load import read_config
from millstream.history.registration import register
from millstream.history.train import train
from millstream.runs.start import Options, start
from millstream.steps.classify import Classify
from millstream_models.hashed_text import HashedText
from millstream_models.online.softmax import Softmax

HISTORY, RECORDS = 700, 1500


def row(number: int) -> dict[str, str]:
    label = ("sport", "film", "politics")[number % 3]
    return {"text": f"{label} word{number % 17} about {number}", "label": label}


def write(log: Path, count: int) -> None:
    log.write_text("".join(f"{json.dumps(row(number))}\n" for number in range(count)))


def with_model(config: dict[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    return {"steps": [*config["pipeline"]["steps"][:-1], {"type": "classify", "model": model}]}


@pytest.mark.parametrize(
    ("how", "model"),
    [("sequential", {"type": "naive_bayes", "batch_size": 32}), ("averaged", {"type": "naive_bayes"})],
)
def test_no_record_is_learned_twice_or_missed_across_the_seam(
    config: dict[str, Any],
    store: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    model: dict[str, Any],
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.chdir(tmp_path)
    config["pipeline"] = with_model(config, model)
    log = tmp_path / "news.jsonl"
    config["source"] = {"type": "files", "path": str(log)}
    write(log, HISTORY)
    loaded = read_config(config, tmp_path, "small.yaml")
    made = register(train(loaded, tmp_path / "model", how=how, sessions=HereSession), loaded, f"history-{how}")
    assert made.records == HISTORY
    write(log, RECORDS)
    begun = read_config({**config, "pipeline": with_model(config, {"from": made.uri})}, tmp_path, "small.yaml")
    summary = start(begun, Options(tmp_path / "stream"))
    start(loaded, Options(tmp_path / "whole"))
    assert summary.records == RECORDS - HISTORY
    digests = [Run(tmp_path / run).model().classify.fingerprint() for run in ("stream", "whole")]
    assert digests[0] == digests[1]


def test_a_stream_goes_on_from_the_average_of_rounds(
    config: dict[str, Any], store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "news.jsonl"
    config |= {"source": {"type": "files", "path": str(log)}, "pipeline": with_model(config, {"type": "softmax"})}
    write(log, HISTORY)
    loaded = read_config(config, tmp_path, "small.yaml")
    trained = train(loaded, tmp_path / "model", how="averaged", round_records=200, sessions=HereSession)
    made = register(trained, loaded, "averaged")
    assert (made.records, trained.result["rounds"]) == (HISTORY, 4)
    write(log, RECORDS)
    begun = read_config({**config, "pipeline": with_model(config, {"from": made.uri})}, tmp_path, "small.yaml")
    summary = start(begun, Options(tmp_path / "stream"))
    assert summary.records == RECORDS - HISTORY
    rest = [{"_rank": 0, "_offset": i, "_time": 0, **row(i)} for i in range(HISTORY, RECORDS)]
    records = pa.Table.from_pylist(rest)
    records = HashedText(dimensions=1024).build(records.schema).process(records).records
    step = Classify(model=Softmax()).build(records.schema)
    step.restore(trained.version.state)
    step.process(records)
    assert Run(tmp_path / "stream").model().classify.fingerprint() == step.fingerprint()
