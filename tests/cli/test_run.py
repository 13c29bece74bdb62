"""`millstream run` as a user runs it: its output, its refusals, and the epoch that it continues from."""

from __future__ import annotations

import gc
import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.command_result import CommandResult, Millstream

from millstream.api.observers import changed_libraries
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.checkpoints import Checkpoint

KEYS = [
    *("run", "pipeline", "engine", "delivery", "recovery", "ended", "records", "processed", "epochs", "delivered"),
    *("accuracy", "baselines", "model", "state", "outputs", "versions", "seconds", "records_per_second"),
]


def summary_of(ran: CommandResult) -> dict[str, Any]:
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out.splitlines()[-1])
    return found


def results(summary: dict[str, Any]) -> dict[str, Any]:
    return {key: summary[key] for key in ("records", "accuracy", "baselines", "model", "state", "outputs", "delivered")}


@pytest.mark.usefixtures("demo")
def test_json_is_one_object_with_nothing_beside_it(millstream: Millstream) -> None:
    ran = millstream("run", "demo.yaml", "--json")
    summary = summary_of(ran)
    assert list(summary) == KEYS
    assert (ran.err, len(ran.out.splitlines())) == ("", 1)
    assert (summary["run"], summary["ended"], summary["records"], summary["epochs"]) == ("runs/demo", "idle", 5000, 10)
    assert summary["delivered"]["predictions"] == 5000
    assert 0.5 < summary["accuracy"] < 1.0
    assert all(0.05 < share < 0.5 for share in summary["baselines"].values())
    assert list(summary["baselines"]) == ["no_change", "majority"]


