"""A search judges each candidate as a run would, and its model is that of a training with the best one's options."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.conditions import HANG_SECONDS, wait_until
from support.documents import document_lines
from support.histories import HereSession
from support.killed_histories import kill_history

from millstream.api.run import Run
from millstream.config.load import Loaded, load_config
from millstream.engines.spark.background_session import BackgroundSession
from millstream.engines.spark.shared_session import SHARED
from millstream.errors import Contradiction, MillstreamError
from millstream.history.features import Progress
from millstream.history.search.candidates import candidates_of
from millstream.history.search.judgement import Judgement
from millstream.history.search.search import Searched, search
from millstream.history.train import train
from millstream.runs.start import Options, start
from millstream.runs.termination import descendants
from millstream.state.model_version import ModelVersion
from millstream.study.plots.candidates import draw

RECORDS = 600
GENERATED = {"type": "generator", "records": RECORDS, "topics": 4}
FEATURES = {"type": "hashed_text", "dimensions": 512}
SOFTMAX = {"type": "classify", "model": {"type": "softmax", "rate": "constant", "batch_size": 16}}
RATES = {"model.learning_rate": [0.001, 0.01, 0.1, 1.0], "model.batch_size": [1, 16]}


def write(
    folder: Path, over: Any = RATES, steps: Any = (FEATURES, SOFTMAX), source: Any = GENERATED, **options: Any
) -> Path:
    """Write a config with a search."""
    config = {
        "name": "searched",
        "source": source,
        "pipeline": steps if isinstance(steps, dict) else {"steps": [*steps]},
        "engine": {"type": "local", "epoch": {"max_records": 100}},
        "search": {"over": over, **options},
    }
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def searched(path: Path, out: Path, **options: Any) -> Searched:
    options = {"block_records": 150, "least_records": 50, "sessions": HereSession, **options}
    return search(load_config(path), out, **options)


def rows(found: Searched) -> list[dict[str, Any]]:
    """The candidates of a result, without their times."""
    timed = ("seconds", "cpu_seconds")
    return [{key: value for key, value in row.items() if key not in timed} for row in found.result["candidates"]]


def with_model(loaded: Loaded, **options: Any) -> Loaded:
    return loaded.changed([(f"pipeline.steps.1.model.{key}", value) for key, value in options.items()])


def test_the_version_is_that_of_a_training_with_the_options_of_the_best(tmp_path: Path) -> None:
    path = write(tmp_path)
    found = searched(path, tmp_path / "out")
    best = rows(found)[0]
    options = {key.removeprefix("model."): value for key, value in best["values"].items()}
    alone = train(with_model(load_config(path), **options), tmp_path / "alone", sessions=HereSession)
    assert found.version.digest == alone.version.digest == found.result["digest"]
    assert found.version.trained == alone.version.trained
    assert found.version.steps == alone.version.steps
    assert [part.upto for part in found.version.trained["source"].values()] == [RECORDS]
    for key in ("learned", "labelled", "correct"):
        assert found.result[key] == alone.result[key]
    other = train(load_config(path), tmp_path / "other", sessions=HereSession)
    assert other.version.digest != found.version.digest


def test_a_candidate_is_judged_as_a_run_predicts(tmp_path: Path) -> None:
    lines = [line for line in document_lines(RECORDS + 1) if line.endswith("}")]
    (tmp_path / "news.jsonl").write_text("".join(f"{line}\n" for line in lines))
    source = {"type": "files", "path": "news.jsonl"}
    path = write(tmp_path, source=source, halving=None, held_out=0.25)
    table = rows(searched(path, tmp_path / "out"))
    before = RECORDS * 3 // 4
    tested = [json.loads(line) for line in lines[before:]]
    for row in (table[0], table[-1]):
        options = {key.removeprefix("model."): value for key, value in row["values"].items()}
        run = tmp_path / f"run{row['place']}"
        summary = start(with_model(load_config(path), **options), Options(run, records=before))
        assert (row["records"], row["accuracy"]) == (before, summary.accuracy)
        asked = Run(run).predict([document["text"] for document in tested])
        pairs = [(each.predicted, document.get("label")) for each, document in zip(asked, tested, strict=True)]
        right = [predicted == label for predicted, label in pairs if label is not None]
        assert row["held_out"] == sum(right) / len(right)


def test_each_rung_goes_on_with_the_best_third(tmp_path: Path) -> None:
    path = write(tmp_path, over={**RATES, "model.rate": ["constant", "adaptive"]})
    found, seen = searched(path, tmp_path / "out"), list[tuple[int, int]]()
    table = rows(found)
    assert [row["rung"] for row in table] == [3] * 2 + [2] * 4 + [1] * 10
    assert {row["rung"]: row["records"] for row in table} == {1: 60, 2: 180, 3: 540}
    for rung in (1, 2, 3):
        files = [json.loads(file.read_text()) for file in (tmp_path / "out/judged").glob(f"{rung}-*.json")]
        order = sorted(files, key=lambda each: (-each["prequential"]["correct"], each["candidate"]))
        going_on = [row["candidate"] for row in table if row["rung"] > rung]
        assert {each["candidate"] for each in order[: len(going_on)]} == {*going_on}
        seen.append((rung, len(files)))
    assert seen == [(1, 16), (2, 6), (3, 2)]
    assert found.result["best"] == table[0]["candidate"] == found.best.number


def test_candidates_with_other_steps_before_the_model_get_the_same_records(tmp_path: Path) -> None:
    over = [{"model.type": ["naive_bayes", "sgd"]}, {"model.type": ["softmax"], "model.batch_size": [4]}]
    pipeline = {"use": "text_topics", "features": {**FEATURES}, "popularity": None}
    news = tmp_path / "news.jsonl"
    news.write_text("".join(f"{line}\n" for line in document_lines(RECORDS)))

    def append(progress: Progress) -> None:
        if progress.doing == "ordered":
            with news.open("a") as file:
                file.writelines(f"{line}\n" for line in document_lines(10))

    path = write(tmp_path, over, pipeline, {"type": "files", "path": "news.jsonl"})
    found = searched(path, tmp_path / "out", watch=append)
    assert found.result["records"] == RECORDS
    plans = [file.read_text() for file in sorted((tmp_path / "out/work").glob("*/plan.json"))]
    assert len(plans) == 2 and plans[0] == plans[1]
    assert [len(row["values"]) for row in sorted(rows(found), key=lambda row: row["candidate"])] == [1, 1, 2]
    assert found.version.steps[-1]["model"] == found.result["model"]


def test_the_plot_has_a_curve_and_a_row_for_each_candidate(tmp_path: Path) -> None:
    path, out = write(tmp_path), tmp_path / "out"
    found = searched(path, out)
    files = [out / f"judged/{row['rung']}-{row['candidate']:04d}.json" for row in rows(found)]
    figure = draw("$news", candidates_of(load_config(path)), [Judgement.load(file) for file in files])
    curves, accuracies = figure.axes
    assert figure.get_suptitle() == r"Search of \$news: 8 candidates"
    assert len(curves.lines) == len(accuracies.texts) == 8
    best = found.result["candidates"][0]
    assert f"learning_rate={best['values']['model.learning_rate']}" in accuracies.texts[0].get_text()
    assert accuracies.lines[0].get_xdata() == pytest.approx([100 * best["accuracy"], 100 * best["held_out"]])
    assert (out / "search.png").read_bytes().startswith(b"\x89PNG")


def test_a_candidate_that_fails_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    failing = {"type": "classify", "model": {"type": "support.failing_models:FailingModel"}}
    path = write(tmp_path, {"model.most": [100, None], "model.power": [1.0, 2.0]}, (failing,), halving=None)
    table = rows(searched(path, tmp_path / "out"))
    assert [row["values"]["model.most"] for row in table] == [None, None, 100, 100]
    assert [row["error"] is None for row in table] == [True, True, False, False]
    assert "OverflowError: more than 100 records" in table[-1]["error"]
    path = write(tmp_path, {"model.most": [100, 120]}, (failing,), halving=None)
    with pytest.raises(
        MillstreamError, match=r"all candidates of rung 1 failed; the first of them, candidate 1 \(model.most=100"
    ):
        searched(path, tmp_path / "failed")


def test_records_without_labels_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, source={**GENERATED, "unlabelled": 1.0})
    with pytest.raises(MillstreamError, match=r"the first 180 records have no label, .*; set `search.halving: null`"):
        searched(path, tmp_path / "out")


def test_a_value_from_the_environment_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATE", "constant")
    steps = (FEATURES, {"type": "classify", "model": {"type": "softmax", "rate": "${RATE}"}})
    with pytest.raises(MillstreamError, match=r"'classify' has values from the environment, which a version of"):
        searched(write(tmp_path, {"model.learning_rate": [0.1]}, steps), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_cuts_of_a_run_are_taken(tmp_path: Path) -> None:
    path = write(tmp_path, {"model.batch_size": [1, 16]})
    start(load_config(path), Options(tmp_path / "run"))
    found = searched(path, tmp_path / "out", replay=tmp_path / "run")
    assert found.version.cuts == found.result["cuts"] != "bounded"
    assert found.result["same_as_run"] == (found.best.values == {"model.batch_size": 16})


def test_a_complete_search_does_nothing_and_one_with_other_values_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, {"model.learning_rate": [0.1, 1.0]})
    found = searched(path, tmp_path / "out")
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        *(
            "training.json",
            "version.json",
            "arrays.safetensors",
            "scores.json",
            "search.png",
            "judged",
            "work",
            "_lock",
        ),
    }
    again = searched(path, tmp_path / "out")
    assert again.was_there and again.result == json.loads(json.dumps(found.result))
    assert again.best.values == found.best.values
    write(tmp_path, {"model.learning_rate": [0.1, 2.0]})
    with pytest.raises(Contradiction, match=r"is a training of something else: candidates.* choose another --out"):
        searched(path, tmp_path / "out")


def test_a_training_of_another_kind_is_refused_and_the_folder_stays_as_it_is(tmp_path: Path) -> None:
    loaded = load_config(write(tmp_path, {"model.learning_rate": [0.1, 1.0]}))
    best = searched(tmp_path / "pipeline.yaml", tmp_path / "searched").version
    with pytest.raises(Contradiction, match=r"is a training of something else: .* choose another --out"):
        train(loaded, tmp_path / "searched", sessions=HereSession)
    assert ModelVersion.load(tmp_path / "searched").digest == best.digest
    trained = train(loaded, tmp_path / "trained", sessions=HereSession).version
    with pytest.raises(Contradiction, match=r"is a training of something else: .* choose another --out"):
        searched(tmp_path / "pipeline.yaml", tmp_path / "trained")
    assert ModelVersion.load(tmp_path / "trained").digest == trained.digest


KILLS = {
    "judging": ("from millstream.history.search import judgement; before(judgement, 'process_batch')", 60),
    "learning": ("from millstream.history.how import block_records; before(block_records, 'process_batch')", 3),
    "before the result": ("from millstream.history.folder import Facts; before(Facts, 'complete')", 1),
}


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    """The search of the default config, without a kill."""
    folder = tmp_path_factory.mktemp("golden")
    return searched(write(folder), folder / "out", block_records=30)


@pytest.mark.parametrize("kill", KILLS)
def test_a_killed_search_judges_no_candidate_twice(tmp_path: Path, golden: Searched, kill: str) -> None:
    path, out = write(tmp_path), tmp_path / "out"
    kill_history("millstream.history.search.search:search", path, out, *KILLS[kill], {"least_records": 50})
    judged = {file: file.stat().st_mtime_ns for file in (out / "judged").glob("*.json")}
    assert judged
    seen: list[Progress] = []
    found = searched(path, out, block_records=30, watch=seen.append)
    assert not found.was_there
    now = {file: file.stat().st_mtime_ns for file in (out / "judged").glob("*.json")}
    assert judged.items() <= now.items()
    assert sum({each.doing: each.before for each in seen if each.unit == "candidates"}.values()) == len(judged)
    assert rows(found) == rows(golden)
    assert found.version.digest == golden.version.digest


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_the_result_is_the_same_for_any_number_of_tasks(tmp_path: Path, golden: Searched) -> None:
    path = write(tmp_path)
    session = SHARED.open(tmp_path / "spark.log")
    try:
        for tasks in (1, None):
            found = searched(path, tmp_path / f"tasks{tasks}", tasks=tasks, sessions=BackgroundSession)
            assert rows(found) == rows(golden)
            assert found.version.digest == golden.version.digest
    finally:
        SHARED.leave(session, keep=True)


@pytest.mark.spark
@pytest.mark.long
def test_a_search_whose_processes_are_killed_continues_with_the_same_command(tmp_path: Path) -> None:
    path, out = (
        write(tmp_path, {"model.learning_rate": [0.01, 0.1, 1.0], "model.batch_size": [1, 2, 4, 8]}),
        tmp_path / "out",
    )
    config = yaml.safe_load(path.read_text())
    config["source"]["records"] = 60_000
    path.write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "millstream", "train", str(path), "--how", "search", "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: len([*out.glob("judged/*.json")]) >= 2, "two candidates", process)
    for pid in [process.pid, *descendants(process.pid)]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=HANG_SECONDS)
    judged = {file: file.stat().st_mtime_ns for file in (out / "judged").glob("*.json")}
    again = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG_SECONDS)
    assert judged.items() <= {file: file.stat().st_mtime_ns for file in (out / "judged").glob("*.json")}.items()
    assert "from earlier starts" in again.stderr
    result = json.loads((out / "training.json").read_text())["result"]
    golden = searched(path, tmp_path / "golden", block_records=50_000, least_records=1000)
    assert result["digest"] == golden.result["digest"]
    assert [row["candidate"] for row in result["candidates"]] == [row["candidate"] for row in rows(golden)]
