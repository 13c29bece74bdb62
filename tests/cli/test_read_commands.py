"""`millstream read`, `status` and `predict`: commands that read a run directory and change nothing."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from support.command_result import Millstream


@pytest.fixture
def run(demo: Path, millstream: Millstream) -> Path:
    """A run of the demo that has ended."""
    assert millstream("run", "demo.yaml", "--json").code == 0
    return demo / "runs/demo"


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_read_commands_change_nothing(run: Path, millstream: Millstream) -> None:
    torn = run / "checkpoints" / "0000000099.tmp"  # as of a checkpoint that a running run writes
    torn.write_bytes(b"half")
    before = digests(run)
    for command in (["read", run, "topics"], ["status", run], ["predict", run, "anything"]):
        assert millstream(*command).code == 0
    assert digests(run) == before


def test_read_prints_every_row_in_the_order_of_the_sink(run: Path, millstream: Millstream) -> None:
    predictions = lines(millstream("read", run, "predictions").out)
    assert [row["_offset"] for row in predictions] == list(range(5000))
    assert list(predictions[0]) == ["_source", "_partition", "_offset", "time", "label", "predicted", "probability"]
    topics = lines(millstream("read", run, "topics").out)
    assert len({row["_window"] for row in topics}) == 9
    assert millstream("read", run, "rejects").out == ""


@pytest.mark.parametrize(
    ("output", "hint"),
    [("topic", "did you mean `topics`?"), ("x", "its outputs are rejects, predictions, topics, late")],
)
def test_an_unknown_output_is_refused_with_the_nearest_or_all(
    run: Path, millstream: Millstream, output: str, hint: str
) -> None:
    ran = millstream("read", run, output)
    assert (ran.code, ran.out) == (1, "")
    assert f"has no output '{output}'; {hint}" in ran.err


def test_results_can_be_read_without_the_source(folder: Path, millstream: Millstream) -> None:
    assert millstream("run", "news.yaml", "--json").code == 0
    (folder / "news.jsonl").unlink()
    assert len(lines(millstream("read", "runs/news", "predictions").out)) == 1
    status = json.loads(millstream("status", "runs/news", "--json").out)
    assert "news.jsonl" in status["unknown"]["source"] and status["behind"] is None
    assert status["outputs"]["predictions"]["rows"] == 1


def test_status_does_not_change_the_files_of_a_source(folder: Path, millstream: Millstream) -> None:
    (folder / "news").mkdir()
    (folder / "news.jsonl").rename(folder / "news" / "b.jsonl")
    here = ("--set", "source.path=news")
    assert millstream("run", "news.yaml", *here, "--json").code == 0
    (folder / "news" / "a.jsonl").write_text('{"text": "a slow train", "label": "travel", "published_at": 2}\n')
    before = digests(folder / "runs")
    status = json.loads(millstream("status", "runs/news", "--json").out)
    assert [(p["partition"], p["behind"]) for p in status["partitions"]] == [("b.jsonl", 0), ("a.jsonl", 1)]
    assert digests(folder / "runs") == before


def test_status_prints_how_far_a_run_is_behind(folder: Path, millstream: Millstream) -> None:
    assert millstream("run", "news.yaml", "--json").code == 0
    with (folder / "news.jsonl").open("a") as file:
        file.write('{"text": "a slow train", "label": "travel", "published_at": 2}\n' * 3)
    status = json.loads(millstream("status", "runs/news", "--json").out)
    assert status["behind"] == 3
    assert status["partitions"] == [
        {"source": "source", "partition": "news.jsonl", "position": 1, "end": 4, "behind": 3}
    ]
    printed = millstream("status", "runs/news").out
    assert "runs/news: ended cleanly" in printed
    assert "1 cut, 1 processed, 1 in checkpoints, 1 committed" in printed
    assert "behind     3 records" in printed
    assert "source/news.jsonl  at 1 of 4, 3 behind" in printed


def test_status_and_report_name_the_partition_that_holds_the_windows(folder: Path, millstream: Millstream) -> None:
    (folder / "news").mkdir()
    (folder / "news.jsonl").rename(folder / "news" / "b.jsonl")
    (folder / "news" / "a.jsonl").write_text("")
    waits = ("--set", "source.path=news", "--set", "source.idle=null")
    report = millstream("run", "news.yaml", *waits, "--run", "runs/waits").out
    for printed in (report, millstream("status", "runs/waits").out):
        assert re.search(r"  watermark  none yet, because source/a.jsonl has no record, since \d{4}-.*Z\n", printed)
    status = json.loads(millstream("status", "runs/waits", "--json").out)
    assert status["event_time"] == {**status["event_time"], "held_by": "source/a.jsonl", "watermarks": {}, "idle": []}

    (folder / "news" / "a.jsonl").write_text('{"text": "a slow train", "label": "travel", "published_at": 2000}\n')
    held = r"  watermark  1969-12-31T23:50:01Z at popularity, held by source/b.jsonl since \d{4}-.*Z\n"
    assert re.search(held, millstream("run", "news.yaml", *waits, "--run", "runs/waits").out)
    assert re.search(held, millstream("status", "runs/waits").out)

    assert "watermark" not in millstream("run", "news.yaml", *waits[:2], "--run", "runs/goes-on").out
    idle = "1970-01-01T00:23:20Z at popularity, held by no partition; idle: source/a.jsonl, source/b.jsonl"
    assert idle in millstream("status", "runs/goes-on").out


def test_predict_answers_a_text_with_label_and_probability(run: Path, millstream: Millstream) -> None:
    row = next(row for row in lines(millstream("read", run, "predictions").out) if row["_offset"] == 4000)
    [answer] = lines(millstream("predict", run, "anything at all", "--json").out)
    assert list(answer) == ["text", "predicted", "probability"] and answer["text"] == "anything at all"
    label, probability, text = millstream("predict", run, "anything at all").out.strip().split("  ")
    assert (label, text) == (answer["predicted"], "anything at all")
    assert float(probability) == pytest.approx(answer["probability"], abs=0.001)
    assert set(row) >= {"predicted", "probability"}


def test_predict_takes_lines_and_learns_nothing(
    run: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["one thing", "", "  another  ", "one thing"]
    answers = _predict_lines("\n".join(texts), millstream, monkeypatch, run)
    assert [answer["text"] for answer in answers] == ["one thing", "another", "one thing"]
    assert answers[0] == answers[2]


def _predict_lines(
    text: str, millstream: Millstream, monkeypatch: pytest.MonkeyPatch, run: Path
) -> list[dict[str, Any]]:
    read, write = os.pipe()
    with os.fdopen(write, "w") as file:
        file.write(text)
    with os.fdopen(read, "rb") as file:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
        return lines(millstream("predict", run, "--json").out)


SECRETS = {"SECRET_FOLDER": "news.jsonl", "SECRET_PLACE": "secret/predictions", "SECRET_SIZE": "500"}


@pytest.fixture
def without_secrets(folder: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose config refers to environment variables that are no longer set."""
    values = ["source.path=${SECRET_FOLDER}", "sinks.predictions.path=${SECRET_PLACE}"]
    sets = [argument for value in values for argument in ("--set", value)]
    with monkeypatch.context() as environment:
        for name, value in SECRETS.items():
            environment.setenv(name, value)
        assert millstream("run", "news.yaml", *sets, "--json").code == 0
    return folder / "runs/news"


