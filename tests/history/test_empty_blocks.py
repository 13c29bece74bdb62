"""A model reads one of two sources: blocks of the history in which only the other one has records teach it nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.histories import HereSession, state_in

from millstream.config.load import Loaded, read_config
from millstream.history.search.search import search
from millstream.history.train import Trained, train
from millstream.runs.start import Options, start

LONG, SHORT = 300, 40
CLASSIFY: dict[str, Any] = {"type": "classify", "model": {"type": "naive_bayes", "features": {}}}


def config(folder: Path) -> Loaded:
    for name, records in (("long", LONG), ("short", SHORT)):
        rows = ({"text": f"word{index % 7} goal", "label": "ab"[index % 2]} for index in range(records))
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    content = {
        "name": "two",
        "sources": {name: {"type": "files", "path": f"{name}.jsonl"} for name in ("long", "short")},
        "pipeline": {"steps": [{**CLASSIFY, "name": f"of_{name}", "from": name} for name in ("long", "short")]},
        "engine": {"type": "local", "epoch": {"max_records": 50}},
        "search": {"step": "of_short", "over": {"model.alpha": [0.1]}},
    }
    return read_config(content, folder, "two.yaml")


def trained(loaded: Loaded, out: Path, how: str) -> Trained:
    if how == "search":
        return search(loaded, out, block_records=30, sessions=HereSession)
    return train(loaded, out, how=how, step="of_short", block_records=30, sessions=HereSession)


@pytest.mark.parametrize("how", ["sequential", "averaged", "search"])
def test_the_model_is_that_of_the_run(tmp_path: Path, how: str) -> None:
    loaded = config(tmp_path)
    start(loaded, Options(tmp_path / "run"))
    found = trained(loaded, tmp_path / "out", how)
    assert found.result["labelled"] == SHORT
    assert found.version.digest == state_in(tmp_path / "run", "of_short")
    work = tmp_path / "out/work" / ("0" if how == "search" else "")
    plan = json.loads((work / "plan.json").read_text())
    assert any(len(block["spans"]) == 1 for block in plan["blocks"])
