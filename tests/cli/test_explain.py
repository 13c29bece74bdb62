"""`millstream explain`: the processes that run the steps, and the worst effects of a crash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.command_result import Millstream


def description(millstream: Millstream, *sets: str) -> dict[str, Any]:
    ran = millstream("explain", "news.yaml", "--json", *(part for text in sets for part in ("--set", text)))
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def test_steps_are_written_out_with_their_options_and_where_they_run(millstream: Millstream, folder: Path) -> None:
    steps = description(millstream, "engine.type=spark", "engine.epoch.max_records=5000")["steps"]
    assert [(step["name"], step["type"], step["runs"]) for step in steps] == [
        ("features", "hashed_text", "worker"),
        ("classify", "classify", "driver"),
        ("popularity", "popularity", "driver"),
    ]
    assert steps[0]["options"]["dimensions"] == 1024
    assert steps[2]["options"]["window"] == {"type": "tumbling", "size": "1h", "lateness": "10m"}
    assert {step["runs"] for step in description(millstream)["steps"]} == {"process"}


def test_outputs_have_their_sinks_and_locations(millstream: Millstream, folder: Path) -> None:
    outputs = {output["name"]: output for output in description(millstream)["outputs"]}
    assert list(outputs) == ["rejects", "predictions", "topics", "late"]
    assert outputs["topics"]["step"] == "popularity"
    assert outputs["topics"]["row_of"] == "window"
    assert all("topics" in output["location"] for output in [outputs["topics"]])


def test_at_least_once_repeats_at_most_the_epochs_between_two_checkpoints(millstream: Millstream, folder: Path) -> None:
    crashes = {crash["after"]: crash for crash in description(millstream)["crashes"]}
    assert list(crashes) == [
        "cut",
        "process",
        "deliver.rejects",
        "deliver.predictions",
        "deliver.topics",
        "deliver",
        "checkpoint",
        "commit",
    ]
    assert crashes["checkpoint"]["trained_twice"] == {"epochs": 4, "records": 2000}
    assert crashes["cut"]["trained_twice"] == {"epochs": 0, "records": 0}
    assert crashes["deliver"]["rows_repeated"]["predictions"] == {"epochs": 4, "records": 2000}
    assert crashes["deliver.rejects"]["rows_repeated"]["predictions"] == {"epochs": 3, "records": 1500}
    assert crashes["deliver"]["rows_repeated"]["topics"] == {"epochs": 4}
    assert crashes["commit"]["lost"]["epochs"] == 0


def test_at_most_once_loses_committed_epochs_without_a_checkpoint(millstream: Millstream, folder: Path) -> None:
    found = description(millstream, "guarantee={delivery: at_most_once, checkpoint_every: 3}")
    assert found["order"] == ["cut", "commit", "process", "checkpoint", "deliver"]
    crashes = {crash["after"]: crash for crash in found["crashes"]}
    assert crashes["commit"]["lost"] == {"epochs": 3, "records": 1500}
    assert crashes["checkpoint"]["rows_missing"]["predictions"] == {"epochs": 1, "records": 500}
    assert crashes["deliver"]["rows_missing"]["predictions"]["epochs"] == 0


def test_without_json_the_effects_are_sentences(millstream: Millstream, folder: Path) -> None:
    ran = millstream("explain", "news.yaml")
    assert ran.code == 0
    assert "at_least_once, recovery epochs; checkpoint after every 4 epochs, commit after every 2 epochs" in ran.out
    assert "  cut -> process -> deliver -> checkpoint -> commit\n" in ran.out
    assert (
        "  a crash right after `checkpoint` of epoch e:\n    - state: at most 4 epochs (2,000 records) trained twice\n"
        in ran.out
    )
    assert "predictions, late: rows of at most 4 epochs (2,000 records) repeated" in ran.out
    assert "The next start loads the newest checkpoint and repeats every epoch that is not committed." in ran.out


def test_the_wait_of_windows_for_each_source_is_a_sentence(millstream: Millstream, folder: Path) -> None:
    untimed = "{type: files, path: news.jsonl, fields: {text: text, label: label}}"
    several = f"sources={{a: {{type: files, path: news.jsonl, idle: 5m}}, b: {untimed}}}"
    ran = millstream("explain", "news.yaml", "--set", "source=null", "--set", several)
    out = " ".join(ran.out.split())
    waits = "windows over event time wait for each partition of source a until it has ended, or was read and silent "
    assert waits + "for 5m; a record more than 1d ahead of the clock is a reject" in out
    assert "windows over event time do not wait for source b: it has no times" in out
    counted = millstream("explain", "news.yaml", "--set", "pipeline.popularity={window: {type: count, size: 9}}")
    assert "windows over event time" not in counted.out


def test_options_are_written_as_in_a_config(millstream: Millstream, folder: Path) -> None:
    out = millstream("explain", "news.yaml", "--set", "pipeline.model={type: naive_bayes}").out
    assert "complement: false, alpha: 0.1, half_life: null" in " ".join(out.split())


def test_exactly_once_has_no_effects_of_a_crash(millstream: Millstream, folder: Path) -> None:
    ran = millstream("explain", "news.yaml", "--set", "guarantee.delivery=exactly_once")
    sentence = "a crash anywhere: nothing is lost, nothing is trained twice, no row is repeated or missing"
    assert sentence in ran.out


def test_piped_output_is_plain(millstream: Millstream, folder: Path) -> None:
    out = millstream("explain", "news.yaml").out
    assert "\x1b" not in out
    assert all(line == line.rstrip() and len(line) <= 120 for line in out.splitlines())


def test_values_of_the_environment_are_not_shown(
    millstream: Millstream, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOPIC_FIELD", "hushhush")
    sets = ["--set", "pipeline.label=${TOPIC_FIELD}", "--set", "source.fields={text: text, hushhush: x}"]
    for form in ([], ["--json"]):
        ran = millstream("explain", "news.yaml", *form, *sets)
        assert ran.code == 0, ran.err
        assert "hush" not in ran.out
        assert "${TOPIC_FIELD}" in ran.out


@pytest.mark.parametrize("command", ["explain", "validate"])
def test_a_bad_config_is_refused_alike(millstream: Millstream, folder: Path, command: str) -> None:
    ran = millstream(command, "news.yaml", "--set", "pipeline.popularity.threshold=2")
    assert ran.code == 2
    assert "(--set) pipeline.popularity.threshold: 2 is not allowed; at most 1" in ran.err
