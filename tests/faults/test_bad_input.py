"""Bad input, from end to end: it is counted and reported, and never ends a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.documents import EPOCH_RECORDS
from support.pipelines import Pipeline

from millstream.engines.local.engine import LocalEngine
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import load_run, outputs_of
from millstream.runs.summary import Summary

GOOD = {"text": "harbour1 harbour2 word3", "label": "harbour", "time": 1_700_000_000}


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "documents").mkdir()
    return Pipeline(tmp_path, LocalEngine())


def run_on(pipeline: Pipeline, *lines: bytes | dict[str, Any]) -> Summary:
    written = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    (pipeline.folder / "documents/part.jsonl").write_bytes(b"".join(line + b"\n" for line in written))
    return pipeline.run("run")


def rows(pipeline: Pipeline, output: str) -> Iterator[dict[str, Any]]:
    directory = RunDirectory(pipeline.folder / "runs/run")
    for table in outputs_of(directory, load_run(directory))[output].read():
        yield from table.to_pylist()


def test_an_empty_file_gives_a_run_without_records(pipeline: Pipeline) -> None:
    summary = run_on(pipeline)
    assert (summary.records, summary.epochs, summary.accuracy) == (0, 1, None)  # where reading begins is written down


def test_an_empty_file_that_ends_is_an_epoch_without_a_record(pipeline: Pipeline) -> None:
    pipeline.source = {"ends": True}
    summary = run_on(pipeline)
    assert (summary.records, summary.epochs) == (0, 1)


def test_documents_without_labels_are_predicted_as_soon_as_there_was_one(pipeline: Pipeline) -> None:
    plain = {"text": GOOD["text"], "time": GOOD["time"]}
    summary = run_on(pipeline, GOOD, *[plain] * 30)
    assert summary.accuracy == 0  # of the one label: nothing was known before it
    predicted = [row["predicted"] for row in rows(pipeline, "predictions")]
    assert predicted == [None] + ["harbour"] * 30


def test_documents_without_any_label_have_no_accuracy(pipeline: Pipeline) -> None:
    summary = run_on(pipeline, *[{"text": "one"}] * 40)
    assert (summary.records, summary.accuracy, summary.delivered["predictions"]) == (40, None, 40)


@pytest.mark.parametrize(
    "line",
    [
        b'{"text": "broken',
        b'{"label": "harbour"}',
        b'{"text": null}',
        b'{"text": "\xff\xfe"}',
        b"[1, 2]",
        b"",
        b'{"text": "x", "time": "yesterday"}',
        b'{"text": "\\ud800"}',
    ],
)
def test_a_line_that_cannot_be_read_is_a_reject_with_its_position(pipeline: Pipeline, line: bytes) -> None:
    summary = run_on(pipeline, *[GOOD] * 30, line, *[GOOD] * 30)
    assert summary.records == 61
    assert summary.delivered["predictions"] == 60
    [reject] = rows(pipeline, "rejects")
    assert (reject["_partition"], reject["_offset"], reject["step"]) == (0, 30, "source")
    assert reject["reason"]


def test_a_line_of_five_megabytes_is_a_record_like_another(pipeline: Pipeline) -> None:
    summary = run_on(pipeline, GOOD, GOOD, {**GOOD, "text": "harbour1 " * 600_000}, GOOD)
    assert (summary.records, summary.delivered["predictions"], summary.delivered["rejects"]) == (4, 4, 0)
    assert [row["predicted"] for row in rows(pipeline, "predictions")][1:] == ["harbour"] * 3


def test_documents_without_a_time_are_predicted_and_are_in_no_window(pipeline: Pipeline) -> None:
    summary = run_on(pipeline, *[{"text": "one", "label": "x"}] * EPOCH_RECORDS)
    assert summary.delivered["predictions"] == EPOCH_RECORDS
    assert summary.delivered["rejects"] == EPOCH_RECORDS
    assert {row["reason"] for row in rows(pipeline, "rejects")} == {"no time"}
