"""A run that follows four partitions under load: its cuts are those of the moment, and the history has its model."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from support.conditions import wait_until
from support.documents import sign_documents, write_documents
from support.histories import HereSession, state_in
from support.pipelines import Pipeline

import millstream as ms
from millstream.engines.local.engine import LocalEngine
from millstream.history.train import train
from millstream.log.epochs import EpochReader

_RECORDS, _PARTITIONS, _PARTS = 600, 4, 20
_MODEL = {"type": "softmax", "features": {"type": "hashed_text", "dimensions": 256}}
"""Its state depends on the order of the records."""
_JOIN: list[dict[str, Any]] = [
    {"type": "filter", "name": "short", "function": "support.user_functions:short", "rest": True},
    {"type": "join", "from": ["short", "short.rest"], "by": "author", "within": "8m", "lateness": "5m"},
    {"type": "classify", "model": _MODEL},
]


@pytest.mark.parametrize("keyed", [False, True])
def test_the_model_of_a_followed_run(tmp_path: Path, keyed: bool) -> None:
    write_documents(tmp_path / "all", files=1, records=_RECORDS)
    sign_documents(tmp_path / "all")
    lines = (tmp_path / "all/part0.jsonl").read_text().splitlines(keepends=True)
    files = [tmp_path / f"documents/part{number}.jsonl" for number in range(_PARTITIONS)]
    files[0].parent.mkdir()
    for file in files:
        file.touch()
    source = {"fields": {name: name for name in ("text", "label", "time", "author")}}
    steps = _JOIN if keyed else [{"type": "classify", "model": _MODEL}]
    pipeline = Pipeline(tmp_path, LocalEngine(), source=source, epoch_records=50, placement={}, steps=steps, sinks={})
    run, rest = tmp_path / "runs/followed", iter(lines)
    with ms.start(ms.Config.from_dict(pipeline.config("followed"), folder=tmp_path), run=run, follow=True) as running:
        for part in range(_PARTS):
            for number, file in enumerate(files):  # the partitions grow at different rates
                with file.open("a") as opened:
                    opened.writelines(itertools.islice(rest, 3 + 3 * number))
            wait_until(lambda part=part: _cut(run) >= part * _RECORDS // _PARTS, "cuts")  # type: ignore[misc]
        wait_until(lambda: _cut(run) == _RECORDS, "all records")
        running.stop()
    epochs = list(EpochReader(run / "epochs").epochs())
    assert len(epochs) > _RECORDS // 50  # the cuts are not those of a bounded run
    loaded = pipeline.loaded("followed")
    found = train(loaded, tmp_path / "replayed", replay=run, block_records=20, sessions=HereSession)
    assert found.result["same_as_run"] and found.result["records"] == _RECORDS
    assert found.version.digest == state_in(run, "classify")
    bounded = train(loaded, tmp_path / "bounded", block_records=20, sessions=HereSession)
    assert bounded.version.digest != found.version.digest
    assert {part.upto for part in found.version.trained["source"].values()} == {
        sum(3 + 3 * number for _ in range(_PARTS)) for number in range(_PARTITIONS)
    }


def _cut(run: Path) -> int:
    try:
        totals = EpochReader(run / "epochs").totals()
    except Exception:
        return -1
    return sum(totals.positions.values())