@pytest.mark.usefixtures("demo")
def test_the_report_has_results_locations_and_commands_to_try(millstream: Millstream) -> None:
    ran = millstream("run", "demo.yaml")
    assert ran.code == 0
    assert "demo in runs/demo, exactly_once: starting" in ran.err
    assert "records    5,000 in 10 epochs" in ran.out
    line = r"accuracy   0\.\d{4}, each .* learned; baselines: previous label 0\.\d{4}, most common label 0\.\d{4}\n"
    assert re.search(line, ran.out) and "better prediction than the model's" not in ran.out
    assert "5,000 rows" in ran.out and "runs/demo/outputs/predictions" in ran.out
    assert "read runs/demo topics" in ran.out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a goal", "time": 1.7e12}', "rejects    30, at least half of the records: `"),
        ('{"text": "a goal", "topic": "sport"}', "30 records have a prediction; a record that only a later step"),
        ('{"text": "a goal", "topic": "sport", "time": 7}', "labels     no record had one, so the model"),
    ],
)
def test_a_run_without_useful_results_prints_the_reason(
    folder: Path, millstream: Millstream, line: str, message: str
) -> None:
    (folder / "documents.jsonl").write_text(f"{line}\n" * 30)
    source = "source={type: files, path: documents.jsonl}"
    ran = millstream("run", "news.yaml", "--set", source, "--run", "runs/nothing")
    assert ran.code == 0, ran.err
    assert message in ran.out


def test_a_run_whose_filter_drops_everything_prints_that_no_record_reached_the_model(
    folder: Path, millstream: Millstream
) -> None:
    (folder / "dropping.yaml").write_text(
        "name: dropping\nsource: {type: generator, records: 30}\nengine: {type: local}\npipeline:\n  steps:\n"
        "    - {type: filter, function: 'operator:not_'}\n"
        "    - {type: classify, model: {type: naive_bayes, features: {}}}\n"
    )
    ran = millstream("run", "dropping.yaml")
    assert ran.code == 0, ran.err
    assert "labels     no record reached step 'classify': all were dropped or rejected before it" in ran.out
    assert "check `fields`" not in ran.out


@pytest.mark.usefixtures("demo")
def test_a_model_that_is_worse_than_a_baseline_is_reported(millstream: Millstream) -> None:
    worse = ("--set", "pipeline.model.type=no_change", "--set", "pipeline.model.batch_size=1000")
    ran = millstream("run", "demo.yaml", *worse)
    assert re.search(
        r"learned; .*\n {13}a better prediction than the model's, without reading the records: .*label\n", ran.out
    ), ran.out
    assert "better prediction than the model's" in millstream("status", "runs/demo").out


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize("baseline", ["no_change", "majority"])
def test_a_baseline_as_the_model_has_the_accuracy_that_other_runs_report_for_it(
    millstream: Millstream, baseline: str
) -> None:
    summary = summary_of(millstream("run", "demo.yaml", "--run", "other", "--json"))
    model = ("--set", f"pipeline.model={{type: {baseline}}}")
    assert summary_of(millstream("run", "demo.yaml", *model, "--json"))["accuracy"] == summary["baselines"][baseline]


@pytest.mark.usefixtures("demo")
def test_no_record_waits_for_garbage_collection_among_the_objects_of_libraries(millstream: Millstream) -> None:
    gc.unfreeze()
    assert millstream("run", "demo.yaml", "--json").code == 0
    assert gc.get_freeze_count() > 100_000, "the modules of NumPy, Arrow and Numba alone are more objects"


@pytest.mark.usefixtures("demo")
def test_a_second_run_has_nothing_new_and_changes_nothing(millstream: Millstream) -> None:
    first = summary_of(millstream("run", "demo.yaml", "--json"))
    again = millstream("run", "demo.yaml")
    assert again.code == 0
    assert again.out.startswith("no new records in source (generator); --fresh starts over\n")
    assert "continuing runs/demo from epoch 10, record 5,000" in again.err
    assert results(summary_of(millstream("run", "demo.yaml", "--json"))) == results(first)


@pytest.mark.usefixtures("demo")
def test_records_limits_one_start_and_the_next_start_continues(millstream: Millstream) -> None:
    whole = summary_of(millstream("run", "demo.yaml", "--run", "whole", "--json"))
    assert summary_of(millstream("run", "demo.yaml", "--run", "cut", "--records", 1500, "--json"))["records"] == 1500
    rest = millstream("run", "demo.yaml", "--run", "cut")
    assert "continuing cut from epoch 3, record 1,500\n" in rest.err
    summary = json.loads(Path("cut/summary.json").read_text())
    assert results(summary) == results(whole)
    assert summary["processed"] == 5000


@pytest.mark.usefixtures("demo")
def test_fresh_moves_the_run_aside_and_starts_over(millstream: Millstream) -> None:
    first = summary_of(millstream("run", "demo.yaml", "--json"))
    ran = millstream("run", "demo.yaml", "--fresh")
    assert "starting over; the previous run is in runs/demo.1" in ran.err
    assert results(json.loads(Path("runs/demo/summary.json").read_text())) == results(first)
    assert json.loads(Path("runs/demo.1/summary.json").read_text())["records"] == 5000
    assert millstream("read", "runs/demo.1", "topics").out == millstream("read", "runs/demo", "topics").out


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("source.records=6000", "source: records was 5000, is 6000"),
        ("source.ahead=2h", 'source: ahead was null, is "2h"'),
        ("pipeline.model.batch_size=32", "steps: classify.model.batch_size was 64, is 32"),
        ("pipeline.popularity.threshold=0.2", "steps: popularity.threshold was 0.1, is 0.2"),
        ("guarantee.delivery=at_least_once", "delivery"),
    ],
)
def test_a_change_that_is_not_allowed_is_refused_by_name(millstream: Millstream, change: str, named: str) -> None:
    summary_of(millstream("run", "demo.yaml", "--records", 500, "--json"))
    ran = millstream("run", "demo.yaml", "--set", change)
    assert ran.code == 3
    part, colon, difference = named.partition(":")
    assert f"runs/demo: the {part} changed since the first start{colon}{difference}" in ran.err
    assert "--fresh" in ran.err


@pytest.mark.usefixtures("demo")
def test_engine_epochs_idle_and_checkpoints_may_change(millstream: Millstream) -> None:
    summary_of(millstream("run", "demo.yaml", "--records", 500, "--json"))
    changes = [
        "engine.epoch.max_records=700",
        "source.idle=5m",
        "guarantee.checkpoint_every=3",
        "guarantee.commit_every=2",
    ]
    sets = [argument for change in changes for argument in ("--set", change)]
    assert summary_of(millstream("run", "demo.yaml", *sets, "--json"))["records"] == 5000


@pytest.mark.usefixtures("demo")
def test_a_crash_that_did_not_happen_is_reported(millstream: Millstream) -> None:
    ran = millstream("run", "demo.yaml", "--crash", "deliver@99", "--json")
    assert ran.err == "warning: the crash at deliver@99 did not happen: the run ended before it\n"
    assert summary_of(ran)["epochs"] == 10
    again = millstream("run", "demo.yaml", "--crash", "deliver.topics@9")
    assert "the crash at deliver.topics@9 did not happen: an earlier start had passed it" in again.err
    rare = millstream("run", "demo.yaml", "--set", "guarantee.checkpoint_every=4", "--crash", "checkpoint.layers@4")
    assert "did not happen: no checkpoint is taken after this epoch, with `checkpoint_every: 4`" in rare.err
    Path("runs/demo/crashed").write_text("checkpoint@3")
    assert "did not happen" not in millstream("run", "demo.yaml", "--crash", "checkpoint@3").err


def test_a_single_epoch_is_written_in_the_singular(folder: Path, millstream: Millstream) -> None:
    assert folder.is_dir()
    assert "records    1 in 1 epoch\n" in millstream("run", "news.yaml").out


@pytest.mark.usefixtures("demo")
def test_a_replay_cuts_the_epochs_of_the_other_run(millstream: Millstream) -> None:
    summary_of(millstream("run", "demo.yaml", "--run", "first", "--records", 700, "--json"))
    first = summary_of(millstream("run", "demo.yaml", "--run", "first", "--json"))
    replay = ["--run", "second", "--replay", "first", "--set", "engine.epoch.max_records=123"]
    second = summary_of(millstream("run", "demo.yaml", *replay, "--json"))
    assert results(second) == results(first) and second["epochs"] == first["epochs"]


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["dem.yaml"], 2, "dem.yaml: no such file; did you mean `demo.yaml`?"),
        (["demo.yaml", "--set", "engine.type=flink"], 2, "one of spark, local"),
        (["demo.yaml", "--records", "0"], 2, "--records"),
        (["demo.yaml", "--crash", "delver@3"], 2, "did you mean `deliver`?"),
        (["demo.yaml", "--crash", "deliver.topic@3"], 2, "there is no sink 'topic'"),
        (["demo.yaml", "--replay", "nowhere"], 1, "nowhere is not a run directory"),
        (["demo.yaml", "--run", "demo.yaml/x"], 1, "cannot write the run directory demo.yaml/x"),
    ],
)
def test_a_wrong_command_is_refused_with_the_reason(
    millstream: Millstream, arguments: list[str], code: int, message: str
) -> None:
    ran = millstream("run", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert "Traceback" not in ran.err


BREAKING = """\
import pathlib

def keep(record):
    if pathlib.Path("broken").exists():
        raise ValueError("no such thing")
    return True
"""


def test_status_has_the_error_of_a_failed_run_until_the_run_continues(
    millstream: Millstream, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(demo))
    (demo / "breaking.py").write_text(BREAKING)
    (demo / "broken").touch()
    config = (demo / "demo.yaml").read_text()
    begin, end = config.index("pipeline:"), config.index("engine:")
    steps = "pipeline: {steps: [{type: filter, function: 'breaking:keep'}]}\n"
    (demo / "demo.yaml").write_text(config[:begin] + steps + config[end:])

    ran = millstream("run", "demo.yaml")
    assert ran.code == 1 and "no such thing" in ran.err and "Traceback" not in ran.err
    status = json.loads(millstream("status", "runs/demo", "--json").out)
    assert status["state"] == "failed" and "no such thing" in status["error"]

    (demo / "broken").unlink()
    assert summary_of(millstream("run", "demo.yaml", "--json"))["accuracy"] is None
    status = json.loads(millstream("status", "runs/demo", "--json").out)
    assert (status["state"], status["error"]) == ("ended", None)


def test_libraries_that_changed_since_the_newest_checkpoint_are_reported() -> None:
    now = {"python": "3.11.7", "numpy": "2.2"}
    before = {**now, "numpy": "1.0", "pyspark": "4.2"}  # the run was on Spark before, and is on the local engine now
    assert changed_libraries(Checkpoint(0, 0, AppliedEpochs(), before), now) == "numpy 1.0 (now 2.2)"
    assert changed_libraries(Checkpoint(0, 0, AppliedEpochs(), now), now) == ""
    assert changed_libraries(None, now) == ""
