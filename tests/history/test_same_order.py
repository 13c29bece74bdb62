"""Records with times ahead of the clock, and rows that steps make when an epoch ends, come to the model as in a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.documents import sign_documents, write_documents
from support.histories import HereSession, state_in
from support.pipelines import Pipeline

from millstream.engines.local.engine import LocalEngine
from millstream.errors import Contradiction, DifferentReplay
from millstream.history.backfill import backfill
from millstream.history.order import EPOCH, MENDED, PHASE, in_stream_order
from millstream.history.train import train
from millstream.records import OFFSET, PATH, RANK, TIME
from millstream.steps.boundary_order import in_boundary_order

_MODEL = {"type": "softmax", "features": {"type": "hashed_text", "dimensions": 256}}
_CLASSIFY = {"type": "classify", "model": _MODEL}
_SOURCE = {"fields": {name: name for name in ("text", "label", "time", "author")}}
_BOTH: list[dict[str, Any]] = [
    {"type": "filter", "name": "short", "function": "support.user_functions:short", "rest": True},
    {"type": "join", "name": "both", "from": ["short", "short.rest"], "by": "author", "within": "8m", "how": "outer"},
]
_FOLLOW = {"type": "per_key", "function": "support.user_functions:follow", "adds": ["before"], "on_error": "reject"}


def pipeline_in(folder: Path, steps: list[dict[str, Any]], **options: Any) -> Pipeline:
    write_documents(folder / "documents", files=3)
    sign_documents(folder / "documents")
    return Pipeline(folder, LocalEngine(), source=_SOURCE, placement={}, steps=steps, sinks={}, **options)


def assert_same_model(pipeline: Pipeline, out: Path) -> None:
    run = pipeline.folder / "runs/golden"
    found = train(pipeline.loaded("golden"), out, replay=run, block_records=20, sessions=HereSession)
    assert found.result["same_as_run"]
    assert found.version.digest == state_in(run, "classify")


def test_a_time_far_ahead_is_rejected_and_does_not_order_the_records_behind_it(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path, [_CLASSIFY])
    file = tmp_path / "documents/part1.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    lines[30] = json.dumps({"text": "far ahead", "label": "glacier", "time": 9_000_000_000}) + "\n"
    file.write_text("".join(lines))
    summary = pipeline.run("golden")
    assert summary.delivered["rejects"] == 2  # and the broken line
    assert_same_model(pipeline, tmp_path / "out")


@pytest.mark.parametrize("after", [False, True])
def test_rows_at_the_end_of_epochs_come_after_the_records(tmp_path: Path, after: bool) -> None:
    follow = [{**_FOLLOW, "name": "follow", "from": ["both", "both.unmatched"], "key": "author"}] if after else []
    classify = _CLASSIFY if after else {**_CLASSIFY, "from": ["both", "both.unmatched"]}
    pipeline = pipeline_in(tmp_path, [*_BOTH, *follow, classify])
    pipeline.run("golden")
    assert_same_model(pipeline, tmp_path / "out")
    backfill(pipeline.loaded("golden"), tmp_path / "features", sessions=HereSession)
    files = (tmp_path / "features/features").glob("*/*.parquet")
    phases = [phase for file in files for phase in pq.read_table(file)["_phase"].to_pylist()]
    assert set(phases) == {0, 1}
    assert not (tmp_path / "features/legs").exists()


def test_a_join_of_two_sources(tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = [
        {"type": "dedupe", "name": "once", "from": "texts", "by": ["author", "label"], "within": "1h"},
        {"type": "join", "from": ["once", "labels"], "by": "author", "within": "8m"},
        _CLASSIFY,
    ]
    sources = {
        name: {"type": "files", "path": f"documents/part{number}.jsonl", **_SOURCE}
        for number, name in enumerate(["texts", "labels"])
    }
    pipeline = pipeline_in(tmp_path, steps, sources=sources)
    pipeline.run("golden")
    assert_same_model(pipeline, tmp_path / "out")


def test_a_run_that_gave_other_features_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shout = {"type": "map", "function": "support.user_functions:shout", "adds": ["first"], "on_error": "reject"}
    pipeline = pipeline_in(tmp_path, [shout, _CLASSIFY])
    pipeline.run("golden")
    monkeypatch.setattr("support.user_functions.shout", lambda record: {"first": "other"})
    with pytest.raises(DifferentReplay, match=r"'map' gave .* in the run and .* here, for the same cuts"):
        assert_same_model(pipeline, tmp_path / "out")


def test_a_run_whose_first_epochs_are_gone_is_refused(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path, [_CLASSIFY], keep="1us")
    for _ in range(3):
        pipeline.run("golden", records=50)
    with pytest.raises(Contradiction, match=r"begins after epoch \d+, its base: the cuts before it are gone"):
        assert_same_model(pipeline, tmp_path / "out")


def test_rows_of_one_boundary_are_in_the_order_of_every_engine() -> None:
    rows = [(5, 1, 3, b"0"), (5, 0, 9, b"0"), (5, 0, 8, b"1"), (4, 1, 7, b"0"), (5, 0, 8, b"0")]
    columns = dict(zip((TIME, RANK, OFFSET, PATH), zip(*rows, strict=True), strict=True))
    table = pa.table(columns)
    of_tasks = table.append_column(EPOCH, pa.array([1] * 5)).append_column(MENDED, table[TIME])
    ordered = in_stream_order(of_tasks.append_column(PHASE, pa.array([1] * 5, pa.int8())))
    assert ordered.select(table.column_names).equals(in_boundary_order(table))