def test_read_commands_need_only_the_secrets_that_locate_what_they_read(
    without_secrets: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = without_secrets
    assert millstream("predict", run, "a goal").code == 0
    assert millstream("read", run, "rejects").code == 0
    refused = millstream("read", run, "predictions")
    assert (refused.code, refused.out) == (2, "")
    assert "sinks.predictions.path: the environment has no SECRET_PLACE" in refused.err
    status = json.loads(millstream("status", run, "--json").out)
    assert {name: output["rows"] for name, output in status["outputs"].items()} == {
        "rejects": 0,
        "predictions": None,
        "topics": 0,
        "late": 0,
    }
    assert "the environment has no SECRET_FOLDER" in status["unknown"]["source"]
    assert "predictions  ? rows" in millstream("status", run).out
    assert "the environment has no SECRET_FOLDER" in millstream("audit", run).err

    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    assert len(lines(millstream("read", run, "predictions").out)) == 1
    assert millstream("audit", run).code == 0


def test_a_missing_secret_that_is_a_number_is_refused(without_secrets: Path, millstream: Millstream) -> None:
    config = without_secrets / "config.yaml"
    assert "max_records: 500" in config.read_text()
    config.write_text(config.read_text().replace("max_records: 500", "max_records: ${SECRET_SIZE}"))
    ran = millstream("status", without_secrets)
    assert ran.code == 2
    assert "engine.epoch.max_records: the environment has no SECRET_SIZE" in ran.err


@pytest.mark.parametrize("command", ["read", "status", "predict", "audit"])
def test_a_run_of_another_version_is_refused_with_the_reason(run: Path, millstream: Millstream, command: str) -> None:
    config = run / "config.yaml"
    config.write_text(config.read_text() + "prefetch: 3\n")
    ran = millstream(command, run, *(["topics"] if command == "read" else []))
    assert (ran.code, ran.out) == (3, "")
    assert "prefetch: unknown key" in ran.err
    assert "the run was made by another version of Millstream" in ran.err


def test_predict_needs_a_checkpoint_a_label_and_a_model(folder: Path, millstream: Millstream) -> None:
    assert millstream("run", "news.yaml", "--json").code == 0
    for checkpoint in (folder / "runs/news/checkpoints").glob("*.json"):
        checkpoint.unlink()
    assert "runs/news has no checkpoint yet" in millstream("predict", "runs/news", "x").err

    (folder / "news.jsonl").write_text('{"text": "no label here"}\n')
    assert millstream("run", "news.yaml", "--run", "unlabelled", "--json").code == 0
    ran = millstream("predict", "unlabelled", "x")
    assert ran.code == 1 and "unlabelled has not learned any label yet" in ran.err

    steps = ["--set", "pipeline={steps: [{type: hashed_text}]}", "--set", "sinks={}"]
    assert millstream("run", "news.yaml", "--run", "features", *steps, "--json").code == 0
    ran = millstream("predict", "features", "x")
    assert ran.code == 1 and "has no step that classifies; its steps are hashed_text" in ran.err


@pytest.mark.parametrize("command", ["read", "status", "predict"])
def test_a_folder_that_is_no_run_directory_is_refused(demo: Path, millstream: Millstream, command: str) -> None:
    ran = millstream(command, "nowhere", *(["topics"] if command == "read" else []))
    assert (ran.code, ran.out) == (1, "")
    assert "nowhere is not a run directory" in ran.err


@pytest.mark.parametrize("command", ["status", "predict", "audit"])
def test_a_run_whose_epoch_log_is_gone_is_refused(run: Path, millstream: Millstream, command: str) -> None:
    (run / "epochs").rename(run.parent / "epochs")
    ran = millstream(command, run, *(["a goal"] if command == "predict" else []))
    assert (ran.code, ran.out) == (3, "")
    assert f"{run}/epochs, the folder with the epoch log of this run, is gone" in ran.err


AUTHORS = "def count(record, state):\n    return {}, (state or 0) + 1\n"
WITH_AUTHORS = """\
name: authors
source: {type: files, path: authors.jsonl, fields: {text: text, label: label, author: author}}
pipeline:
  steps:
    - {type: per_key, name: seen, key: KEY, function: "authors_seen:count"}
    - {type: hashed_text, dimensions: 1024}
    - {type: classify, model: {type: complement_nb}}
engine: {type: local}
"""


def with_authors(folder: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch, key: str) -> Path:
    """A run whose model gets its input from a step with a state by key."""
    (folder / "authors.jsonl").write_text('{"text": "a late goal", "label": "sport", "author": "ann"}\n' * 3)
    (folder / "authors_seen.py").write_text(AUTHORS)
    (folder / "authors.yaml").write_text(WITH_AUTHORS.replace("KEY", key))
    monkeypatch.syspath_prepend(str(folder))
    assert millstream("run", "authors.yaml", "--json").code == 0
    return folder / "runs/authors"


def test_predict_names_the_field_that_a_text_lacks(
    folder: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = with_authors(folder, millstream, monkeypatch, "author")
    ran = millstream("predict", run, "a goal")
    assert (ran.code, ran.out) == (1, "")
    assert "cannot predict from a text alone: its input comes from the step 'seen', which needs" in ran.err


def test_predict_answers_behind_a_step_whose_key_the_text_has(
    folder: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = with_authors(folder, millstream, monkeypatch, "text")
    assert millstream("predict", run, "a goal").out == "sport  1.000  a goal\n"
