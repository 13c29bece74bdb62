"""A stream that begins with a model trained on the history goes on where the training ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.histories import HereSession

from millstream.api.run import Run
from millstream.config.load import read_config
from millstream.history.registration import register
from millstream.history.train import train
from millstream.runs.start import Options, start

HISTORY, RECORDS = 700, 1500


def write(log: Path, count: int) -> None:
    labels = ("sport", "film", "politics")
    rows = ({"text": f"{labels[i % 3]} word{i % 17} about {i}", "label": labels[i % 3]} for i in range(count))
    log.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_no_record_is_learned_twice_or_missed_across_the_seam(
    config: dict[str, Any], store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "news.jsonl"
    config["source"] = {"type": "files", "path": str(log)}
    write(log, HISTORY)
    loaded = read_config(config, tmp_path, "small.yaml")
    made = register(train(loaded, tmp_path / "model", sessions=HereSession), loaded, "history")
    assert made.records == HISTORY
    write(log, RECORDS)
    steps = [*config["pipeline"]["steps"][:-1], {"type": "classify", "model": {"from": made.uri}}]
    begun = read_config({**config, "pipeline": {"steps": steps}}, tmp_path, "small.yaml")
    summary = start(begun, Options(tmp_path / "stream"))
    start(loaded, Options(tmp_path / "whole"))
    assert summary.records == RECORDS - HISTORY
    digests = [Run(tmp_path / run).model().classify.fingerprint() for run in ("stream", "whole")]
    assert digests[0] == digests[1]
